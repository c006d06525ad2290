"""Say what changed in labelled rows since the model was calibrated: the prior, the calibration, or the concept."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import log_softmax

from obil.arrays import FloatArray, IntArray, as_scaled
from obil.bayes.local_prior import best_window, local_priors
from obil.calibration.linear import fit_linear
from obil.calibration.separation import worst_separation
from obil.evaluation.backtest_advice import difference
from obil.serving.holdout import Holdout
from obil.serving.ratio_model import RatioModel

Regime = Literal["nothing", "label shift", "calibration drift", "concept drift"]
LEAST_GAIN = 0.01  # of the log loss that is worth speaking of
LARGEST_LOG_RATIO = 50.0  # beyond it a row is certain, and a map fitted to it need not converge
LEAST_OF_CLASS = 20  # held-out rows in each half
FREE_SLOPE_SD = 10.0  # hindsight has labels enough to let the slope be what it is
EXPECT = {
    "nothing": "nothing moved beyond noise, so adapting has nothing to gain, and by default it hardly moves",
    "label shift": "mostly label shift, which adapting without labels can follow",
    "calibration drift": "mostly calibration drift: only labels correct it, so feed some back",
    "concept drift": "concept drift: the scores separate the classes less than before, so feed labels back and retrain",
}


@dataclass(frozen=True, slots=True)
class StreamChanges:
    """What changed, by how much of the log loss knowing it would have saved in hindsight.

    `regime` is "nothing", "label shift" (knowing the local prior saves more), "calibration drift" (recalibrating the
    log ratio saves more) or "concept drift" (likewise, and the AUC has fallen beyond its error). With more than two
    classes each AUC is that of the two which are separated least then.
    """

    regime: Regime
    prior_gain: float  # fraction of the log loss that knowing the local prior saves; 0 within noise
    recalibration_gain: float  # that a slope and offsets for all rows save then
    auc_before: float  # of the two classes that are separated least, on held-out rows
    auc_after: float

    @property
    def sentence(self) -> str:
        """What changed, and what to expect of adapting."""
        return (
            f"{EXPECT[self.regime].capitalize()} (in hindsight, knowing the local prior saves {self.prior_gain:.1%} of "
            f"the log loss, recalibrating the log ratios then {self.recalibration_gain:.1%}; AUC {self.auc_before:.3f} "
            f"on held-out rows before, {self.auc_after:.3f} after)."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the figures and the sentence as JSON values."""
        return asdict(self) | {"sentence": self.sentence}


def changes_since(
    holdout: Holdout, log_ratios: FloatArray, labels: IntArray, *, prior: FloatArray, local: FloatArray
) -> StreamChanges:
    """Compare later rows, at their local prior (n, K), with the held-out rows that a model was calibrated on.

    >>> rng = np.random.default_rng(0)
    >>> y = (np.arange(4_000) % np.where(np.arange(4_000) < 2_000, 10, 2) == 0).astype(int)
    >>> ratios = np.column_stack([np.zeros(4_000), 2.0 * (rng.normal(size=4_000) + 2.0 * y) - 2.0])
    >>> before, later, half = Holdout.of(ratios[:2_000], y[:2_000]), y[2_000:], np.full((2_000, 2), 0.5)
    >>> changes_since(before, ratios[2_000:], later, prior=before.prior, local=half).regime
    'label shift'
    """
    log_ratios = np.clip(log_ratios, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
    recalibrated = fit_linear(log_ratios, labels, np.ones(len(labels)), slope_sd=FREE_SLOPE_SD).apply(log_ratios)
    told = ((log_ratios, prior), (log_ratios, local), (recalibrated, local))
    static, at_local, best = (log_losses(ratios, at, labels) for ratios, at in told)
    prior_gain, recalibration_gain = _gain(static, at_local), _gain(at_local, best)
    before, after = worst_separation(holdout), worst_separation(Holdout.of(log_ratios, labels))
    regime: Regime = "label shift" if prior_gain >= recalibration_gain else "calibration drift"
    worse = before.interval[0] > after.interval[1]
    if worse and prior_gain <= recalibration_gain:
        regime = "concept drift"
    elif max(prior_gain, recalibration_gain) < LEAST_GAIN:
        regime = "nothing"
    return StreamChanges(regime, prior_gain, recalibration_gain, before.auc, after.auc)


def changes_in_held_out(model: RatioModel) -> StreamChanges | None:
    """Compare the later half of held-out rows in the order of time with the earlier half; None where they are few."""
    held_out, half, n_classes = model.holdout_, len(model.holdout_.labels) // 2, model.n_classes
    halves = [
        (np.clip(held_out.log_ratios[part], -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO), held_out.labels[part])
        for part in (slice(0, half), slice(half, None))
    ]
    if min(np.bincount(labels, minlength=n_classes).min() for _, labels in halves) < LEAST_OF_CLASS:
        return None
    earlier, (log_ratios, labels) = Holdout.of(*halves[0]), halves[1]  # rows as they came, whatever their weights
    own_map = fit_linear(*halves[0], np.ones(half), slope_sd=FREE_SLOPE_SD)
    local = local_priors(labels, n_classes=n_classes, window=best_window(labels, n_classes=n_classes))
    return changes_since(earlier, own_map.apply(log_ratios), labels, prior=earlier.prior, local=local)


def log_losses(log_ratios: FloatArray, priors: FloatArray, labels: IntArray) -> FloatArray:
    """Return the log loss of each row, (n,), at one prior (K,) or at one per row (n, K)."""
    logs = log_softmax(as_scaled(log_ratios) + np.log(priors), axis=1)
    own: FloatArray = -logs[np.arange(len(labels)), labels]
    return own


def _gain(before: FloatArray, after: FloatArray) -> float:
    """Return the fraction of a log loss that is saved, 0 where that is within noise or a loss."""
    saved = difference(before, after)
    return float(saved.mean / before.mean()) if saved.sign > 0 else 0.0
