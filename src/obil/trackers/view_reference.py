"""Measure, on held-out rows, how sensitive a model's estimated prior is and how far its views should agree.

No likelihood ratio stays exact after deployment, and none was exact before. How far a drift of `RATIO_DRIFT`, and the
uncertainty of the map that evidence is read by, move the estimated prior is its *sensitivity*; that of a weak
classifier or of one calibrated on few positives is large, and such a prior is not worth following.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from obil.arrays import FloatArray
from obil.bayes.one_vs_rest import one_vs_rest
from obil.errors import InvalidStateError
from obil.serving.holdout import Holdout
from obil.serving.ratio_model import RatioModel
from obil.trackers.calibration_spread import map_variance, thinned_rows

RATIO_DRIFT = 0.1  # in the log ratio: what any model may be off by after deployment
START_ROWS = 1_500  # rows at the start prior whose information a disagreement starts with
GRID = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99)
MOST_ROWS = 6_000  # held-out rows that are looked at, about
DIGITS = 6  # that are kept, so that a table is the same wherever it is made
NEWTON_STEPS = 40
TABLES = ("expected", "sensitivity", "noise", "least_information")


@dataclass(frozen=True, slots=True, eq=False)
class ViewReference:
    """What held-out rows show of W = V + 1 models (the main one first) on C classes, at G levels of the prior.

    >>> ViewReference.empty(2).n_views
    0
    """

    expected: FloatArray  # (C, V, G) how far each view's x lies from the model's under label shift
    sensitivity: FloatArray  # (C, G) of the model's x to a drift of the ratio and the uncertainty of its map
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
    def empty(cls, n_classes: int) -> "ViewReference":
        """Return the reference of a model without views or held-out rows: no sensitivity."""
        n_monitored = 1 if n_classes == 2 else n_classes
        return cls(
            np.zeros((n_monitored, 0, len(GRID))),
            np.zeros((n_monitored, len(GRID))),
            np.zeros((0, n_monitored)),
            np.zeros((1, n_monitored)),
        )

    @classmethod
    def of_model(cls, model: RatioModel) -> "ViewReference":
        """Measure a model and its views on its held-out rows."""
        labels = model.holdout_.labels
        rows = thinned_rows(labels, n_classes=model.n_classes, most=MOST_ROWS // model.n_classes)
        labels, weights = labels[rows], model.holdout_.weights[rows]
        models = [(score_map, scores[rows]) for score_map, scores in model.evidence_maps]
        parts = [Holdout(score_map.apply(scores), labels, weights) for score_map, scores in models]
        spreads = [map_variance(score_map, scores, labels, weights, model.prior_) for score_map, scores in models]
        monitored = [1] if model.n_classes == 2 else list(range(model.n_classes))
        expected = np.zeros((len(monitored), len(models) - 1, len(GRID)))
        sensitivity = np.zeros((len(monitored), len(GRID)))
        information = np.zeros((len(models), len(monitored)))
        variances = np.zeros((len(models), len(monitored)))
        for c, k in enumerate(monitored):
            prior = float(model.prior_[k])
            ratios = [np.clip(one_vs_rest(part.log_ratios, model.prior_, k), -30.0, 30.0) for part in parts]
            for g, level in enumerate(GRID):
                at = _weights(parts[0], model.prior_, k, level)
                low, high = (_most_likely(np.exp(ratios[0] + drift), at) for drift in (-RATIO_DRIFT, RATIO_DRIFT))
                sensitivity[c, g] = abs(high.x - low.x) / 2.0
                own, *others = (_most_likely(np.exp(log_ratios), at) for log_ratios in ratios)
                expected[c, :, g] = [_beyond_noise(other, own, at) for other in others]
            at_start = _weights(parts[0], model.prior_, k, prior)
            for w, log_ratios in enumerate(ratios):
                information[w, c] = START_ROWS * _information(log_ratios, at_start, prior)
                variances[w, c] = spreads[w][k] * prior * (1.0 - prior) / 4.0
        noise = variances[1:] + variances[0]
        # what the map itself leaves open counts like a drift: one fitted on ten positives moves the prior with care
        sensitivity = np.sqrt(sensitivity**2 + variances[0][:, None])
        return cls(*(_rounded(array) for array in (expected, sensitivity, noise, information)))

    def to_json(self) -> dict[str, Any]:
        """Return the tables as JSON values."""
        return {name: getattr(self, name).tolist() for name in TABLES}

    @classmethod
    def from_json(cls, described: Mapping[str, Any], *, n_classes: int) -> "ViewReference":
        """Return the tables that gave these values, checked."""
        n_monitored = 1 if n_classes == 2 else n_classes
        try:
            expected, sensitivity, noise, information = (np.asarray(described[n], dtype=np.float64) for n in TABLES)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise InvalidStateError("the view_reference of this safe tracker is damaged") from None
        n_views = len(information) - 1 if information.ndim else -1
        if n_views == 0 and expected.size == noise.size == 0:  # lists cannot tell the shape of what is empty
            expected, noise = np.zeros((n_monitored, 0, len(GRID))), np.zeros((0, n_monitored))
        arrays = (expected, sensitivity, noise, information)
        shapes = [(n_monitored, n_views, len(GRID)), (n_monitored, len(GRID))]
        shapes += [(n_views, n_monitored), (n_views + 1, n_monitored)]
        positive = all(bool((array >= 0.0).all()) for array in arrays[1:])
        usable = positive and all(bool((np.abs(array) < 1e12).all()) for array in arrays)
        if not usable or [array.shape for array in arrays] != shapes:
            raise InvalidStateError("the view_reference of this safe tracker is damaged")
        return cls(*arrays)


def _weights(rows: Holdout, prior: FloatArray, k: int, level: float) -> FloatArray:
    """Return weights that give class k the prior `level` and the others the remainder, in their proportions."""
    shifted = prior * (1.0 - level) / (1.0 - prior[k])
    shifted[k] = level
    return rows.weights_at(shifted)


class _Found(NamedTuple):
    """The most likely prior of weighted rows."""

    x: float  # arcsin sqrt(P)
    influence: FloatArray  # (n,) of each row on x


def _most_likely(ratios: FloatArray, weights: FloatArray) -> _Found:
    """Find the prior that makes weighted rows most likely, by Newton steps kept in a bracket."""
    low, high, prior = 0.0, 1.0, 0.5
    scores = ratios
    for _ in range(NEWTON_STEPS):
        scores = (ratios - 1.0) / (1.0 + prior * (ratios - 1.0))
        slope = float(weights @ scores)
        low, high = (prior, high) if slope > 0.0 else (low, prior)
        proposed = prior + slope / max(float(weights @ scores**2), 1e-300)
        following = proposed if low < proposed < high else (low + high) / 2.0
        if abs(following - prior) < 1e-9:
            break
        prior = following
    steepness = max(2.0 * np.sqrt(prior * (1.0 - prior)), 1e-6)  # of P in x
    return _Found(float(np.arcsin(np.sqrt(prior))), scores / (steepness * max(float(weights @ scores**2), 1e-300)))


def _beyond_noise(other: _Found, own: _Found, weights: FloatArray) -> float:
    """Return the difference of two estimates beyond two standard errors of the held-out rows."""
    apart = other.x - own.x
    error = float(np.sqrt(((weights * (other.influence - own.influence)) ** 2).sum()))
    return float(np.sign(apart) * max(abs(apart) - 2.0 * error, 0.0))


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
