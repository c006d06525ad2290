"""Recommend how a tracker should start, from how each method did in a replay of labelled rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from obil.arrays import FloatArray
from obil.serving.tracker_advice import TrackerAdvice

STATIC, BANK, SAFE, FAST, LABELLED, ORACLE = "static", "bank", "safe", "safe_fast", "safe_labels", "oracle"
TITLES = {
    STATIC: "not adapting",
    BANK: "Bayes bank",
    SAFE: "safe tracker",
    FAST: "safe tracker, fast",
    LABELLED: "safe tracker, labels",
    ORACLE: "oracle",
}
BLOCKS = (10, 20)  # that the replay is cut into to tell a difference from noise
STANDARD_ERRORS = 2.0  # that a difference has to exceed
LEAST_LOSS = 1e-12  # below which a log loss is none, and not divided by


class Difference(NamedTuple):
    """By how much one method's mean loss exceeds another's, with its standard error."""

    mean: float
    standard_error: float

    @property
    def sign(self) -> int:
        """-1 where it is less beyond noise, 1 where it is more, 0 where it may be chance."""
        return int(np.sign(self.mean)) if abs(self.mean) > STANDARD_ERRORS * self.standard_error else 0


@dataclass(frozen=True, slots=True)
class Replayed:
    """The figures of one method on the later rows."""

    method: str  # "static", "bank", "safe", "safe_fast", "safe_labels" or "oracle"
    cost: float  # per row
    log_loss: float  # per row
    prior_error: float  # mean distance from the local class prior, which is noisy; of two classes, of the positive one
    cost_ratio: float | None  # to not adapting; None where that cost nothing
    log_loss_ratio: float
    excess: Difference  # of the log loss over not adapting


class Scored(NamedTuple):
    """The figures of one path of priors."""

    losses: FloatArray  # (n,) log losses
    cost: float
    prior_error: float


@dataclass(frozen=True, slots=True)
class Recommendation:
    """How a `SafeTracker` should start on the rows to come, and why."""

    lead: str
    start_weights: tuple[float, ...]
    sentence: str

    @property
    def advice(self) -> TrackerAdvice:
        """What a model's folder keeps of it: `model.with_advice(...)`."""
        return TrackerAdvice(self.lead, self.start_weights)


def difference(losses: FloatArray, others: FloatArray) -> Difference:
    """Return by how much losses (n,) exceed those of another method on the same rows, with a standard error.

    The error is that of the means of blocks, as rows near each other err alike: the larger one of 10 and 20 blocks.

    >>> difference(np.ones(100), np.zeros(100))
    Difference(mean=1.0, standard_error=0.0)
    """
    apart = losses - others
    errors = []
    for n_blocks in BLOCKS:
        means = [float(block.mean()) for block in np.array_split(apart, n_blocks)]
        errors.append(float(np.std(means, ddof=1)) / np.sqrt(n_blocks))
    return Difference(float(apart.mean()), float(max(errors)))


def difference_of_draws(losses: FloatArray, others: FloatArray) -> Difference:
    """Return by how much the mean of d replays' losses (d, n) exceeds others (n,), with the noise of rows and of draws.

    A replay is one draw of what came by chance, and so is the future: a difference has to exceed the spread over draws,
    not only the error of their mean.

    >>> difference_of_draws(np.array([np.full(100, 1.0), np.full(100, 3.0)]), np.zeros(100)).mean
    2.0
    """
    over_rows = difference(losses.mean(axis=0), others)
    over_draws = float(np.std(losses.mean(axis=1), ddof=1)) if len(losses) > 1 else 0.0
    return Difference(over_rows.mean, float(np.hypot(over_rows.standard_error, over_draws)))


