"""Count what decisions led to over about the last rows: expected from posteriors, and known from late labels."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, as_floats, as_integer, require_in, restore_arrays, shown
from obil.compiled import compiled
from obil.errors import InvalidInputError, InvalidStateError

MEMORY = 5_000.0  # rows
ENOUGH_LABELS = 30.0  # alerts, or misses, that labels have to stand for before they replace what is expected
LARGEST_COUNT = 2**53

_FLOATS, _FLAGS = np.dtype(np.float64), np.dtype(np.bool_)


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

    def __init__(self, *, memory: float = MEMORY) -> None:
        self.memory = require_in("memory", memory, 2.0, 1e12)  # about how many rows are remembered
        self.n_seen = 0  # rows added in all
        self._kept = 1.0 - 1.0 / self.memory
        self._sums = np.zeros((2, 4))  # (quiet, alerted) x Part
        self._surprise = np.zeros(1)
        self._labels = np.zeros((2, 2, 2))  # (quiet, alerted) x (negative, positive) x (weights, their squares)
        self.add(np.empty(0), np.empty(0, dtype=bool))  # compiles now, so that the first row does not wait

    @property
    def quiet(self) -> Part:
        """The rows that were not alerted."""
        return Part(*self._sums[0].tolist())

    @property
    def alerted(self) -> Part:
        """The rows that were."""
        return Part(*self._sums[1].tolist())

    @property
    def surprise(self) -> float:
        """The expected positives beyond those that the priors of their rows stood for: 0 where a prior does not lag."""
        return float(self._surprise[0])

    def labelled(self, *, alerted: bool) -> LabelledPart:
        """Return what the labels of the alerted or of the quiet rows say; NaN where there are none."""
        (negatives, negatives_squared), (positives, positives_squared) = self._labels[int(alerted)].tolist()
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
        _add(posteriors, alerts, priors, self._kept, self._sums, self._surprise, self._labels)
        self.n_seen += alerts.size

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
        weight = self._kept**rows_since / chance
        cell = self._labels[int(alert), int(positive)]
        # never below 0: what was added and taken back may differ in the last bit
        cell[:] = np.maximum(cell + sign * np.array([weight, weight**2]), 0.0)

    def state(self) -> dict[str, Any]:
        """Return everything needed to continue bit for bit, as plain JSON values."""
        return {
            "kind": "outcome_tally",
            "memory": self.memory,
            "seen": self.n_seen,
            "sums": self._sums.tolist(),
            "surprise": self.surprise,
            "labels": self._labels.tolist(),
        }

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Return a tally that continues exactly where the one that made `state` stopped."""
        if not isinstance(state, Mapping) or state.get("kind") != "outcome_tally":
            raise InvalidStateError("this is not the state of an outcome tally")
        memory = state.get("memory")
        if isinstance(memory, bool) or not isinstance(memory, int | float):
            raise InvalidStateError(f"a tally remembers a number of rows, got {shown(memory)}")
        try:
            tally = cls(memory=memory)
            tally.n_seen = as_integer("seen", state.get("seen"), 0, LARGEST_COUNT)
        except (InvalidInputError, OverflowError) as error:
            raise InvalidStateError(f"this tally is damaged: {error}") from None
        arrays = {"sums": tally._sums, "labels": tally._labels, "surprise": tally._surprise.reshape(())}
        try:
            restore_arrays(arrays, {name: state.get(name) for name in arrays})
        except InvalidStateError as error:
            raise InvalidStateError(f"this tally is damaged: {error}") from None
        if (tally._sums < 0.0).any() or (tally._labels < 0.0).any():
            raise InvalidStateError("the sums and the labels of a tally are not negative")
        most = min(float(tally.n_seen), tally.memory) * (1.0 + 1e-6) + 1e-6
        totals, positives, slopes, noise = tally._sums.T
        parts = {"posteriors": (positives, totals), "slopes": (slopes, positives), "noise": (noise, slopes)}
        wrong = [name for name, (part, whole) in parts.items() if (part > whole + 1e-9 * most).any()]
        if totals.sum() > most or abs(tally.surprise) > most:
            wrong.append("rows")
        if wrong:
            raise InvalidStateError(f"the sums of a tally of {tally.n_seen} rows are too large: {', '.join(wrong)}")
        return tally


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
def _add(
    posteriors: FloatArray,
    alerts: npt.NDArray[np.bool_],
    priors: FloatArray,
    kept: float,
    sums: FloatArray,
    surprise: FloatArray,
    labels: FloatArray,
) -> None:
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
