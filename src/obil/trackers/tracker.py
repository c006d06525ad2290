"""Define what a prior tracker is, and do for every compiled one all but its mathematics."""

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from obil.arrays import (
    FloatArray,
    IntArray,
    PriorLike,
    as_evidence,
    as_floats,
    as_log_ratio_row,
    as_log_ratios,
    as_prior,
    marks_of,
    require_distributions,
    restore_arrays,
)
from obil.errors import InvalidStateError, NotStartedError
from obil.flat_record import arrays_of


class PriorTracker(Protocol):
    """Estimates the class prior of an unlabelled stream from its log ratios, row by row.

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

    def priors_for(self, log_ratios: npt.ArrayLike, *, evidence: npt.ArrayLike | None = None) -> FloatArray:
        """Return the prior each of these rows (n, K) would be decided with, (n, K); the state is unchanged."""

    def update(self, log_ratios: npt.ArrayLike, *, evidence: npt.ArrayLike | None = None) -> FloatArray:
        """Update with one row, (K,); return the prior from *before* it, (K,), to decide it with.

        `log_ratios` decide. `evidence`, (1 + V, K), is what the prior is read from: log ratios of the same row by a
        model that is distributed as on its held-out rows, then those of V views. Without it `log_ratios` are both.
        Behind them may stand D inputs of the row, for what labels teach; an input x of two classes as [0, x]. Evidence
        that begins with [0, NaN, ...] is of a row that must leave the prior as it is.
        """

    def update_many(self, log_ratios: npt.ArrayLike, *, evidence: npt.ArrayLike | None = None) -> FloatArray:
        """Update with rows (n, K) in order; return the prior to decide each with, (n, K).

        `evidence` is (n, 1 + V, K), or (n, 1 + V + D, K).
        """

    def interval(self, level: float = 0.9) -> FloatArray | None:
        """Return a credible interval of each class's prior, (K, 2), or None where the tracker has none."""

    def state(self) -> dict[str, Any]:
        """Return everything needed to resume bit for bit, as plain JSON values."""

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return a tracker that resumes exactly where the one that made `state` stopped."""


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
        inputs: npt.ArrayLike | None = None,
    ) -> None:
        """Update with the true label of a row, given the label it replaces and the row's number when it was decided.

        With `counts_only` the log ratios come from a model that has been replaced, and only the label is used. A
        tracker that has `inputs_of` is given what that returned for the row.
        """


class Memory(Protocol):
    """The arrays a kernel reads and writes: a NamedTuple whose first field is the current prior."""

    @property
    def prior(self) -> FloatArray:  # (K,)
        """The current prior."""


class PriorMemory(NamedTuple):
    """The memory of a tracker that holds no more than its estimate, (K,)."""

    prior: FloatArray


class CompiledTracker:
    """Checks rows, runs the kernel, and saves and restores the memory: all but the mathematics.

    A subclass passes its settings up, lays out its memory in `_begin` and calls its kernel in `_run_kernel`.
    One row is a batch of one, through the same machine code: batches and single rows agree bit for bit.
    """

    _start: FloatArray
    _memory: Any

    def __init__(self, prior: PriorLike | None, **settings: Any) -> None:
        self._settings = settings
        self._memory = None
        if prior is not None:
            self.start(prior)

    def start(self, prior: PriorLike) -> Self:
        """Forget everything and start from `prior`: a number (binary P1) or one probability per class."""
        start = as_prior(prior)
        memory = self._begin(start)
        self._start, self._memory = start, memory
        nothing = np.empty((0, start.size))
        self._update_rows(nothing, nothing[:, None], nothing)  # compiles now, and not when the first row comes
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

    def priors_for(self, log_ratios: npt.ArrayLike, *, evidence: npt.ArrayLike | None = None) -> FloatArray:
        """Return the prior each of these rows (n, K) would be decided with, (n, K); the state is unchanged."""
        rows = as_log_ratios(log_ratios, n_classes=self.n_classes)
        return np.tile(self._started().prior, (len(rows), 1))

    def update(self, log_ratios: npt.ArrayLike, *, evidence: npt.ArrayLike | None = None) -> FloatArray:
        """Update with one row, (K,); return the prior from *before* it. Trackers that use no views ignore them."""
        row = as_log_ratio_row(log_ratios, n_classes=self.n_classes)
        if evidence is None:
            return self.update_checked(row, row[None])
        given = as_floats(evidence, "evidence")[None]
        return self.update_checked(row, as_evidence(given, n_rows=1, n_classes=row.size)[0])

    def update_checked(self, row: FloatArray, evidence: FloatArray) -> FloatArray:
        """Do what `update` does with a row and evidence that were checked already."""
        priors = np.empty((1, row.size))
        self._update_rows(row[None], evidence[None], priors)
        before: FloatArray = priors[0]
        return before

    def update_many(self, log_ratios: npt.ArrayLike, *, evidence: npt.ArrayLike | None = None) -> FloatArray:
        """Update with rows (n, K) in order; return the prior *before* each row, (n, K)."""
        rows = as_log_ratios(log_ratios, n_classes=self.n_classes)
        given = rows[:, None] if evidence is None else as_evidence(evidence, n_rows=len(rows), n_classes=rows.shape[1])
        priors = np.empty_like(rows)
        self._update_rows(rows, given, priors)
        return priors

    def interval(self, level: float = 0.9) -> FloatArray | None:
        """Return None: this tracker has no credible interval."""
        return None

    def state(self) -> dict[str, Any]:
        """Return everything needed to resume bit for bit, as plain JSON values."""
        memory = {name: values.tolist() for name, values in arrays_of(self.memory).items()}
        return {"tracker": type(self).__name__, "settings": self.settings, "memory": memory}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return a tracker that resumes exactly where the one that made `state` stopped."""
        try:
            name, settings, saved = state["tracker"], dict(state["settings"]), dict(state["memory"])
        except (KeyError, TypeError, ValueError):
            raise InvalidStateError("a tracker state must hold 'tracker', 'settings' and 'memory'") from None
        if name != cls.__name__:
            raise InvalidStateError(f"this state belongs to {name!r:.40}, not to {cls.__name__!r}")
        tracker = cls.from_settings(settings)
        restore_arrays(arrays_of(tracker._memory), saved)
        tracker.require_possible()
        return tracker

    @property
    def settings(self) -> dict[str, Any]:
        """What the tracker was made with, its start prior included, as plain JSON values."""
        self._started()
        return {"prior": self._start.tolist(), **self._settings}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Return a started tracker with these settings, from a state."""
        try:
            tracker = cls(**settings)
        except (TypeError, ValueError) as error:
            raise InvalidStateError(f"the settings in this {cls.__name__} state are wrong: {error}") from None
        if tracker._memory is None:
            raise InvalidStateError(f"the settings in this {cls.__name__} state lack the start prior")
        return tracker

    @property
    def memory(self) -> tuple[Any, ...]:
        """The arrays that the tracker learns in, a NamedTuple of arrays or of such memories."""
        memory: Any = self._started()
        return memory  # type: ignore[no-any-return]  # a NamedTuple

    def with_memory(self, memory: Any) -> Self:
        """Return a tracker with these settings and constants whose memory is this one: another stream costs little."""
        tracker = copy.copy(self)
        tracker._memory = memory
        return tracker

    def require_possible(self) -> None:
        """Refuse a restored memory that no stream could have left."""
        require_distributions("the saved prior", self._memory.prior)
        self._check_memory()

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

    def _update_rows(self, rows: FloatArray, evidence: FloatArray, priors: FloatArray) -> None:  # few use all of it
        own = np.ascontiguousarray(evidence[:, 0])
        marked = marks_of(evidence)
        if not marked.any():
            self._run_kernel(own, priors)
            return
        path = np.empty((len(own) - int(marked.sum()), own.shape[1]))
        self._run_kernel(own[~marked], path)
        # a row that is left out is decided with the prior before the next one that is not
        before: IntArray = np.cumsum(~marked) - ~marked
        priors[:] = np.concatenate([path, self._started().prior[None]])[before]

    def _run_kernel(self, rows: FloatArray, priors: FloatArray) -> None:
        raise NotImplementedError

    def _check_memory(self) -> None:
        """Refuse restored values a kernel could not have written; kernels do not check their indices."""
