"""Track the prior with a bank of forgetful Dirichlet filters and snapshots of regimes."""

from collections.abc import Sequence

import numpy as np

from obil.arrays import FloatArray, PriorLike, as_integer, require_in
from obil.errors import InvalidInputError, InvalidStateError
from obil.trackers.bank_kernel import FAULTS_OF_BANK, SMALLEST_COUNT, BankConstants, BankMemory, fault_of_bank, run_bank
from obil.trackers.beta_mixture import beta_mixture_quantiles
from obil.trackers.tracker import CompiledTracker

# rows that each filter remembers; None never forgets
MEMORIES: tuple[float | None, ...] = (50, 150, 500, 1_500, 5_000, 15_000, 50_000, None)
# The least rate at which the best expert changes: all three are run at once and mixed by their evidence.
SWITCHING_RATES = (1e-6, 3e-4, 3e-3)
SLOW_MEMORIES: tuple[float | None, ...] = (3_000, 10_000, 30_000, None)
SLOW_START_ROWS = 800.0


class BayesBank(CompiledTracker):
    """Mix forgetful filters of many memories by how well each has predicted the stream.

    Each filter holds a Dirichlet over the prior. A row multiplies it by a mixture, and the filter keeps
    the mean and the total second moment of the exact result (*moment matching*), so that its width is
    right; then it forgets a little. Every 100 rows the mixture's prior is stored as a *snapshot* if
    it is new, and refines the snapshot near it if it is not, so that a regime that comes back is found at
    once, and better each time. It has no rate or window to set for a stream; its own constants were chosen on
    simulated streams (docs/trackers.md).

    Guarantee
    ---------
    For *any* rows, and any sequence of its N experts with S switches over T rows, the bank's log evidence is at most
    ``(S + 1) (log 2N + log(T + 2)) + log J + log(T + 2)`` below that sequence's, at J switching rates, for T up to
    1 / (the smallest of them), 10^6 by default. Proof: docs/theory.md, Proposition 3.

    Parameters
    ----------
    prior
        The prior to start from; None leaves that to `start`.
    memories
        Rows each filter remembers, None for one that never forgets.
    n_snapshots
        How many regimes are kept.
    switching_rates
        Floors of the rate at which the best expert may change.
    start_rows
        How many rows the start prior counts for; one per class, at least 10, if None.

    >>> bank = BayesBank(0.5)
    >>> _ = bank.update_many([[0.0, -9.0]] * 400)  # rows that all look negative
    >>> bool(bank.prior[1] < 0.02)
    True
    """

    def __init__(
        self,
        prior: PriorLike | None = None,
        *,
        memories: Sequence[float | None] = MEMORIES,
        n_snapshots: int = 8,
        switching_rates: Sequence[float] = SWITCHING_RATES,
        start_rows: float | None = None,
    ) -> None:
        if not memories or not switching_rates:
            raise InvalidInputError("a bank needs at least one memory and one switching rate")
        super().__init__(
            prior,
            memories=[m if m is None else require_in("a memory", m, 2.0, 1e12) for m in memories],
            n_snapshots=as_integer("n_snapshots", n_snapshots, 0),
            switching_rates=[require_in("a switching rate", r, 1e-12, 0.5) for r in switching_rates],
            start_rows=None if start_rows is None else require_in("start_rows", start_rows, 1e-3, 1e9),
        )

    @classmethod
    def slow(cls, prior: PriorLike | None = None) -> "BayesBank":
        """Return a bank of long memories alone, which starts with many rows at its prior."""
        return cls(prior, memories=SLOW_MEMORIES, n_snapshots=0, start_rows=SLOW_START_ROWS)

    def path(self, rows: FloatArray) -> FloatArray:
        """Update with checked rows (n, K) in order; return the prior before each and after the last, (n + 1, K)."""
        priors = np.empty((len(rows) + 1, rows.shape[1]))
        self._run_kernel(rows, priors)
        return priors

    def interval(self, level: float = 0.9) -> FloatArray:
        """Return the central credible interval of each class's prior under the mixture of filters, (K, 2).

        Snapshots are single values and have no width: they count in the prior, not in the interval, so just
        after a regime came back the prior can lie outside it. The interval takes the log ratios as exact; a
        calibrator's own uncertainty comes on top.
        """
        tail = (1.0 - require_in("level", level, 1e-6, 1.0 - 1e-6)) / 2.0
        memory: BankMemory = self._started()  # type: ignore[assignment]  # the base class knows only `prior`
        mixture = memory.rate_weights @ memory.weights[:, : memory.counts.shape[1]]
        mixture = mixture / mixture.sum()  # (M,)
        own = memory.counts  # (K, M)
        rest = np.maximum(own.sum(axis=0) - own, SMALLEST_COUNT)
        return beta_mixture_quantiles(mixture, own, rest, (tail, 1.0 - tail))

    def _begin(self, start: FloatArray) -> BankMemory:
        self._kept = np.array([1.0 if m is None else 1.0 - 1.0 / m for m in self._settings["memories"]])
        self._floors = np.array(self._settings["switching_rates"])
        start_rows = self._settings["start_rows"]
        self._start_counts = (max(10.0, start.size) if start_rows is None else start_rows) * start
        n_filters, n_rates, n_snapshots = self._kept.size, self._floors.size, self._settings["n_snapshots"]
        n_experts = n_filters + n_snapshots
        weights = np.zeros((n_rates, n_experts))
        weights[:, :n_filters] = 1.0 / n_filters
        return BankMemory(
            prior=start.copy(),
            counts=np.tile(self._start_counts[:, None], n_filters),
            snapshots=np.zeros((start.size, n_snapshots)),
            weights=weights,
            uses=weights.copy(),
            used=np.ones(n_rates),
            rate_weights=np.full(n_rates, 1.0 / n_rates),
            visits=np.zeros(n_snapshots, dtype=np.int64),
            seen=np.zeros(2, dtype=np.int64),
        )

    @property
    def constants(self) -> BankConstants:
        """What the kernel takes beside the memory: the same for all streams with these settings."""
        self._started()
        return BankConstants(self._start_counts, self._kept, self._floors)

    def _run_kernel(self, rows: FloatArray, priors: FloatArray) -> None:
        run_bank(rows, priors, self._start_counts, self._kept, self._floors, *self._memory)

    def _check_memory(self) -> None:
        fault = fault_of_bank(*self._memory)
        if fault:
            raise InvalidStateError(FAULTS_OF_BANK[fault])
