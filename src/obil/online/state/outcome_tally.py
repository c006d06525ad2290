"""Count what decisions led to over about the last rows: expected from posteriors, and known from late labels."""

import math
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray, as_floats, as_integer, require_in
from obil.compiled import compiled
from obil.errors import InvalidInputError, InvalidStateError
from obil.flat_record import in_record

MEMORY = 5_000.0  # rows
ENOUGH_LABELS = 30.0  # alerts, or misses, that labels have to stand for before they replace what is expected
LARGEST_COUNT = 2**53

_FLAGS = np.dtype(np.bool_)


class TallyMemory(NamedTuple):
    """Sums that forget, over quiet rows and alerted ones."""

    sums: FloatArray  # (2, 4) (quiet, alerted) x Part
    surprise: FloatArray  # (1,)
    labels: FloatArray  # (2, 2, 2) (quiet, alerted) x (negative, positive) x (weights, their squares)
    seen: IntArray  # (1,) rows


class Part(NamedTuple):
    """One part of the decided rows, alerted or quiet, each row weighted by how recent it is."""

    total: float  # rows
    positives: float  # expected among them
    slope: float  # how fast the expected positives grow with the logit of the prior
    noise: float  # variance of the true positives around the expected ones


class LabelledPart(NamedTuple):
    """What labels say about a part of the rows; each stands for the rows that could have been asked for instead."""

    rate: float  # of positives
    n_effective: float  # how many equally weighted, fresh labels it rests on


class OutcomeTally:
    """Sums over the decided rows that forget: a row counts (1 - 1 / memory) ^ (rows decided since).

    A label counts with the age of the row it belongs to and the rows it stands for, 1 / propensity, so that
    labels and posteriors are about the same rows. The state has a fixed size.

    >>> tally = OutcomeTally()
    >>> tally.add([0.9, 0.2], [True, False])
    >>> tally.n_seen, round(tally.alerted.positives, 3)
    (2, 0.9)
    """

    def __init__(self, *, n_remembered: float = MEMORY) -> None:
        self.n_remembered = require_in("n_remembered", n_remembered, 2.0, 1e12)  # rows, about
        self.kept = 1.0 - 1.0 / self.n_remembered
        empty = TallyMemory(np.zeros((2, 4)), np.zeros(1), np.zeros((2, 2, 2)), np.zeros(1, dtype=np.int64))
        self.memory = in_record(empty)[0]
        self.add(np.empty(0), np.empty(0, dtype=bool))  # compiles now, so that the first row does not wait

    def on(self, memory: TallyMemory) -> Self:
        """Return a tally that remembers as many rows, whose memory lies in a record."""
        tally = type(self).__new__(type(self))
        tally.n_remembered, tally.kept, tally.memory = self.n_remembered, self.kept, memory
        return tally

    def copy(self) -> Self:
        """Return a tally that does not change with this one."""
        return self.on(in_record(self.memory)[0])

    @property
    def n_seen(self) -> int:
        """Rows added in all."""
        return int(self.memory.seen[0])

    @property
    def quiet(self) -> Part:
        """The rows that were not alerted."""
        return Part(*self.memory.sums[0].tolist())

    @property
    def alerted(self) -> Part:
        """The rows that were."""
        return Part(*self.memory.sums[1].tolist())

    @property
    def surprise(self) -> float:
        """The expected positives beyond those that the priors of their rows stood for: 0 where a prior does not lag."""
        return float(self.memory.surprise[0])

    def labelled(self, *, alerted: bool) -> LabelledPart:
        """Return what the labels of the alerted or of the quiet rows say; NaN where there are none."""
        (negatives, negatives_squared), (positives, positives_squared) = self.memory.labels[int(alerted)].tolist()
        weight, squared = negatives + positives, negatives_squared + positives_squared
        if weight <= 0.0 or squared <= 0.0:
            return LabelledPart(math.nan, 0.0)
        # labels of rows long gone are few in weight, however many they were: they do not stand for these rows
        return LabelledPart(positives / weight, min(weight**2 / squared, weight))

    def add(self, posteriors: npt.ArrayLike, alerts: npt.ArrayLike, *, priors: npt.ArrayLike | None = None) -> None:
        """Add decided rows in order: P(positive | row) (n,) at the prior decided with, and the alerts (n,).

        Without the `priors` decided with, P(positive) (n,), nothing is known of how far they lagged.
        """
        rows, flags = _checked(posteriors, alerts)
        before = rows if priors is None else _checked(priors, flags)[0]
        self.add_checked(np.ascontiguousarray(rows), flags, np.ascontiguousarray(before))

    def add_checked(self, posteriors: FloatArray, alerts: npt.NDArray[np.bool_], priors: FloatArray) -> None:
        """Do what `add` does with contiguous arrays that were checked already."""
        add_to_tally(posteriors, alerts, priors, self.kept, *self.memory)

    def add_label(self, alert: bool, positive: bool, *, propensity: float = 1.0, age: int = 0, sign: int = 1) -> None:
        """Add a true label, or take one back that was replaced (`sign=-1`).

        `alert` says whether its row was alerted, `positive` what it turned out to be, `propensity` how probable it was
        that this row would be labelled, `age` how many rows were decided after it.
        """
        chance = require_in("propensity", propensity, 1e-9, 1.0)
        rows_since = as_integer("age", age, 0, LARGEST_COUNT)
        if sign not in (1, -1):
            raise InvalidInputError(f"sign must be 1 or -1, got {sign!r:.40}")
        if not all(isinstance(flag, bool | np.bool_) for flag in (alert, positive)):
            raise InvalidInputError(f"alert and positive must be true or false, got {alert!r:.40} and {positive!r:.40}")
        weight = self.kept**rows_since / chance
        cell = self.memory.labels[int(alert), int(positive)]
        # never below 0: what was added and taken back may differ in the last bit
        cell[:] = np.maximum(cell + sign * np.array([weight, weight**2]), 0.0)

    def require_possible(self) -> None:
        """Refuse a restored memory that no stream could have left."""
        sums, n_seen = self.memory.sums, self.n_seen
        if (sums < 0.0).any() or (self.memory.labels < 0.0).any() or not 0 <= n_seen <= LARGEST_COUNT:
            raise InvalidStateError("the sums and the labels of a tally are not negative")
        most = min(float(n_seen), self.n_remembered) * (1.0 + 1e-6) + 1e-6
        totals, positives, slopes, noise = sums.T
        parts = {"posteriors": (positives, totals), "slopes": (slopes, positives), "noise": (noise, slopes)}
        wrong = [name for name, (part, whole) in parts.items() if (part > whole + 1e-9 * most).any()]
        if totals.sum() > most or abs(self.surprise) > most:
            wrong.append("rows")
        if wrong:
            raise InvalidStateError(f"the sums of a tally of {n_seen} rows are too large: {', '.join(wrong)}")


