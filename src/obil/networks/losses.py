"""Name the losses whose minimiser is the posterior, and make one from any strictly convex generator.

A binary loss C(o, t) takes an output o in (-1, 1) and a target t of -1 or +1. Where dC/do = -g(o)(t - o) with one
g > 0, the expected loss is least at o = 2P-1, P the posterior of the positive class (Savage 1971). With o = tanh(z)
that posterior is (1+o)/2 = sigmoid(2z).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, one_hot, relu

from obil.arrays import require_positive
from obil.errors import InvalidInputError

Generator: TypeAlias = Callable[[Tensor], Tensor]

LARGEST_EXPONENT = 20.0  # beyond it the exponential loss continues linearly: tanh(20) is 1 in double precision
LARGEST_LOGIT = 12.0  # the same for a loss made from a generator, whose slope is known only up to rounding in 1 - o


@dataclass(frozen=True, slots=True, eq=False)
class BinaryLoss:
    """A loss of one output and a target of -1 or +1, elementwise.

    >>> float(logistic().of_logit(torch.tensor(0.0), torch.tensor(1.0)))  # log 2
    0.6931471824645996
    """

    name: str
    of_output: Callable[[Tensor, Tensor], Tensor]  # C(o, t), o in (-1, 1)
    of_logit: Callable[[Tensor, Tensor], Tensor]  # the same with o = tanh(z), finite and with a gradient for large |z|
    curvature: Callable[[Tensor], Tensor] | None  # g(o) before any cost weight; None where there is no such g
    # The weight on negatives (the paper's Q~c). The posterior is then that of a prior with this many times the
    # negatives: divide it out with the training prior, and do not apply it again in a threshold.
    negative_weight: float = 1.0
    # Log odds of the posterior per unit of z at the minimiser: 2 for every Bregman loss, else what makes it right.
    log_odds_slope: float = 2.0

    def __post_init__(self) -> None:
        require_positive("negative_weight", self.negative_weight)
        require_positive("log_odds_slope", self.log_odds_slope)

    def log_odds(self, logit: Tensor) -> Tensor:
        """Return the log odds of the posterior (at the training prior, cost weight included) from z.

        >>> squared_error().log_odds(torch.tensor(1.5))
        tensor(3.)
        """
        return self.log_odds_slope * logit


@dataclass(frozen=True, slots=True, eq=False)
class CategoricalLoss:
    """A loss of K logits and a class number, whose softmax at the minimiser is the posterior.

    >>> loss = categorical_cross_entropy()
    >>> loss.of_logits(torch.zeros(5, 4), torch.zeros(5, dtype=torch.int64)).shape
    torch.Size([5])
    """

    name: str
    of_logits: Callable[[Tensor, Tensor], Tensor]  # logits (..., K), class numbers (...) int64 -> (...)


def squared_error() -> BinaryLoss:
    """Return (t - o)^2 / 2, the paper's recommendation: g(o) = 1.

    >>> squared_error().of_output(torch.tensor(0.0), torch.tensor(1.0))
    tensor(0.5000)
    """
    return BinaryLoss("squared_error", _squared_of_output, _squared_of_logit, torch.ones_like)


def cost_weighted_squared_error(negative_weight: float) -> BinaryLoss:
    """Return the squared error with `negative_weight` times the loss on negatives.

    It does not estimate the posterior but that of a prior with so many times the negatives.

    >>> cost_weighted_squared_error(4.0).negative_weight
    4.0
    """
    return cost_weighted(squared_error(), negative_weight)


def logistic() -> BinaryLoss:
    """Return -log((1 + to)/2) = log(1 + exp(-2t artanh o)): g(o) = 1/(1 - o^2).

    The paper prints it without the 2 (`printed_logistic`), which is another loss with another minimiser.

    >>> logistic().of_output(torch.tensor(1.0), torch.tensor(1.0))
    tensor(0.)
    """
    return BinaryLoss("logistic", _logistic_of_output, partial(_sigmoid_of_logit, 2.0), _logistic_curvature)


def exponential() -> BinaryLoss:
    """Return exp(-t artanh o) = sqrt((1 - to)/(1 + to)): g(o) = (1 - o^2)^(-3/2).

    The paper prints exp(-to), whose minimiser is artanh(2P-1) and leaves [-1, 1]. From `|z|` = 20 on, where
    tanh(z) is 1 to double precision, `of_logit` continues linearly and never overflows.

    >>> exponential().of_output(torch.tensor(0.0), torch.tensor(1.0))
    tensor(1.)
    """
    return BinaryLoss("exponential", _exponential_of_output, _exponential_of_logit, _exponential_curvature)


def cross_entropy(temperature: float = 1.0) -> BinaryLoss:
    """Return the sigmoid cross-entropy of the log odds 2z/T, z = artanh o; with T = 1 it is `logistic`.

    With another T the minimiser is o = tanh(T/2 logit P) and not 2P-1: the posterior is sigmoid(2z/T), which
    `log_odds` knows and (1+o)/2 does not. To scale a temperature after training, use a calibrator.

    >>> cross_entropy(4.0).log_odds(torch.tensor(1.0))
    tensor(0.5000)
    """
    slope = 2.0 / require_positive("temperature", temperature)
    if temperature == 1.0:
        return replace(logistic(), name="cross_entropy")
    return BinaryLoss(
        f"cross_entropy(temperature={temperature:g})",
        partial(_sigmoid_of_output, slope),
        partial(_sigmoid_of_logit, slope),
        None,
        log_odds_slope=slope,
    )


def printed_logistic() -> BinaryLoss:
    """Return log(1 + exp(-t artanh o)) as the paper prints it: no Bregman loss.

    Its minimiser is tanh(logit P), not 2P-1: for P = .9 that is .976, which (1+o)/2 reads as a posterior of .988.
    It is kept for comparison. It is a cross-entropy at temperature 2, so sigmoid(z) would read it right.
    """
    return replace(cross_entropy(2.0), name="printed_logistic")


def categorical_cross_entropy() -> CategoricalLoss:
    """Return -log softmax(logits)[class]; for two classes the logistic loss of half their difference.

    >>> categorical_cross_entropy().of_logits(torch.tensor([0.0, 0.0]), torch.tensor(1))  # log 2
    tensor(0.6931)
    """
    return CategoricalLoss("categorical_cross_entropy", _categorical_cross_entropy)


def brier() -> CategoricalLoss:
    """Return the squared distance from the softmax to the class; for two classes exactly `squared_error`.

    >>> brier().of_logits(torch.tensor([500.0, 0.0, 0.0]), torch.tensor(0))
    tensor(0.)
    """
    return CategoricalLoss("brier", _brier)


def cost_weighted(loss: BinaryLoss, negative_weight: float, *, name: str | None = None) -> BinaryLoss:
    """Return a loss with `negative_weight` times the loss on negatives, on top of any weight it has.

    >>> cost_weighted(logistic(), 3.0).name
    'cost_weighted_logistic'
    """
    weight = require_positive("negative_weight", negative_weight)
    return replace(
        loss,
        name=name or f"cost_weighted_{loss.name}",
        of_output=partial(_weighted, loss.of_output, weight),
        of_logit=partial(_weighted, loss.of_logit, weight),
        negative_weight=loss.negative_weight * weight,
    )


def divergence(generator: Generator, p: Tensor, q: Tensor) -> Tensor:
    """Return D_phi(p || q) = phi(p) - phi(q) - phi'(q)(p - q), elementwise, by automatic differentiation.

    >>> divergence(torch.square, torch.tensor(0.5), torch.tensor(-0.5))  # (p - q)^2
    tensor(1.)
    """
    return generator(p) - generator(q) - _slope(generator, q) * (p - q)


def bregman_loss(generator: Generator, *, name: str = "bregman") -> BinaryLoss:
    """Return the loss D_phi(t || o) of any strictly convex generator phi, an elementwise torch function on (-1, 1).

    Its curvature is g = phi''. Where phi is not defined at an edge its limit is used, and where that is infinite
    phi(t) is left out: it does not depend on o. `of_logit` works in double precision and continues linearly
    from `|z|` = 12 on, where 1 - o is lost in rounding.

    >>> loss = bregman_loss(lambda o: o**2 / 2, name="squared")
    >>> loss.of_output(torch.tensor(0.5), torch.tensor(1.0))
    tensor(0.1250)
    """
    grid = torch.tanh(torch.linspace(-4.0, 4.0, 65, dtype=torch.float64))
    try:
        curvature = _second_derivative(generator, grid).numpy()
        edges = (_edge_value(generator, -1.0), _edge_value(generator, 1.0))
    except Exception as error:
        raise InvalidInputError(
            f"the generator must be an elementwise, twice differentiable torch function on (-1, 1); it raised {error!r}"
        ) from error
    convex = np.isfinite(curvature) & (curvature > 0.0)
    if not convex.all():
        at = int(np.argmin(convex))
        raise InvalidInputError(
            f"the generator must be strictly convex on (-1, 1), got phi'' = {curvature[at]:g} at o = {grid[at]:.3g}"
        )
    of_output = partial(_divergence_from_target, generator, edges)
    z = torch.tensor([-LARGEST_LOGIT, LARGEST_LOGIT], dtype=torch.float64)
    o = torch.tanh(z)
    tails = [  # for each target, the slope in z where the line begins, below and above
        (-_second_derivative(generator, o) * (t - o) * (1.0 - o) * (1.0 + o)).tolist() for t in (-1.0, 1.0)
    ]
    of_logit = partial(_divergence_of_logit, of_output, tails)
    return BinaryLoss(name, of_output, of_logit, partial(_second_derivative, generator))


LOSSES: dict[str, Callable[[], BinaryLoss | CategoricalLoss]] = {
    "squared_error": squared_error,
    "cost_weighted_squared_error": partial(cost_weighted_squared_error, 1.0),
    "logistic": logistic,
    "exponential": exponential,
    "cross_entropy": cross_entropy,
    "printed_logistic": printed_logistic,
    "categorical_cross_entropy": categorical_cross_entropy,
    "brier": brier,
}


def named_loss(name: str) -> BinaryLoss | CategoricalLoss:
    """Return one of `LOSSES`.

    >>> named_loss("logistic").name
    'logistic'
    """
    if name not in LOSSES:
        raise InvalidInputError(f"loss must be one of {', '.join(LOSSES)}, got {name!r}")
    return LOSSES[name]()


# The formulas are functions of the module, so that a loss can be pickled.


def _squared_of_output(o: Tensor, t: Tensor) -> Tensor:
    return (t - o) ** 2 / 2.0


def _squared_of_logit(z: Tensor, t: Tensor) -> Tensor:
    return 2.0 * torch.sigmoid(-2.0 * t * z) ** 2  # t - tanh z = 2t sigmoid(-2tz), without cancellation


def _logistic_of_output(o: Tensor, t: Tensor) -> Tensor:
    return float(np.log(2.0)) - torch.log1p(t * o)


def _logistic_curvature(o: Tensor) -> Tensor:
    return 1.0 / ((1.0 - o) * (1.0 + o))


def _exponential_of_output(o: Tensor, t: Tensor) -> Tensor:
    return torch.sqrt((1.0 - t * o) / (1.0 + t * o))


def _exponential_of_logit(z: Tensor, t: Tensor) -> Tensor:
    exponent = -t * z
    line = float(np.exp(LARGEST_EXPONENT)) * relu(exponent - LARGEST_EXPONENT)
    return torch.exp(exponent.clamp(max=LARGEST_EXPONENT)) + line


def _exponential_curvature(o: Tensor) -> Tensor:
    return ((1.0 - o) * (1.0 + o)) ** -1.5


def _sigmoid_of_output(slope: float, o: Tensor, t: Tensor) -> Tensor:
    return -logsigmoid(slope * t * torch.atanh(o))


def _sigmoid_of_logit(slope: float, z: Tensor, t: Tensor) -> Tensor:
    return -logsigmoid(slope * t * z)


def _categorical_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return -torch.log_softmax(logits, dim=-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)


def _brier(logits: Tensor, labels: Tensor) -> Tensor:
    probabilities = torch.softmax(logits, dim=-1)
    return (probabilities - one_hot(labels, logits.shape[-1]).to(logits.dtype)).square().sum(dim=-1)


def _weighted(values_of: Callable[[Tensor, Tensor], Tensor], negative_weight: float, x: Tensor, t: Tensor) -> Tensor:
    values = values_of(x, t)
    return torch.where(t > 0, values, negative_weight * values)


def _slope(generator: Generator, o: Tensor) -> Tensor:
    slope: Tensor = torch.func.grad(lambda x: generator(x).sum())(o)
    return slope


def _second_derivative(generator: Generator, o: Tensor) -> Tensor:
    return _slope(partial(_slope, generator), o)


def _edge_value(generator: Generator, edge: float) -> float:
    """Return phi at an edge, its limit where it is not defined there, or 0 where that is infinite."""
    at = float(generator(torch.tensor(edge, dtype=torch.float64)))
    if np.isfinite(at):
        return at
    steps = torch.tensor([2.0**-44, 2.0**-52], dtype=torch.float64)
    before, last = generator(edge * (1.0 - steps)).tolist()
    return last if abs(last - before) < 1e-6 * (1.0 + abs(last)) else 0.0


def _divergence_from_target(generator: Generator, edges: tuple[float, float], o: Tensor, t: Tensor) -> Tensor:
    of_target = torch.where(t > 0, o.new_full((), edges[1]), o.new_full((), edges[0]))
    return of_target - generator(o) - _slope(generator, o) * (t - o)


def _divergence_of_logit(
    of_output: Callable[[Tensor, Tensor], Tensor], tails: list[list[float]], z: Tensor, t: Tensor
) -> Tensor:
    logits = z.double()
    (below_negative, above_negative), (below, above) = ([logits.new_full((), tail) for tail in of_t] for of_t in tails)
    line = torch.where(t > 0, above, above_negative) * relu(logits - LARGEST_LOGIT)
    line = line - torch.where(t > 0, below, below_negative) * relu(-logits - LARGEST_LOGIT)
    outputs = torch.tanh(logits.clamp(-LARGEST_LOGIT, LARGEST_LOGIT))
    return (of_output(outputs, t.double()) + line).to(z.dtype)
