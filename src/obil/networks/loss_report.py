"""Check any loss: whether it is Bregman, and which output minimises it.

Training needs dC/do = -g(o)(t - o) with one g > 0 for both targets: then, and only then, the expected loss
P C(o, +1) + (1-P) C(o, -1) is least at o = 2P-1 for every P, and (1+o)/2 is the posterior.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.networks.losses import BinaryLoss, CategoricalLoss
from obil.networks.minimisers import FLAT, MATCH, UNKNOWN, closed_form, losses_of_logits, minimisers, simplex_minimiser
from obil.networks.user_loss import UserLoss

PROBABILITIES = np.array([0.02, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.98])
MIXTURES = ((0.2, 0.3, 0.5), (0.6, 0.3, 0.1), (0.05, 0.05, 0.9), (0.5, 0.1, 0.4), (1 / 3, 1 / 3, 1 / 3))


class MinimiserRow(NamedTuple):
    """The output of least expected loss at a probability, found and wanted; three of each for three classes."""

    probability: float | tuple[float, ...]
    found: float | tuple[float, ...]  # NaN where the expected loss is flat or not finite
    wanted: float | tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class LossReport:
    """What `check_loss` found.

    >>> from obil.networks import squared_error
    >>> check_loss(squared_error()).accepted
    True
    """

    name: str
    accepted: bool
    reason: str
    minimiser: str  # its closed form, P the posterior of the positive class; what was found, where none is known
    table: tuple[MinimiserRow, ...]
    outputs: FloatArray  # (n,) where the form was checked; empty for a categorical loss
    curvature: FloatArray  # (n, 2) the g that t = -1 and that t = +1 ask for: equal where the form holds
    largest_violation: float  # of the form: |difference of the two g| / the larger; for K classes of the minimiser
    violation_at: float  # the output where it is largest
    negative_weight: float = 1.0

    def __str__(self) -> str:
        verdict = "accepted" if self.accepted else "rejected"
        lines = [f"{self.name}: {verdict}: {self.reason}", f"minimiser: {self.minimiser}"]
        if len(self.outputs):
            lines.append(f"largest violation of the form: {self.largest_violation:.2g} at o = {self.violation_at:.3g}")
        lines.append(f"{'P':>20}  {'found':>22}  {'wanted':>22}")
        lines += [
            f"{_figures(p):>20}  {_figures(found):>22}  {_figures(wanted):>22}" for p, found, wanted in self.table
        ]
        return "\n".join(lines)


def check_loss(loss: Any, *, n_points: int = 200) -> LossReport:
    """Say whether a loss is Bregman, where it is violated most, and what minimises it.

    Parameters
    ----------
    loss
        A `BinaryLoss`, a `CategoricalLoss` (checked for three classes), or any callable C(o, t) of outputs in
        (-1, 1) and targets -1 and +1 that returns one loss per element. Torch functions are differentiated
        automatically; those of numpy arrays or of plain numbers by differences.
    n_points
        How many outputs the form is checked at.

    A loss with a `negative_weight` w is held against the posterior it estimates, P / (P + w(1-P)): that of a
    prior with w times the negatives.

    >>> print(check_loss(lambda o, t: (1 - t * o).clamp(min=0)).minimiser)  # hinge
    sign(2P-1)
    >>> check_loss(lambda o, t: (t - o) ** 2).accepted
    True
    """
    if isinstance(loss, CategoricalLoss):
        return _check_categorical(loss)
    if not (isinstance(loss, BinaryLoss) or callable(loss)):
        raise InvalidInputError(
            f"a loss must be a BinaryLoss, a CategoricalLoss or a callable C(o, t), got {loss!r:.80}"
        )
    if n_points < 10:
        raise InvalidInputError(f"n_points must be at least 10, got {n_points!r}")
    function = loss.of_output if isinstance(loss, BinaryLoss) else loss
    name = loss.name if isinstance(loss, BinaryLoss) else getattr(loss, "__name__", type(loss).__name__)
    stated = loss.negative_weight if isinstance(loss, BinaryLoss) else 1.0
    user_loss = UserLoss(function)
    form = _examine(user_loss, n_points, stated)
    problem = form.problem
    if problem is None and isinstance(loss, BinaryLoss):
        problem = _contradiction(loss, form)

    found = minimisers(user_loss.values, PROBABILITIES)
    rebalanced = PROBABILITIES / (PROBABILITIES + stated * (1.0 - PROBABILITIES))
    # where negatives weigh otherwise than stated, the minimiser still has a name
    weight = stated if form.negative_weight is None else form.negative_weight
    minimiser = closed_form(PROBABILITIES / (PROBABILITIES + weight * (1.0 - PROBABILITIES)), found)
    is_posterior = minimiser == "2P-1" and weight == stated
    if minimiser == UNKNOWN:
        figures = ", ".join(f"{p:g} -> {round(at, 3) + 0.0:g}" for p, at in zip(PROBABILITIES, found, strict=True))
        minimiser += f" (P -> o: {figures})"
    elif weight != 1.0:
        minimiser += f", P the posterior at {weight:.4g} times the negatives"
    if problem is None and not is_posterior:  # cannot be, unless the grid missed something
        problem = "the form holds where it was checked, and yet the expected loss is least elsewhere"

    if problem is not None:
        reason = problem if is_posterior else f"{problem}; the expected loss is least at: {minimiser}"
    elif stated == 1.0:
        reason = "dC/do = -g(o)(t - o) with one g > 0"
    else:
        reason = (
            f"dC/do = -g(o)(t - o) with one g > 0, times {stated:g} on negatives: it estimates the posterior of a "
            f"prior with {stated:g} times the negatives, which is to be divided out"
        )
    table = tuple(
        MinimiserRow(p, at, 2.0 * wanted - 1.0)
        for p, at, wanted in zip(PROBABILITIES.tolist(), found.tolist(), rebalanced.tolist(), strict=True)
    )
    return LossReport(
        name=name,
        accepted=problem is None,
        reason=reason,
        minimiser=minimiser,
        table=table,
        outputs=form.outputs,
        curvature=form.curvature,
        largest_violation=form.violation,
        violation_at=form.violation_at,
        negative_weight=stated,
    )


class _Form(NamedTuple):
    """How far dC/do = -g(o)(t - o) holds on a grid."""

    outputs: FloatArray  # (n,)
    curvature: FloatArray  # (n, 2)
    violation: float
    violation_at: float
    problem: str | None
    negative_weight: float | None = None  # where the two g differ by one factor: the weight that explains it


def _examine(loss: UserLoss, n_points: int, stated_weight: float) -> _Form:
    # The shift keeps 0 and round numbers, where user losses have their kinks, off the grid.
    reach = 2.0 if loss.single else 4.0
    outputs = np.tanh(np.linspace(-reach, reach, n_points) + 0.0123)
    unknown = np.full((n_points, 2), np.nan)
    problem = _not_finite(outputs, np.stack([loss.values(outputs, t) for t in (-1.0, 1.0)], axis=1))
    if problem is not None:
        return _Form(outputs, unknown, np.nan, np.nan, problem)
    differences = loss.differences(outputs)
    gradients = loss.gradients(outputs)
    slopes = differences if gradients is None else gradients
    tolerance = (1e-4 if gradients is None else 1e-6) * (500.0 if loss.single else 1.0)
    # t = -1 asks for g = slope / (1 + o), t = +1 for g = -slope / (1 - o)
    curvature = slopes * np.array([1.0 / stated_weight, -1.0]) / np.stack([1.0 + outputs, 1.0 - outputs], axis=1)
    larger = np.abs(curvature).max(axis=1)
    violations = np.abs(curvature[:, 1] - curvature[:, 0]) / np.where(larger > 0.0, larger, 1.0)
    worst = int(np.argmax(violations))
    weight = None
    problem = _detached(outputs, slopes, differences, 5e-2 if loss.single else 1e-3)
    if problem is None and not curvature.any():
        problem = "the loss does not depend on o"
    elif problem is None and not violations[worst] <= tolerance:
        problem = (
            f"dC/do = -g(o)(t - o) fails: at o = {outputs[worst]:.3g}, t = -1 asks for g = {curvature[worst, 0]:.3g} "
            f"and t = +1 for g = {curvature[worst, 1]:.3g}"
        )
        if (curvature > 0.0).all():
            factors = stated_weight * curvature[:, 0] / curvature[:, 1]
            factor = float(np.median(factors))
            if np.abs(factors / factor - 1.0).max() <= tolerance:
                weight = factor
                problem = (
                    f"the weight of negatives is {factor:.4g} and the loss states {stated_weight:g}: wrap it in a "
                    f"BinaryLoss with negative_weight={factor:.4g}"
                )
    elif problem is None and not (curvature > 0.0).all():
        lowest = int(np.argmin(curvature.min(axis=1)))
        problem = f"g must be positive, and at o = {outputs[lowest]:.3g} it is {curvature[lowest].min():.3g}"
    return _Form(outputs, curvature, float(violations[worst]), float(outputs[worst]), problem, weight)


def _not_finite(outputs: FloatArray, losses: FloatArray) -> str | None:
    if np.isfinite(losses).all():
        return None
    row, column = np.argwhere(~np.isfinite(losses))[0]
    return f"the loss is {losses[row, column]} at o = {outputs[row]:.3g}, t = {2 * column - 1:+d}"


def _detached(outputs: FloatArray, slopes: FloatArray, differences: FloatArray, tolerance: float) -> str | None:
    excess = np.abs(slopes - differences) - tolerance * (np.abs(differences) + np.abs(differences).mean())
    if (excess <= 0.0).all():
        return None
    row, column = np.unravel_index(int(np.argmax(np.nan_to_num(excess, nan=np.inf))), excess.shape)
    return (
        f"autograd says dC/do = {slopes[row, column]:.3g} at o = {outputs[row]:.3g}, t = {2 * column - 1:+d}, where "
        f"the loss itself changes by {differences[row, column]:.3g}: is a part of it detached?"
    )


def _contradiction(loss: BinaryLoss, form: _Form) -> str | None:
    """Say where a BinaryLoss that is Bregman contradicts itself."""
    o = torch.tensor(form.outputs)
    for t in (-torch.ones_like(o), torch.ones_like(o)):
        of_output, of_logit = loss.of_output(o, t).numpy(), loss.of_logit(torch.atanh(o), t).numpy()
        if not np.allclose(of_output, of_logit, rtol=1e-4, atol=1e-6):
            return "of_logit is not of_output at o = tanh(z)"
    if loss.curvature is not None and not np.allclose(loss.curvature(o).numpy(), form.curvature[:, 1], rtol=1e-3):
        return "the stated curvature is not the g of the loss"
    return None


def _check_categorical(loss: CategoricalLoss) -> LossReport:
    """Find the softmax of least expected loss for three classes by search; it has to be the class probabilities."""
    logits = torch.tensor([[0.3, -1.0, 2.0], [1.5, 0.2, -0.4]], dtype=torch.float64)
    before, moved = (losses_of_logits(loss, values, torch.tensor([0, 2])) for values in (logits, logits + 3.0))
    problem = None
    if not np.allclose(before, moved, rtol=1e-6, atol=1e-9, equal_nan=True):
        problem = "the loss depends on more than the softmax: adding 3 to every logit changes it"
    table = tuple(MinimiserRow(p, tuple(simplex_minimiser(loss, np.array(p)).tolist()), p) for p in MIXTURES)
    wanted, found = np.array(MIXTURES), np.array([row.found for row in table])
    errors = np.abs(found - wanted).max(axis=1)
    vertex = np.eye(3)[np.argmax(wanted[:-1], axis=1)]  # the last mixture has no largest class
    if np.isnan(found).all():
        minimiser = FLAT
    elif (errors < MATCH).all():
        minimiser = "p"
    elif np.abs(found[:-1] - vertex).max() < MATCH:
        minimiser = "all on the likeliest class"
    else:
        minimiser = UNKNOWN
    if problem is None and minimiser != "p":
        problem = f"the softmax of least expected loss is not the class probabilities p but: {minimiser}"
    reason = "the softmax of least expected loss is the class probabilities p" if problem is None else problem
    return LossReport(
        name=loss.name,
        accepted=problem is None,
        reason=reason,
        minimiser=minimiser,
        table=table,
        outputs=np.zeros(0),
        curvature=np.zeros((0, 2)),
        largest_violation=float(np.nan_to_num(errors, nan=np.inf).max()),
        violation_at=np.nan,
    )


def _figures(value: float | tuple[float, ...]) -> str:
    numbers = value if isinstance(value, tuple) else (value,)
    return " ".join(f"{round(number, 4) + 0.0:.4f}" for number in numbers)