def _checked(posteriors: npt.ArrayLike, alerts: npt.ArrayLike) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    probabilities, flags = as_floats(posteriors, "posteriors"), np.asarray(alerts)
    if probabilities.ndim != 1 or flags.shape != probabilities.shape or (flags.size and flags.dtype != _FLAGS):
        raise InvalidInputError(
            "posteriors must be numbers (n,) and alerts true or false (n,), "
            f"got {probabilities.shape} and {flags.shape} of {flags.dtype}"
        )
    if not ((probabilities >= 0.0) & (probabilities <= 1.0)).all():  # refuses NaN too
        raise InvalidInputError("posteriors must lie in [0, 1]")
    return probabilities, flags.astype(np.bool_)


@compiled
def add_to_tally(
    posteriors: FloatArray,
    alerts: npt.NDArray[np.bool_],
    priors: FloatArray,
    kept: float,
    sums: FloatArray,
    surprise: FloatArray,
    labels: FloatArray,
    seen: IntArray,
) -> None:
    """Add decided rows, each with P(positive) after it was seen and at the prior before."""
    kept_twice = kept * kept
    for t in range(posteriors.size):
        for part in range(2):
            for j in range(3):
                sums[part, j] *= kept
            sums[part, 3] *= kept_twice
            for label in range(2):
                labels[part, label, 0] *= kept
                labels[part, label, 1] *= kept_twice
        surprise[0] = surprise[0] * kept + (posteriors[t] - priors[t])
        part = 1 if alerts[t] else 0
        doubt = posteriors[t] * (1.0 - posteriors[t])
        sums[part, 0] += 1.0
        sums[part, 1] += posteriors[t]
        sums[part, 2] += doubt
        sums[part, 3] += doubt
        seen[0] += 1
