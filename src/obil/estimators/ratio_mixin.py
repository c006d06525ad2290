"""What every classifier here offers once it is fitted: log ratios, posteriors at any prior, labels."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from obil.arrays import FloatArray, IntArray, PriorLike
from obil.bayes.posterior import posterior
from obil.calibration.block_length import block_length
from obil.calibration.block_tolerance import block_tolerance
from obil.calibration.calibrate import fit_calibrator
from obil.calibration.evidence_map import fit_evidence_map
from obil.calibration.fold_mean import scores_of_mean
from obil.errors import InvalidInputError
from obil.serving.columns import ColumnEncoder
from obil.serving.folds import folds_of
from obil.serving.holdout import Holdout
from obil.serving.ratio_model import Evidence, RatioModel, prior_of_classes
from obil.serving.scorers import Scorer


class HeldOutScores(NamedTuple):
    """Raw scores of rows by classifiers that have not seen them."""

    scores: FloatArray  # (n, K)
    labels: IntArray  # (n,)
    weights: FloatArray  # (n,)
    pairs: FloatArray  # (m, 2, K) two folds' scores of the same rows
    blocks: IntArray | None = None  # (n,) the fold of each row, where folds are blocks of time or groups
    times: npt.NDArray[Any] | None = None  # (n,) when each row came, where that is known


class RatioMixin(ClassifierMixin):  # type: ignore[misc]  # sklearn is untyped
    """Answers from the fitted `model_`; a subclass fits it and says in `_check_rows` what rows it takes."""

    classes_: npt.NDArray[Any]
    model_: RatioModel

    @property
    def prior_(self) -> FloatArray:
        """The class prior of the training population, (K,)."""
        return self._fitted().prior_

    @property
    def holdout_(self) -> Holdout:
        """Held-out log ratios with labels."""
        return self._fitted().holdout_

    def log_ratios(self, X: Any) -> FloatArray:
        """Return calibrated log p(x|k) - log p(x|0), (n, K)."""
        model = self._fitted()
        return model.log_ratios(self._check_rows(X))

    def predict_proba(self, X: Any, *, prior: PriorLike | Mapping[Any, float] | None = None) -> FloatArray:
        """Return posteriors at any prior: a number, an array or {class: p}; without one, at the training prior."""
        ratios = self.log_ratios(X)
        return posterior(ratios, self.prior_ if prior is None else prior_of_classes(prior, self.classes_))

    def predict(self, X: Any, *, prior: PriorLike | Mapping[Any, float] | None = None) -> npt.NDArray[Any]:
        """Return the most probable class of each row at any prior; without one, at the training prior."""
        most_probable = np.argmax(self.predict_proba(X, prior=prior), axis=1)
        chosen: npt.NDArray[Any] = self.classes_[most_probable]
        return chosen

    def describe(self) -> str:
        """Return a text on what serves: scores, evidence, classes, features, calibration and views."""
        return self._fitted().describe()

    def with_encoder(self, encoder: ColumnEncoder) -> RatioModel:
        """Return the fitted model for tables whose columns `encoder` turns into this model's matrix."""
        return replace(self._fitted(), feature_names=encoder.names, encoder=encoder)

    def _calibrated_model(
        self,
        held_out: HeldOutScores,
        scorer: Scorer,
        prior: FloatArray,
        *,
        method: str,
        slope_sd: float | None,
        refitted: Scorer | None = None,
        random_state: int | None = None,
    ) -> RatioModel:
        """Calibrate what decides, and choose the map that evidence is read by.

        What decides is the mean of the folds of `scorer`, or `refitted`; evidence comes from one fold per row.
        """
        scores, labels, weights, pairs, blocks, times = held_out
        decided = scores
        if refitted is None:
            decided = scores_of_mean(scores, labels, weights, pairs[:, :, 1], len(folds_of(scorer)))
        settings: dict[str, Any] = {"method": method, "slope_sd": slope_sd, "random_state": random_state}
        calibrator = fit_calibrator(decided, labels, weights, **settings)
        known = calibrator if decided is scores else None
        score_map, choice = fit_evidence_map(scores, labels, weights, calibrator=known, blocks=blocks, **settings)
        evidence = score_map.apply(scores)
        tolerance = 0.0 if blocks is None else block_tolerance(evidence, labels, blocks)
        block = 1 if times is None else block_length(evidence, labels, times, blocks)
        return RatioModel(
            scorer=scorer if refitted is None else refitted,
            calibrator=calibrator,
            classes_=self.classes_,
            prior_=prior,
            holdout_=Holdout.of(calibrator.apply(decided), labels, weights),
            calibration=method,
            evidence=Evidence(score_map, scores, None if refitted is None else scorer, tolerance, block, choice),
        )

    def _check_rows(self, X: Any) -> Any:
        return X

    def _fitted(self) -> RatioModel:
        check_is_fitted(self, "model_")
        return self.model_

    def _learn_classes(self, X: Any, y: Any) -> tuple[npt.NDArray[Any], IntArray]:
        """Check the labels and learn the classes; return labels and class numbers, (n,) each."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        labels = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=None, input_name="y")
        check_consistent_length(X, labels)
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInputError(
                f"a ratio needs two classes, got 1 class ({self.classes_.tolist()}) in n_samples = {len(labels)}"
            )
        return labels, numbers.astype(np.int64)


def warn_of_dependence(model: RatioModel) -> None:
    """Tell the caller of `fit` that neighbouring rows depend on each other, where they do."""
    block = 1 if model.evidence is None else model.evidence.block
    if block > 1:
        warnings.warn(
            f"rows resemble those just before them, beyond their class: the monitor bets on blocks of {block} "
            "rows instead of single ones, and needs more rows to find a change",
            stacklevel=3,
        )


def as_weights(sample_weight: npt.ArrayLike, n_rows: int) -> FloatArray:
    """Return the weights of rows, (n,), checked; a single number is the weight of all."""
    weights = np.asarray(sample_weight)
    if weights.ndim == 0:
        weights = np.full(n_rows, weights)
    if weights.shape != (n_rows,):
        raise InvalidInputError(f"sample_weight must have shape ({n_rows},), got {weights.shape}")
    checked: FloatArray = check_array(weights, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if (checked < 0.0).any():
        raise InvalidInputError(f"sample_weight must not be negative, got {checked.min():g}")
    if not checked.any():
        raise InvalidInputError("sample_weight must not be zero for all rows")
    return checked
