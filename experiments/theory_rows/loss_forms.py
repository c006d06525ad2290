"""Examine losses with torch: whether they have the form dC/do = -g(o)(t - o), and where they are least."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.integrate import cumulative_simpson
from torch import Tensor

from experiments.theory_rows.losses import RIGHT, TOLERANCE
from experiments.theory_rows.row import Figures, Measured, Settings
from obil.arrays import FloatArray
from obil.networks.loss_report import PROBABILITIES, LossReport, check_loss
from obil.networks.losses import (
    bregman_loss,
    cost_weighted_squared_error,
    cross_entropy,
    divergence,
    exponential,
    logistic,
    printed_logistic,
    squared_error,
)
from obil.networks.minimisers import minimisers
from obil.networks.user_loss import UserLoss

Loss = Callable[[Tensor, Tensor], Tensor]

OUTPUTS = np.linspace(-0.98, 0.98, 197)  # 0 is one of them
HALF_STEP = 1e-7


def _of(generator: Callable[[Tensor], Tensor]) -> Loss:
    return lambda o, t: divergence(generator, t, o)


# all of them named by what they are; whether they have the form is measured
LOSSES: dict[str, Loss] = {
    "squared error": squared_error().of_output,
    "logistic, corrected": logistic().of_output,
    "exponential, corrected": exponential().of_output,
    "cross-entropy": cross_entropy().of_output,
    "squared hinge": lambda o, t: (1.0 - t * o).clamp(min=0.0) ** 2,
    "generator o^2/2 + o^4": bregman_loss(lambda o: o**2 / 2.0 + o**4).of_output,
    "generator -log(1 - o^2)": bregman_loss(lambda o: -torch.log1p(-(o**2))).of_output,
    "generator cosh 2o": bregman_loss(lambda o: torch.cosh(2.0 * o)).of_output,
    "logistic, printed": printed_logistic().of_output,
    "exponential, printed": lambda o, t: torch.exp(-t * o),
    "cross-entropy, temperature 4": cross_entropy(4.0).of_output,
    "hinge": lambda o, t: (1.0 - t * o).clamp(min=0.0),
    "absolute error": lambda o, t: (t - o).abs(),
    "cubed error": lambda o, t: (t - o).abs() ** 3,
    "squared error, negatives four times": cost_weighted_squared_error(4.0).of_output,
    "generator o^4/4: g = 3o^2 is 0 at 0": _of(lambda o: o**4 / 4.0),
    "g jumps from 1 to 2 at 0": _of(lambda o: o**2 / 2.0 + o.clamp(min=0.0) ** 2 / 2.0),
    "generator with a kink: the loss jumps at 0": _of(lambda o: o**2 / 2.0 + o.abs() / 2.0),
}


class Form(NamedTuple):
    """How a loss stands to dC/do = -g(o)(t - o), and to the posterior."""

    disagreement: float  # of the g that the two targets ask for, relative
    least: float  # value of g
    jump: float  # of g, relative
    loss_jump: float
    error: float  # of the minimiser, against 2P - 1; NaN where there is none

    @property
    def as_printed(self) -> bool:
        """Whether g is one function for both targets, positive and continuous."""
        one = self.disagreement < TOLERANCE and self.loss_jump < 1e-2
        return one and self.least > TOLERANCE and self.jump < 1e-3

    @property
    def right(self) -> bool:
        """Whether 2P - 1 is the one minimiser at every probability that was tried."""
        return bool(self.error < RIGHT)


def curvatures(loss: Loss, outputs: FloatArray) -> FloatArray:
    """Return the g that t = -1 and that t = +1 ask for, (n, 2)."""
    slopes = UserLoss(loss).gradients(outputs)
    if slopes is None:
        raise TypeError("a loss of torch functions is wanted")
    asked: FloatArray = slopes * np.array([1.0, -1.0]) / np.stack([1.0 + outputs, 1.0 - outputs], axis=1)
    return asked


def form_of(loss: Loss) -> Form:
    """Examine a loss at the outputs, just beside them, and at its minimisers."""
    user_loss = UserLoss(loss)
    g = curvatures(loss, OUTPUTS)
    scale = 1.0 + np.abs(g).max(axis=1)
    beside = [curvatures(loss, OUTPUTS + side) for side in (-HALF_STEP, HALF_STEP)]
    losses = [user_loss.values(OUTPUTS + side, 1.0) for side in (-HALF_STEP, HALF_STEP)]
    found = minimisers(user_loss.values, PROBABILITIES)
    wanted = 2.0 * PROBABILITIES - 1.0
    return Form(
        disagreement=float((np.abs(g[:, 1] - g[:, 0]) / scale).max()),
        least=float(g.min()),
        jump=float((np.abs(beside[1] - beside[0]).max(axis=1) / scale).max()),
        loss_jump=float(np.abs(losses[1] - losses[0]).max()),
        error=float(np.inf if np.isnan(found).any() else np.abs(found - wanted).max()),
    )


def distance_from_divergence(loss: Loss) -> float:
    """Return how far C(o, +1) is from the divergence made with the g that t = -1 asks for, up to a constant.

    D(t || o) = integral from o to t of g(s)(t - s) ds, over outputs either side of 0, where a kink would be.
    """
    worst = 0.0
    for low, high in ((-0.95, -1e-9), (1e-9, 0.95)):
        outputs = np.linspace(low, high, 20_001)
        g = curvatures(loss, outputs)[:, 0]
        made = -cumulative_simpson(g * (1.0 - outputs), x=outputs, initial=0.0)
        values = UserLoss(loss).values(outputs, 1.0)
        worst = max(worst, float(np.abs(values - values[0] - made).max() / (1.0 + np.ptp(values))))
    return worst


def measure_characterisation(_: Settings) -> Measured:
    """Sort the losses by whether they have the form and whether they are least at 2P - 1."""
    forms = {name: form_of(loss) for name, loss in LOSSES.items()}
    groups: dict[tuple[bool, bool], list[Form]] = {}
    for form in forms.values():
        groups.setdefault((form.as_printed, form.right), []).append(form)
    figures = {
        "losses": float(len(forms)),
        "form_and_right": float(len(groups.get((True, True), []))),
        "form_and_wrong": float(len(groups.get((True, False), []))),
        "no_form_and_right": float(len(groups.get((False, True), []))),
        "no_form_and_wrong": float(len(groups.get((False, False), []))),
        "least_error_of_wrong": min(form.error for form in forms.values() if not form.right),
        "largest_error_of_right": max(form.error for form in forms.values() if form.right),
    }
    return Measured(figures, {})


def measure_proper(_: Settings) -> Measured:
    """Rebuild every loss that is least at 2P - 1 as a divergence, and ask for its g."""
    proper = {name: form_of(loss) for name, loss in LOSSES.items() if form_of(loss).right}
    figures = {
        "losses": float(len(proper)),
        "largest_minimiser_error": max(form.error for form in proper.values()),
        "largest_distance": max(distance_from_divergence(LOSSES[name]) for name in proper),
        "without_positive_g": float(sum(form.least <= TOLERANCE for form in proper.values())),
    }
    return Measured(figures, {})


def _report_figures(report: LossReport, at: float = 0.9) -> Figures:
    row = next(row for row in report.table if row.probability == at)
    error = max(abs(_number(row.found) - _number(row.wanted)) for row in report.table)
    return {
        "accepted": float(report.accepted), "violation": report.largest_violation,
        "minimiser_at_0.9": _number(row.found), "largest_minimiser_error": error,
    }  # fmt: skip


def _number(value: Any) -> float:
    return float(value)


def measure_squared(_: Settings) -> Measured:
    """Check the squared error, and that its g is 1."""
    report = check_loss(squared_error())
    return Measured(_report_figures(report) | {"largest_g_error": float(np.abs(report.curvature - 1.0).max())}, {})


def measure_logistic(_: Settings) -> Measured:
    """Check the logistic loss as printed and with 2 artanh(o)."""
    printed, corrected = check_loss(printed_logistic()), check_loss(logistic())
    claimed = 1.0 / (1.0 - corrected.outputs**2)
    figures = {f"printed.{key}": value for key, value in _report_figures(printed).items()}
    figures |= {f"corrected.{key}": value for key, value in _report_figures(corrected).items()}
    figures["corrected.largest_g_error"] = float(np.abs(corrected.curvature[:, 1] / claimed - 1.0).max())
    return Measured(figures, {})


def measure_cross_entropy(_: Settings) -> Measured:
    """Hold torch's own cross-entropy of log odds 2 artanh(o) against the form and the corrected logistic loss."""

    def of_output(o: Tensor, t: Tensor) -> Tensor:
        log_odds, labels = (2.0 * torch.atanh(o)), (t + 1.0) / 2.0
        return torch.nn.functional.binary_cross_entropy_with_logits(
            log_odds, labels.expand_as(log_odds), reduction="none"
        )

    o = torch.tensor(OUTPUTS)
    targets = (torch.full_like(o, -1.0), torch.ones_like(o))
    difference = max(float((of_output(o, t) - logistic().of_output(o, t)).abs().max()) for t in targets)
    return Measured(_report_figures(check_loss(of_output)) | {"difference": difference}, {})