def replayed(method: str, drawn: Sequence[Scored], static: Scored) -> Replayed:
    """Return the figures of a method: the mean of its draws, with the noise of the rows and of the draws."""
    cost = float(np.mean([one.cost for one in drawn]))
    log_loss = float(np.mean([one.losses.mean() for one in drawn]))
    not_adapting = float(static.losses.mean())
    return Replayed(
        method=method,
        cost=cost,
        log_loss=log_loss,
        prior_error=float(np.mean([one.prior_error for one in drawn])),
        cost_ratio=cost / static.cost if static.cost else None,
        log_loss_ratio=max(log_loss, LEAST_LOSS) / max(not_adapting, LEAST_LOSS),
        excess=difference_of_draws(np.array([one.losses for one in drawn]), static.losses),
    )


def choose_lead(static: FloatArray, safe: FloatArray, fast: FloatArray) -> str:
    """Return what should decide before labels come, from the log losses (n,) of three methods on the same rows.

    "fast" where the guarded fast bank did better than both others beyond noise; else "training" where the safe
    tracker did worse than the training prior, beyond noise and by more than log n in all; else "auto", the default.
    Learning a prior that never moves costs about log n however right the model is: where nothing changed, a loss
    of that size is no reason not to adapt.
    """
    if difference(fast, static).sign < 0 and difference(fast, safe).sign < 0:
        return "fast"
    harm = difference(safe, static)
    return "training" if harm.sign > 0 and harm.mean * len(safe) > np.log(len(safe)) else "auto"


def weights_from_replays(earned: FloatArray, default: FloatArray) -> tuple[float, ...]:
    """Return weights for the experts to start with, from those they had at the end of m replays with labels, (m, M).

    Half their mean, half the default (M,): a start that costs at most log 2 more than the better of the two would have.

    >>> weights_from_replays(np.array([[0.0, 1.0], [0.5, 0.5]]), np.array([0.5, 0.5]))
    (0.375, 0.625)
    """
    mean = earned.mean(axis=0)
    mixed = (mean / mean.sum() + default) / 2.0
    return tuple((mixed / mixed.sum()).tolist())


def why(lead: str, methods: Mapping[str, Replayed], *, label_rate: float, label_delay: int, n_labels: int) -> str:
    """Return the reason for this lead, and what labels would have added."""
    shown = methods[FAST if lead == "fast" else SAFE]
    figures = _figures(shown)
    if lead == "training":
        text = f"Adapting without labels would have done harm: it would have {figures}. "
        text += "A tracker should start from the training prior and wait for labels"
    elif lead == "fast":
        text = f"Adapting fast would have {figures}, and did better than the default, which would have "
        text += f"{_figures(methods[SAFE])}: fast memories should lead from the first row on (`obil fit --time ... "
        text += "--backtest` keeps that in the model)"
    elif shown.excess.sign < 0:
        text = f"Adapting would have {figures}: the safe tracker should start as it does by default"
    elif shown.excess.sign > 0:
        text = f"Adapting would have {figures}, no more than it takes to learn a prior that does not move. "
        text += "The safe tracker should start as it does by default"
    else:
        text = f"Adapting would have made no sure difference: it would have {figures}. "
        text += "The safe tracker should start as it does by default"
    if n_labels:
        late = f"{label_delay:,} rows late" if label_delay else "at once"
        text += f". With {100.0 * label_rate:g} % of the labels, {late}, it would have {_figures(methods[LABELLED])}"
    return text + "."


def _figures(one: Replayed) -> str:
    if one.cost_ratio is not None:
        cost = f"cost {_compared(one.cost_ratio, 'less than', 'more than', 'as much as')} not adapting"
    else:
        cost = "cost nothing, as not adapting" if one.cost == 0.0 else "cost something, and not adapting nothing"
    sure = "beyond noise" if one.excess.sign else "within noise"
    return f"{cost} (log loss {_compared(one.log_loss_ratio, 'lower', 'higher', 'the same')}, {sure})"


def _compared(ratio: float, less: str, more: str, same: str) -> str:
    percent = f"{100.0 * abs(ratio - 1.0):.1f}"
    return same if percent == "0.0" else f"{percent} % {less if ratio < 1.0 else more}"
