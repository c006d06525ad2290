"""Measure, on held-out rows, how sensitive a model's estimated prior is and how far its views should agree.

No likelihood ratio stays exact after deployment, and none was exact before. How far a drift of `RATIO_DRIFT`, and the
uncertainty of the map that evidence is read by, move the estimated prior is its *sensitivity*; that of a weak
classifier or of one calibrated on few positives is large, and such a prior is not worth following. How far the guarded
prior went astray on the held-out rows themselves, in their order, is its *error*.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.bayes.one_vs_rest import one_vs_rest
from obil.errors import InvalidStateError
from obil.serving.holdout import Holdout
from obil.serving.measured_once import MeasuredOnce
from obil.serving.ratio_model import RatioModel
from obil.trackers.bayes_bank import BayesBank
from obil.trackers.calibration_spread import map_variance, thinned_rows
from obil.trackers.held_out_error import held_out_error
from obil.trackers.view_guard import FAST, KEPT_EACH_BLOCK, GuardMemory, guard_rows

RATIO_DRIFT = 0.1  # in the log ratio: what any model may be off by after deployment
START_ROWS = 1_500  # rows at the start prior whose information a disagreement starts with
GRID = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99)
MOST_ROWS = 6_000  # held-out rows that are looked at, about
DIGITS = 6  # that are kept, so that a table is the same wherever it is made
NEWTON_STEPS = 40
TABLES = ("expected", "sensitivity", "noise", "least_information", "error")
ERRORS_ALLOWED = 3.0  # root mean square errors of the past that a move must exceed
LARGEST_FAST_ERROR = 0.03  # of the fast bank, for it to be admitted
LARGEST_SENSITIVITY = 0.1  # likewise, at the start prior
NOT_KNOWN = 2.0  # an error beyond any move: nothing vouches for the prior


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
    error: FloatArray  # (2, C) of the slow and the fast bank's guarded x on the held-out rows in their order

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
        """Return the reference of exact ratios without views: the slow bank is not held back."""
        n_monitored = 1 if n_classes == 2 else n_classes
        return cls(
            np.zeros((n_monitored, 0, len(GRID))),
            np.zeros((n_monitored, len(GRID))),
            np.zeros((0, n_monitored)),
            np.zeros((1, n_monitored)),
            np.repeat([[0.0], [NOT_KNOWN]], n_monitored, axis=1),
        )

    @classmethod
    def of_model(cls, model: RatioModel) -> "ViewReference":
        """Return what a model and its views show on its held-out rows, measured once for each model."""
        return _REFERENCES.of(model)

    @classmethod
    def _measured(cls, model: RatioModel) -> "ViewReference":
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
        error = np.full((2, len(monitored)), NOT_KNOWN)
        known = cls(*(_rounded(array) for array in (expected, sensitivity, noise, information, error)))
        if not known.n_views:  # nothing would tell a drift of p(x | class) from a move of the prior
            return known
        errors = held_out_error(partial(known._track, model), model.holdout_.labels, model.prior_, monitored)
        return replace(known, error=_rounded(errors))

    def _track(self, model: RatioModel, rows: IntArray) -> FloatArray:
        """Return the guarded priors of both banks before each of these held-out rows, (2, n, K)."""
        own, *views = (score_map.apply(scores[rows]) for score_map, scores in model.evidence_maps)
        slow, fast = (bank.path(own) for bank in (BayesBank.slow(model.prior_), BayesBank(model.prior_)))
        guarded, shrinkage = np.empty((2, *fast.shape)), np.stack([self.sensitivity] * 2)  # no errors yet
        for tracked, into in zip((slow, fast), guarded, strict=True):
            guard_rows(
                own, np.stack(views, axis=1), tracked, fast, model.prior_, np.array(KEPT_EACH_BLOCK), self.grid,
                self.expected, shrinkage, self.noise, self.least_information, False,
                *GuardMemory.empty(self.n_views + 1, model.n_classes), into,
            )  # fmt: skip
        return guarded[:, :-1]

    def may_be_fast(self, start: FloatArray) -> bool:
        """Return whether the fast bank made next to no error on held-out rows and the ratio is not too sensitive."""
        own = start[1:] if start.size == 2 else start
        sensitivities = [np.interp(p, self.grid, table) for p, table in zip(own, self.sensitivity, strict=True)]
        return bool(self.error[FAST].max() <= LARGEST_FAST_ERROR and max(sensitivities) <= LARGEST_SENSITIVITY)

    @property
    def shrinkage(self) -> FloatArray:
        """How far x may move by the slow and by the fast bank though the prior does not, (2, C, G)."""
        shrinkage: FloatArray = np.hypot(self.sensitivity, ERRORS_ALLOWED * self.error[:, :, None])
        return shrinkage

    def to_json(self) -> dict[str, Any]:
        """Return the tables as JSON values."""
        return {name: getattr(self, name).tolist() for name in TABLES}

    @classmethod
    def from_json(cls, described: Mapping[str, Any], *, n_classes: int) -> "ViewReference":
        """Return the tables that gave these values, checked."""
        n_monitored = 1 if n_classes == 2 else n_classes
        try:
            expected, sensitivity, noise, information, error = (
                np.asarray(described[name], dtype=np.float64) for name in TABLES
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            raise InvalidStateError("the view_reference of this safe tracker is damaged") from None
        n_views = len(information) - 1 if information.ndim else -1
        if n_views == 0 and expected.size == noise.size == 0:  # lists cannot tell the shape of what is empty
            expected, noise = np.zeros((n_monitored, 0, len(GRID))), np.zeros((0, n_monitored))
        arrays = (expected, sensitivity, noise, information, error)
        shapes = [(n_monitored, n_views, len(GRID)), (n_monitored, len(GRID))]
        shapes += [(n_views, n_monitored), (n_views + 1, n_monitored), (2, n_monitored)]
        positive = all(bool((array >= 0.0).all()) for array in arrays[1:])
        usable = positive and all(bool((np.abs(array) < 1e12).all()) for array in arrays)
        if not usable or [array.shape for array in arrays] != shapes:
            raise InvalidStateError("the view_reference of this safe tracker is damaged")
        return cls(*arrays)


_REFERENCES = MeasuredOnce(ViewReference._measured)


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
