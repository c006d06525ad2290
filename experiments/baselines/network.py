"""Prepare rows for networks, and name the paper's network."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from imblearn.pipeline import make_pipeline as make_resampling_pipeline
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from experiments.protocol import SplitSet
from obil.arrays import FloatArray, IntArray
from obil.datasets.splits import stratified_split

HIDDEN = (128, 64, 32)
EPOCHS = 50


class Prepared(NamedTuple):
    """Rows as numbers: all that trains, its part that fits and the part that validates, and what is held out."""

    rows: FloatArray  # filled and scaled, for networks
    unfilled: FloatArray  # NaN where missing, for trees
    labels: IntArray
    fit: IntArray  # row numbers
    validation: IntArray
    test: FloatArray
    unfilled_test: FloatArray


@lru_cache(maxsize=2)
def prepare(split: SplitSet) -> Prepared:
    """Return the rows filled, scaled and encoded by what the training rows say."""
    categories = list(split.categorical)
    numbers = [column for column in split.train.columns if column not in categories]
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    filled = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
    for_networks = make_column_transformer((filled, numbers), (one_hot, categories))
    for_trees = make_column_transformer(("passthrough", numbers), (one_hot, categories))
    rows, test = _encoded(for_networks, split)
    unfilled, unfilled_test = _encoded(for_trees, split)
    parts = stratified_split(split.train_labels, test_size=0.25, random_state=split.seed, rows=rows)
    return Prepared(rows, unfilled, split.train_labels, parts.train, parts.test, test, unfilled_test)


def network(seed: int, *, epochs: int = EPOCHS, decay: float = 1e-4) -> MLPClassifier:
    """Return the paper's network: three hidden layers with rectifiers, Adam at 1e-3."""
    return MLPClassifier(HIDDEN, max_iter=epochs, alpha=decay, random_state=seed)


def resampled(sampler: Any, seed: int) -> Any:
    """Return the paper's network on rows that a sampler has balanced."""
    return make_resampling_pipeline(sampler, network(seed))


class WeightedNetwork:
    """The paper's network with a weight on the positives."""

    def __init__(self, seed: int, weight: float) -> None:
        self._network, self._weight = network(seed), weight

    def fit(self, rows: FloatArray, labels: IntArray) -> "WeightedNetwork":
        """Train with the loss of a positive counted `weight` times."""
        self._network.fit(rows, labels, sample_weight=np.where(labels == 1, self._weight, 1.0))
        return self

    def predict_proba(self, rows: FloatArray) -> FloatArray:
        """Return posteriors at the class prior that the weight makes, (n, 2)."""
        return np.asarray(self._network.predict_proba(rows))


def _encoded(encoder: Any, split: SplitSet) -> tuple[FloatArray, FloatArray]:
    train = np.asarray(encoder.fit_transform(split.train), dtype=np.float64)
    return train, np.asarray(encoder.transform(split.test), dtype=np.float64)
