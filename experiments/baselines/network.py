"""Prepare rows for networks, and name the paper's network."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from imblearn.pipeline import make_pipeline as make_resampling_pipeline
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from experiments.protocol import SplitSet
from obil.arrays import FloatArray, IntArray
from obil.data.splits import stratified_split

HIDDEN = (128, 64, 32)
EPOCHS = 50


class Prepared(NamedTuple):
    """Rows as numbers: all that trains, its part that fits and the part that validates, and what is held out."""

    rows: FloatArray
    labels: IntArray
    fit: IntArray  # row numbers
    validation: IntArray
    test: FloatArray


def prepare(split: SplitSet) -> Prepared:
    """Return the rows filled, scaled and encoded by what the training rows say."""
    categories = list(split.categorical)
    numbers = [column for column in split.train.columns if column not in categories]
    encoder = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler()), numbers),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), categories),
    )
    rows = np.asarray(encoder.fit_transform(split.train), dtype=np.float64)
    parts = stratified_split(split.train_labels, test_share=0.25, random_state=split.seed, rows=rows)
    test = np.asarray(encoder.transform(split.test), dtype=np.float64)
    return Prepared(rows, split.train_labels, parts.train, parts.test, test)


def network(seed: int, *, epochs: int = EPOCHS, decay: float = 1e-4) -> MLPClassifier:
    """Return the paper's network: three hidden layers with rectifiers, Adam at 1e-3."""
    return MLPClassifier(HIDDEN, max_iter=epochs, alpha=decay, random_state=seed)


def fit_quietly(model: Any, rows: FloatArray, labels: IntArray, **settings: Any) -> Any:
    """Fit a model whose networks stop after a number of epochs, as they are told to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows, labels, **settings)


def resampled(sampler: Any, seed: int) -> Any:
    """Return the paper's network on rows that a sampler has balanced."""
    return make_resampling_pipeline(sampler, network(seed))
