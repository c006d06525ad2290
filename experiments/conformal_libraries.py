"""Make prediction sets with the conformal libraries that are installed, from the probabilities of another model."""

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from obil.arrays import BoolArray, FloatArray, IntArray

MAPIE_SCORES = ("lac", "aps", "raps", "top_k")


class GivenProbabilities(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier whose rows are the probabilities that it returns."""

    def fit(self, X: FloatArray, y: IntArray) -> Self:
        """Learn how many classes there are."""
        self.classes_ = np.arange(np.shape(X)[1])
        self.n_features_in_ = self.classes_.size
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return the rows."""
        return np.asarray(X)

    def predict(self, X: FloatArray) -> IntArray:
        """Return the most probable class of each row."""
        return np.asarray(X.argmax(axis=1), dtype=np.int64)


def library_sets(
    held_out: FloatArray, labels: IntArray, rows: FloatArray, *, coverage: float, seed: int
) -> Iterator[tuple[str, BoolArray]]:
    """Yield the name of each method and its sets (n, K) of rows of probabilities (n, K), as each library has it set."""
    if find_spec("mapie"):
        classification: Any = import_module("mapie.classification")
        for score in MAPIE_SCORES:
            made = classification.SplitConformalClassifier(
                GivenProbabilities().fit(held_out, labels), confidence_level=coverage, conformity_score=score,
                prefit=True, random_state=seed,
            )  # fmt: skip
            made.conformalize(held_out, labels)
            yield f"mapie_{score}", np.asarray(made.predict_set(rows)[1][:, :, 0], dtype=bool)
    if find_spec("crepes"):
        base: Any = import_module("crepes.base")
        for by_class in (False, True):
            made = base.WrapClassifier(GivenProbabilities().fit(held_out, labels))
            made.calibrate(held_out, labels, class_cond=by_class, seed=seed)
            found = made.predict_set(rows, labels=False, confidence=coverage, seed=seed)
            yield "crepes_class" if by_class else "crepes", np.asarray(found, dtype=bool)
