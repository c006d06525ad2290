"""Say what a prior tracker is, and hold what all the compiled ones share."""

import math
from collections.abc import Mapping
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, PriorLike, as_floats, as_log_ratios, as_prior
from obil.errors import InvalidInputError, InvalidStateError, NotStartedError

# A window or a grid longer than this is a mistake in a setting or a damaged state, not a plan.
LARGEST_COUNT = 10_000_000


class PriorTracker(Protocol):
    """Follows the class prior of an unlabelled stream from its log ratios; decides nothing.

    >>> from obil.trackers import FixedPrior
    >>> tracker: PriorTracker = FixedPrior(0.1)
    >>> tracker.update([0.0, 3.0])
    array([0.9, 0.1])
    """

    def start(self, prior: PriorLike) -> Self:
        """Forget everything and start from `prior`."""

    @property
    def prior(self) -> FloatArray:
        """The prior to decide the next row with, (K,)."""

    def priors_for(self, log_ratios: npt.ArrayLike) -> FloatArray:
        """Return the prior each of these rows (n, K) would be decided with now, (n, K), changing nothing."""

    def update(self, log_ratios: npt.ArrayLike, *, views: npt.ArrayLike | None = None) -> FloatArray:
        """Let one row, (K,), vote; return the prior from *before* it, (K,), to decide it with.

        `views` are other log ratios of the same row, (V, K).
        """

    def update_many(self, log_ratios: npt.ArrayLike, *, views: npt.ArrayLike | None = None) -> FloatArray:
        """Let rows (n, K) vote in order; return the prior to decide each with, (n, K); `views` are (n, V, K)."""

    def interval(self, level: float = 0.9) -> FloatArray | None:
        """Return lower and upper ends for each class, (K, 2), or None where the tracker has no such notion."""

    def state(self) -> dict[str, Any]:
        """Return everything needed to go on bit for bit, as plain JSON values."""

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return a tracker that goes on exactly where the one that made `state` stopped."""


@runtime_checkable
class LearnsFromLabels(Protocol):
    """A tracker that can use true labels, however late.

    >>> from obil.trackers import FixedPrior, SafeTracker
    >>> isinstance(SafeTracker(), LearnsFromLabels), isinstance(FixedPrior(), LearnsFromLabels)
    (True, False)
    """

    def feedback(
        self,
        log_ratios: npt.ArrayLike,
        label: int,
        *,
        propensity: float = 1.0,
        row: int | None = None,
        replaced: int | None = None,
        counts_only: bool = False,
    ) -> None:
        """Let the true label of a row speak: what it replaces, and the number the row had when it was decided.

        With `counts_only` its log ratios are those of a model that has been replaced, and only the label counts.
        """


class Memory(Protocol):
    """The arrays a kernel reads and writes: a NamedTuple whose first field is the current prior."""

    @property
    def prior(self) -> FloatArray:  # (K,)
        """The current prior."""

    def _asdict(self) -> dict[str, Any]: ...


class CompiledTracker:
    """Checks rows, runs the kernel, and saves and restores the memory: all but the mathematics.

    A subclass passes its settings up, lays out its memory in `_begin` and calls its kernel in `_run_kernel`.
    One row is a batch of one, through the same machine code, so batches and single rows agree bit for bit.
    """

    _start: FloatArray
    _memory: Any

    def __init__(self, prior: PriorLike | None, **settings: Any) -> None:
        self._settings = settings
        self._memory = None
        if prior is not None:
            self.start(prior)

    def start(self, prior: PriorLike) -> Self:
        """Forget everything and start from `prior`: a number (binary P1) or one probability a class."""
        start = as_prior(prior)
        memory = self._begin(start)
        self._start, self._memory = start, memory
        nothing = np.empty((0, start.size))
        self._run_kernel(nothing, nothing)  # compiles now, so that the first row does not wait
        return self

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return int(self._started().prior.size)

    @property
    def start_prior(self) -> FloatArray:
        """The prior that the tracker started from, (K,)."""
        self._started()
        return self._start.copy()

    @property
    def prior(self) -> FloatArray:
        """The prior to decide the next row with, (K,)."""
        return self._started().prior.copy()

    def priors_for(self, log_ratios: npt.ArrayLike) -> FloatArray:
        """Return the prior each of these rows (n, K) would be decided with now, (n, K), changing nothing."""
        rows = as_log_ratios(log_ratios, n_classes=self.n_classes)
        return np.tile(self._started().prior, (len(rows), 1))

    def update(self, log_ratios: npt.ArrayLike, *, views: npt.ArrayLike | None = None) -> FloatArray:
        """Let one row, (K,), vote; return the prior from *before* it. Trackers that use no views ignore them."""
        row = as_floats(log_ratios, "log_ratios")
        if row.ndim != 1:
            raise InvalidInputError(f"update takes one row of log ratios, shape (K,), got {row.shape}")
        values = row.tolist()
        # a finite sum has finite terms; this looks at one row in a tenth of the time the array checks take
        if not (len(values) == self.n_classes and values[0] == 0.0 and math.isfinite(sum(values))):
            row = as_log_ratios(row[None], n_classes=self.n_classes)[0]
        return self.update_checked(row, None if views is None else as_floats(views, "views"))

    def update_checked(self, row: FloatArray, views: FloatArray | None) -> FloatArray:
        """Do what `update` does with a row that was checked already."""
        priors = np.empty((1, row.size))
        self._update_rows(row[None], priors, None if views is None else views[None])
        before: FloatArray = priors[0]
        return before

    def update_many(self, log_ratios: npt.ArrayLike, *, views: npt.ArrayLike | None = None) -> FloatArray:
        """Let rows (n, K) vote in order; return the prior *before* each row, (n, K)."""
        rows = as_log_ratios(log_ratios, n_classes=self.n_classes)
        priors = np.empty_like(rows)
        self._update_rows(rows, priors, None if views is None else as_floats(views, "views"))
        return priors

    def interval(self, level: float = 0.9) -> FloatArray | None:
        """Return None: this tracker does not know how sure it is."""
        return None

    def state(self) -> dict[str, Any]:
        """Return everything needed to go on bit for bit, as plain JSON values."""
        memory = {name: values.tolist() for name, values in self._started()._asdict().items()}
        settings = {"prior": self._start.tolist(), **self._settings}
        return {"tracker": type(self).__name__, "settings": settings, "memory": memory}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return a tracker that goes on exactly where the one that made `state` stopped."""
        try:
            name, settings, saved = state["tracker"], dict(state["settings"]), dict(state["memory"])
        except (KeyError, TypeError, ValueError):
            raise InvalidStateError("a tracker state holds 'tracker', 'settings' and 'memory'") from None
        if name != cls.__name__:
            raise InvalidStateError(f"this state belongs to {name!r:.40}, not to {cls.__name__!r}")
        try:
            tracker = cls(**settings)
        except (TypeError, ValueError) as error:
            raise InvalidStateError(f"the settings in this {cls.__name__} state are wrong: {error}") from None
        if tracker._memory is None:
            raise InvalidStateError(f"the settings in this {cls.__name__} state lack the start prior")
        fields = tracker._memory._asdict()
        if set(saved) != set(fields):
            wrong = sorted(set(saved) ^ set(fields))[:3]
            raise InvalidStateError(f"the memory of {cls.__name__} holds {len(fields)} fields: look at {wrong!r:.200}")
        for field, values in fields.items():
            _restore(field, values, saved[field])
        prior = tracker._memory.prior
        if (prior < 0.0).any() or (prior > 1.0).any() or abs(float(prior.sum()) - 1.0) > 1e-6:
            raise InvalidStateError(f"the saved prior is outside the simplex: {prior.tolist()}")
        tracker._check_memory()
        return tracker

    def _started(self) -> Memory:
        if self._memory is None:
            raise NotStartedError(
                f"{type(self).__name__} has no start prior yet: pass one ({type(self).__name__}(prior=0.05)) "
                "or call start(prior)"
            )
        memory: Memory = self._memory
        return memory

    def _begin(self, start: FloatArray) -> Memory:
        raise NotImplementedError

    def _update_rows(self, rows: FloatArray, priors: FloatArray, views: FloatArray | None) -> None:  # few use views
        self._run_kernel(rows, priors)

    def _run_kernel(self, rows: FloatArray, priors: FloatArray) -> None:
        raise NotImplementedError

    def _check_memory(self) -> None:
        """Refuse restored values a kernel could not have written; kernels do not check their indices."""


def _restore(field: str, values: npt.NDArray[Any], saved: object) -> None:
    try:
        restored = np.asarray(saved)
        whole, both_float = restored.dtype.kind == "i", restored.dtype.kind == values.dtype.kind == "f"
        numbers = whole or restored.size == 0 or (both_float and bool(np.isfinite(restored).all()))
        usable = numbers and restored.shape == values.shape
    except (TypeError, ValueError, OverflowError):
        usable = False
    if not usable:
        kind = "whole" if values.dtype.kind == "i" else "finite"
        raise InvalidStateError(f"memory field {field!r} must hold {kind} numbers in shape {values.shape}")
    values[...] = restored


def as_count(name: str, value: object, *, smallest: int = 1) -> int:
    """Return a whole number in smallest ... 10 million, or say which rule it breaks."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not smallest <= value <= LARGEST_COUNT:
        raise InvalidInputError(f"{name} must be a whole number in {smallest} ... {LARGEST_COUNT}, got {value!r}")
    return int(value)
