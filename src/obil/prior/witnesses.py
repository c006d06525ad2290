"""Say, from held-out rows, how far a model's prior can be trusted and how its views ought to agree.

A model is allowed to drift: no likelihood ratio stays exact in the wild. How much a drift of `RATIO_DRIFT` moves the
estimated prior is its *sensitivity*; a weak classifier's is large, and such a prior is not worth following.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.errors import InvalidStateError
from obil.model.holdout import Holdout
from obil.model.ratio_model import RatioModel
from obil.prior.calibration_spread import calibration_variance

RATIO_DRIFT = 0.1  # in the log ratio: what any model may be off by after deployment
START_ROWS = 1_500  # rows at the start prior whose information a disagreement starts with
GRID = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99)
MOST_ROWS = 6_000  # held-out rows that are looked at
DIGITS = 6  # that are kept, so that a table is the same wherever it is made
NEWTON_STEPS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Witnesses:
    """What held-out rows say of W = V + 1 opinions (the model's first) on C classes, at G levels of the prior."""

    expected: FloatArray  # (C, V, G) how far each view's x lies from the model's under label shift
    sensitivity: FloatArray  # (C, G) of the model's x to a drift of the ratio
    noise: FloatArray  # (V, C) the variance of a view's distance that its calibrator and the model's leave open
    least_information: FloatArray  # (W, C) of START_ROWS rows

    @property
    def n_views(self) -> int:
        """The number of views, V."""
        return len(self.noise)

    @property
    def grid(self) -> FloatArray:
        """The levels of the prior, (G,)."""
        return np.array(GRID)

    @classmethod
    def nobody(cls, n_classes: int) -> "Witnesses":
        """Return what is known where nothing is: no views, and no sensitivity."""
        watched = 1 if n_classes == 2 else n_classes
        return cls(
            np.zeros((watched, 0, len(GRID))),
            np.zeros((watched, len(GRID))),
            np.zeros((0, watched)),
            np.zeros((1, watched)),
        )

    @classmethod
    def of_model(cls, model: RatioModel) -> "Witnesses":
        """Return what the held-out rows of a model say of it and of its views."""
        rows = _some_rows(model.holdout_)
        labels, weights = model.holdout_.labels[rows], model.holdout_.weights[rows]
        opinions = [model.holdout_.log_ratios, *(view.holdout for view in model.view_members)]
        calibrators = [model.calibrator, *(view.calibrator for view in model.view_members)]
        watched = [1] if model.n_classes == 2 else list(range(model.n_classes))
        expected = np.zeros((len(watched), len(opinions) - 1, len(GRID)))
        sensitivity = np.zeros((len(watched), len(GRID)))
        information = np.zeros((len(opinions), len(watched)))
        variances = np.zeros((len(opinions), len(watched)))
        for w, (opinion, calibrator) in enumerate(zip(opinions, calibrators, strict=True)):
            part = Holdout(opinion[rows], labels, weights)
            spread = calibration_variance(calibrator, part, model.prior_)
            for c, k in enumerate(watched):
                share = float(model.prior_[k])
                log_ratios = _one_against_rest(part.log_ratios, model.prior_, k)
                arcs = np.array([_arcs(log_ratios, _weights(part, model.prior_, k, level)) for level in GRID])
                if w == 0:
                    sensitivity[c] = np.abs(arcs[:, 2] - arcs[:, 0]) / 2.0
                    expected[c] = -arcs[:, 1]
                else:
                    expected[c, w - 1] += arcs[:, 1]
                at_start = _weights(part, model.prior_, k, share)
                information[w, c] = START_ROWS * _information(log_ratios, at_start, share)
                variances[w, c] = spread[k] * share * (1.0 - share) / 4.0
        noise = variances[1:] + variances[0]
        return cls(*(_rounded(array) for array in (expected, sensitivity, noise, information)))

    def to_json(self) -> dict[str, Any]:
        """Return the tables as JSON values."""
        return {
            "expected": self.expected.tolist(),
            "sensitivity": self.sensitivity.tolist(),
            "noise": self.noise.tolist(),
            "least_information": self.least_information.tolist(),
        }

    @classmethod
    def from_json(cls, described: Mapping[str, Any], *, n_classes: int) -> "Witnesses":
        """Return the tables that gave these values, checked."""
        watched = 1 if n_classes == 2 else n_classes
        try:
            noise = np.asarray(described["noise"], dtype=np.float64).reshape(-1, watched)
            expected = np.asarray(described["expected"], dtype=np.float64).reshape(watched, len(noise), len(GRID))
            sensitivity = np.asarray(described["sensitivity"], dtype=np.float64).reshape(watched, len(GRID))
            information = np.asarray(described["least_information"], dtype=np.float64).reshape(len(noise) + 1, watched)
        except (KeyError, TypeError, ValueError):
            raise InvalidStateError("the witnesses of a safe tracker are damaged") from None
        arrays = (expected, sensitivity, noise, information)
        positive = all(bool((array >= 0.0).all()) for array in arrays[1:])
        if not positive or not all(bool((np.abs(array) < 1e12).all()) for array in arrays):
            raise InvalidStateError("the witnesses of a safe tracker are damaged")
        return cls(*arrays)


def _some_rows(holdout: Holdout) -> IntArray:
    """Return evenly spread rows, as many of each class as there are or as are enough."""
    most = MOST_ROWS // holdout.n_classes
    members = (np.flatnonzero(holdout.labels == k) for k in range(holdout.n_classes))
    return np.concatenate([rows[:: max(1, -(-len(rows) // most))] for rows in members])


def _one_against_rest(log_ratios: FloatArray, prior: FloatArray, k: int) -> FloatArray:
    """Return log p(x | k) / p(x | not k), the other classes in the proportions of `prior`, (n,)."""
    others = np.arange(len(prior)) != k
    largest = log_ratios[:, others].max(axis=1)
    rest = np.exp(log_ratios[:, others] - largest[:, None]) @ (prior[others] / prior[others].sum())
    return np.asarray(np.clip(log_ratios[:, k] - largest - np.log(rest), -30.0, 30.0))


def _weights(rows: Holdout, prior: FloatArray, k: int, level: float) -> FloatArray:
    """Return weights that give class k the share `level` and the others what is left, in their proportions."""
    shifted = prior * (1.0 - level) / (1.0 - prior[k])
    shifted[k] = level
    return rows.weights_at(shifted)


def _arcs(log_ratios: FloatArray, weights: FloatArray) -> list[float]:
    """Return x of the most likely prior with the ratio lower by the drift, as it is, and higher."""
    return [_most_likely(np.exp(log_ratios + drift), weights) for drift in (-RATIO_DRIFT, 0.0, RATIO_DRIFT)]


def _most_likely(ratios: FloatArray, weights: FloatArray) -> float:
    """Return arcsin sqrt(P) of the prior that makes weighted rows most likely, by Newton steps kept in a bracket."""
    low, high, prior = 0.0, 1.0, 0.5
    for _ in range(NEWTON_STEPS):
        scores = (ratios - 1.0) / (1.0 + prior * (ratios - 1.0))
        slope = float(weights @ scores)
        low, high = (prior, high) if slope > 0.0 else (low, prior)
        proposed = prior + slope / max(float(weights @ scores**2), 1e-300)
        following = proposed if low < proposed < high else (low + high) / 2.0
        if abs(following - prior) < 1e-9:
            break
        prior = following
    return float(np.arcsin(np.sqrt(prior)))


def _information(log_ratios: FloatArray, weights: FloatArray, prior: float) -> float:
    """Return the information of one row on x at a prior."""
    ratios = np.exp(log_ratios)
    scores = (ratios - 1.0) / (1.0 + prior * (ratios - 1.0))
    return float(weights @ scores**2) * 4.0 * prior * (1.0 - prior)


def _rounded(values: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        places = np.where(values == 0.0, 0.0, DIGITS - 1 - np.floor(np.log10(np.abs(values))))
    scale = 10.0**places
    rounded: FloatArray = np.round(values * scale) / scale
    return rounded
