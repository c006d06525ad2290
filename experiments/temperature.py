"""Scale logits by a temperature, as the paper has it: sigma(z / T), Guo et al. 2017.

The logit z is that of the training prior, so that T divides the prior odds along with the log ratio. The calibration
that obil calls "temperature" is another: it leaves the prior odds alone.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logit

from experiments.choices.measures import calibrated_variants
from obil.arrays import FloatArray, IntArray
from obil.serving.ratio_model import RatioModel


@dataclass(frozen=True, slots=True)
class TemperatureScaling:
    """Scaled log ratio = (log ratio + log prior odds) / T - log prior odds."""

    temperature: float
    log_prior_odds: float

    @classmethod
    def of(cls, model: RatioModel) -> "TemperatureScaling":
        """Fit T on the held-out rows of a model, before its own calibration."""
        held_out, log_prior_odds = model.holdout_, float(logit(model.prior_[1]))
        logits = model.calibrator.invert(held_out.log_ratios)[:, 1] + log_prior_odds
        return cls(fitted_temperature(logits, held_out.labels, held_out.weights), log_prior_odds)

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return raw scores (n, 2), log ratios that are not calibrated yet, scaled.

        >>> TemperatureScaling(2.0, -4.0).apply(np.array([[0.0, 6.0]]))
        array([[0., 5.]])
        """
        scaled = (scores[:, 1] + self.log_prior_odds) / self.temperature - self.log_prior_odds
        return np.stack([np.zeros(len(scores)), scaled], axis=1)


def fitted_temperature(logits: FloatArray, labels: IntArray, weights: FloatArray) -> float:
    """Return the temperature by which logits (n,), the prior in them, have the least mean log loss."""
    signs = np.where(labels == 1, 1.0, -1.0)

    def loss(log_temperature: float) -> float:
        return float(np.average(np.logaddexp(0.0, -signs * logits / np.exp(log_temperature)), weights=weights))

    return float(np.exp(minimize_scalar(loss, bounds=(-5.0, 5.0), method="bounded").x))


def paper_calibrations(model: RatioModel, scores: FloatArray) -> dict[str, FloatArray]:
    """Return raw scores (n, 2) of rows as they are, scaled by the paper's temperature, and calibrated as obil does."""
    return calibrated_variants(model, scores) | {"temperature": TemperatureScaling.of(model).apply(scores)}
