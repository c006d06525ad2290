"""Track the prior with a bank of forgetful Dirichlet filters and snapshots of regimes, and no tuning."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import betainc, expit

from obil.arrays import FloatArray, IntArray, PriorLike, require_in
from obil.compiled import compiled, inlined
from obil.errors import InvalidInputError, InvalidStateError
from obil.trackers.tracker import CompiledTracker, as_count

# Rows each filter remembers; None never forgets.
MEMORIES: tuple[float | None, ...] = (50, 150, 500, 1_500, 5_000, 15_000, 50_000, None)
# How often the best expert may change, at least: all three are run at once and mixed by their evidence.
SWITCHING_RATES = (1e-6, 3e-4, 3e-3)
LEAST_SWITCHING = 1e-6
SNAPSHOT_EVERY = 100  # rows
SNAPSHOT_DISTANCE = 0.3  # in the logit for two classes, in L1 for more
START_SHARE = 0.02  # what a filter that forgot everything falls back to, in start rows
LARGEST_TOTAL = 1e15  # rows; no stream is longer
SMALLEST_COUNT = 1e-12  # a class that never comes keeps a count above 0, so that it can still be found


class BankMemory(NamedTuple):
    """M filters and up to V snapshots are N = M + V experts, mixed at J switching rates.

    Experts lie along the last axis, where the kernel's loops run over neighbours.
    """

    prior: FloatArray  # (K,)
    counts: FloatArray  # (K, M) Dirichlet parameters
    snapshots: FloatArray  # (K, V) priors
    weights: FloatArray  # (J, N) of the experts, at each switching rate
    uses: FloatArray  # (J, N) weights summed over the past
    used: FloatArray  # (J,) the sum of all uses
    rate_weights: FloatArray  # (J,) of the switching rates
    visits: IntArray  # (V,) how often each snapshot was found again
    seen: IntArray  # (2,) rows, snapshots stored


class BayesBank(CompiledTracker):
    """Mix forgetful filters of many memories by how well each predicted the stream so far.

    Each filter holds a Dirichlet over the prior. A row multiplies it by a mixture, and the filter keeps
    the mean and the total second moment of the exact result (*moment matching*), so that it knows how
    sure it is; then it forgets a little. Every 100 rows the mixture's prior is stored as a *snapshot* if
    it is new, and refines the snapshot near it if it is not, so that a regime that comes back is found at
    once, and better each time. Nothing has to be tuned to the stream.

    Guarantee
    ---------
    The evidence of a row is linear in the prior, so the bank's evidence is that of a mixture over all
    sequences of experts. For *any* rows, and any sequence of experts with S switches, over T rows and N
    experts, the bank's log evidence is at most ``(S + 1) (log 2N + log(T + 2)) + log J + log(T + 2)``
    below that sequence's, where T is at most 1 / (the smallest switching rate), 10^6 by default, and a
    sequence may turn to a new snapshot from the row after the one it was stored at.

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
        How many rows the start prior counts for.

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
        start_rows: float = 10.0,
    ) -> None:
        if not memories or not switching_rates:
            raise InvalidInputError("a bank needs at least one memory and one switching rate")
        super().__init__(
            prior,
            memories=[m if m is None else require_in("a memory", m, 2.0, 1e12) for m in memories],
            n_snapshots=as_count("n_snapshots", n_snapshots, smallest=0),
            switching_rates=[require_in("a switching rate", r, 1e-12, 0.5) for r in switching_rates],
            start_rows=require_in("start_rows", start_rows, 1e-3, 1e9),
        )

    def interval(self, level: float = 0.9) -> FloatArray:
        """Return the central interval of each class's prior under the mixture of filters, (K, 2).

        Snapshots are single values and carry no width: they count in the prior, not in the interval, so just
        after a regime came back the prior can lie outside it. The interval trusts the log ratios; a
        calibrator's own uncertainty comes on top.
        """
        tail = (1.0 - require_in("level", level, 1e-6, 1.0 - 1e-6)) / 2.0
        memory: BankMemory = self._started()  # type: ignore[assignment]  # the base class knows only `prior`
        mixture = memory.rate_weights @ memory.weights[:, : memory.counts.shape[1]]
        mixture = mixture / mixture.sum()  # (M,)
        own = memory.counts  # (K, M)
        rest = np.maximum(own.sum(axis=0) - own, SMALLEST_COUNT)
        ends = [_mixture_quantile(mixture, own, rest, q) for q in (tail, 1.0 - tail)]
        return np.stack(ends, axis=1)

    def _begin(self, start: FloatArray) -> BankMemory:
        self._kept = np.array([1.0 if m is None else 1.0 - 1.0 / m for m in self._settings["memories"]])
        self._floors = np.array(self._settings["switching_rates"])
        self._start_counts = self._settings["start_rows"] * start
        n_filters, n_rates, n_snapshots = self._kept.size, self._floors.size, self._settings["n_snapshots"]
        n_experts = n_filters + n_snapshots
        weights = np.zeros((n_rates, n_experts))
        weights[:, :n_filters] = 1.0 / n_filters
        return BankMemory(
            prior=start.copy(),
            counts=np.tile(self._settings["start_rows"] * start[:, None], n_filters),
            snapshots=np.zeros((start.size, n_snapshots)),
            weights=weights,
            uses=weights.copy(),
            used=np.ones(n_rates),
            rate_weights=np.full(n_rates, 1.0 / n_rates),
            visits=np.zeros(n_snapshots, dtype=np.int64),
            seen=np.zeros(2, dtype=np.int64),
        )

    def _run_kernel(self, rows: FloatArray, priors: FloatArray) -> None:
        _run_bank(rows, priors, self._start_counts, self._kept, self._floors, *self._memory)

    def _check_memory(self) -> None:
        memory: BankMemory = self._memory
        rows, stored = memory.seen.tolist()
        n_filters, n_snapshots = memory.counts.shape[1], memory.snapshots.shape[1]
        if not 0 <= rows <= LARGEST_TOTAL or not 0 <= stored <= n_snapshots:
            raise InvalidStateError(f"a bank with {n_snapshots} snapshots cannot have seen {[rows, stored]}")
        if (memory.visits[:stored] < 1).any():
            raise InvalidStateError("a snapshot of a bank was visited at least once")
        if (memory.counts <= 0.0).any() or (memory.counts > LARGEST_TOTAL).any():
            raise InvalidStateError(f"the counts of a bank must be positive and at most {LARGEST_TOTAL:g}")
        snapshots = memory.snapshots[:, :stored]
        if (snapshots <= 0.0).any() or (snapshots > 1.0).any() or (abs(snapshots.sum(axis=0) - 1.0) > 1e-6).any():
            raise InvalidStateError("the snapshots of a bank must be priors")
        active = n_filters + stored
        for weights in (*memory.weights[:, :active], memory.rate_weights):
            if (weights < 0.0).any() or (weights > 1.0 + 1e-6).any() or abs(float(weights.sum()) - 1.0) > 1e-6:
                raise InvalidStateError("the weights of a bank must be non-negative and sum to 1")
        if (
            memory.weights[:, active:].any()
            or memory.uses[:, active:].any()
            or (memory.uses < 0.0).any()
            or (memory.uses > LARGEST_TOTAL).any()
        ):
            raise InvalidStateError("the weights of a bank must belong to experts that exist")
        if not np.allclose(memory.uses.sum(axis=1), memory.used, rtol=1e-6):
            raise InvalidStateError("the uses of a bank must add up to their sum")


def _mixture_quantile(mixture: FloatArray, own: FloatArray, rest: FloatArray, probability: float) -> FloatArray:
    """Invert the mixture of Beta(own, rest) distributions for each class by bisection in the logit, (K,)."""
    low, high = np.full(len(own), -60.0), np.full(len(own), 60.0)
    for _ in range(60):
        middle = (low + high) / 2.0
        below = betainc(own, rest, expit(middle)[:, None]) @ mixture < probability
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(expit((low + high) / 2.0))


@compiled
def _run_bank(
    rows: FloatArray,
    priors: FloatArray,
    start_counts: FloatArray,
    kept: FloatArray,
    floors: FloatArray,
    prior: FloatArray,
    counts: FloatArray,
    snapshots: FloatArray,
    weights: FloatArray,
    uses: FloatArray,
    used: FloatArray,
    rate_weights: FloatArray,
    visits: IntArray,
    seen: IntArray,
) -> None:
    """Let n rows vote; write the prior before each, and the one after the last where `priors` has room, (n + 1, K)."""
    n_classes, n_filters = counts.shape
    n_rates, n_experts = weights.shape
    ratios = np.empty(n_classes)
    means = np.empty((n_classes, n_experts))
    evidence = np.empty(n_experts)
    rate_evidence = np.empty(n_rates)
    mixture = np.empty(n_experts)
    scratch = np.empty((3, n_filters))
    # an expert that does not exist yet has weight, use and evidence 0; loops over all of them run fastest
    exists = np.zeros(n_experts)
    n_active = n_filters + seen[1]
    exists[:n_active] = 1.0
    means[:, n_filters:] = snapshots
    for m in range(n_filters):
        total = counts[:, m].sum()
        for k in range(n_classes):
            means[k, m] = counts[k, m] / total
    for t in range(rows.shape[0]):
        largest = rows[t, 0]
        for k in range(n_classes):
            priors[t, k] = prior[k]  # decide with this: a row must not vote on its own threshold
            largest = max(largest, rows[t, k])
        for k in range(n_classes):  # only ratios of evidence matter, so the largest likelihood may be 1
            ratios[k] = 1.0 if rows[t, k] == largest else np.exp(rows[t, k] - largest)
        for m in range(n_experts):
            evidence[m] = 0.0
            mixture[m] = 0.0
        for k in range(n_classes):
            for m in range(n_experts):
                evidence[m] += means[k, m] * ratios[k]

        newest = 1.0 / (seen[0] + 2.0)
        mixed_evidence = 0.0
        for j in range(n_rates):
            rate_evidence[j] = _dot(weights[j], evidence)
            mixed_evidence += rate_weights[j] * rate_evidence[j]
        share = max(newest, LEAST_SWITCHING)
        for j in range(n_rates):
            rate_weights[j] = (1.0 - share) * rate_weights[j] * rate_evidence[j] / mixed_evidence + share / n_rates
            switched = max(newest, floors[j])
            stayed = (1.0 - switched) / rate_evidence[j]
            to_past = 0.5 * switched / used[j]
            to_all = 0.5 * switched / n_active
            for m in range(n_experts):
                weight = stayed * weights[j, m] * evidence[m] + to_past * uses[j, m] + to_all * exists[m]
                weights[j, m] = weight
                uses[j, m] += weight
                mixture[m] += rate_weights[j] * weight
            used[j] += 1.0

        _match_moments(counts, means, ratios, evidence, kept, start_counts, scratch)
        _mix(mixture, means, prior)
        seen[0] += 1
        if seen[0] % SNAPSHOT_EVERY == 0 and snapshots.size > 0:
            _remember_regime(prior, snapshots, weights, uses, used, rate_weights, visits, seen)
            n_active = n_filters + seen[1]
            exists[:n_active] = 1.0
            means[:, n_filters:] = snapshots
            for m in range(n_experts):
                mixture[m] = 0.0
                for j in range(n_rates):
                    mixture[m] += rate_weights[j] * weights[j, m]
            _mix(mixture, means, prior)
    if priors.shape[0] > rows.shape[0]:
        priors[rows.shape[0]] = prior


@inlined
def _match_moments(
    counts: FloatArray,
    means: FloatArray,
    ratios: FloatArray,
    evidence: FloatArray,
    kept: FloatArray,
    start_counts: FloatArray,
    scratch: FloatArray,
) -> None:
    """Replace each filter's Dirichlet by the one with the mean and the summed variance of its exact posterior.

    With r the responsibilities, x = counts + r and n = sum(counts) + 1, the exact posterior has mean x / n
    and variances (x (n-x) + n r (1-r)) / (n^2 (n+1)): sums of positive terms. Then forget, and leave the
    new means in the filters' columns of `means`.
    """
    n_classes, n_filters = counts.shape
    n, spread, doubt = scratch[0], scratch[1], scratch[2]  # (M,) each
    for m in range(n_filters):
        n[m], spread[m], doubt[m] = 1.0, 0.0, 0.0
    for k in range(n_classes):
        for m in range(n_filters):
            n[m] += counts[k, m]
    for k in range(n_classes):
        for m in range(n_filters):
            responsibility = means[k, m] * ratios[k] / evidence[m]
            counts[k, m] += responsibility
            spread[m] += counts[k, m] * (n[m] - counts[k, m])
            doubt[m] += responsibility * (1.0 - responsibility)
    scale, total = spread, doubt  # what follows no longer needs the two
    for m in range(n_filters):
        concentration = (n[m] + 1.0) * spread[m] / (spread[m] + n[m] * doubt[m]) - 1.0
        scale[m] = kept[m] * concentration / n[m]
        total[m] = 0.0
    for k in range(n_classes):
        for m in range(n_filters):
            forgotten = scale[m] * counts[k, m] + (1.0 - kept[m]) * START_SHARE * start_counts[k]
            counts[k, m] = max(forgotten, SMALLEST_COUNT)
            total[m] += counts[k, m]
    for k in range(n_classes):
        for m in range(n_filters):
            means[k, m] = counts[k, m] / total[m]


@inlined
def _mix(mixture: FloatArray, means: FloatArray, prior: FloatArray) -> None:
    total = 0.0
    for k in range(prior.size):
        prior[k] = _dot(mixture, means[k])
        total += prior[k]
    for k in range(prior.size):
        prior[k] /= total


@inlined
def _dot(left: FloatArray, right: FloatArray) -> float:
    """Sum products in four chains: one chain would wait for each addition, and a free order would not repeat."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    m = 0
    while m + 4 <= left.size:
        a += left[m] * right[m]
        b += left[m + 1] * right[m + 1]
        c += left[m + 2] * right[m + 2]
        d += left[m + 3] * right[m + 3]
        m += 4
    while m < left.size:
        a += left[m] * right[m]
        m += 1
    return (a + b) + (c + d)


@compiled
def _remember_regime(
    prior: FloatArray,
    snapshots: FloatArray,
    weights: FloatArray,
    uses: FloatArray,
    used: FloatArray,
    rate_weights: FloatArray,
    visits: IntArray,
    seen: IntArray,
) -> None:
    """Average the current prior into the snapshot near it, or store it, if need be over the least used one."""
    n_classes, n_snapshots = snapshots.shape
    n_filters = weights.shape[1] - n_snapshots
    nearest, slot = np.inf, 0
    for v in range(seen[1]):
        if n_classes == 2:
            distance = abs(np.log(prior[1] / prior[0]) - np.log(snapshots[1, v] / snapshots[0, v]))
        else:
            distance = np.abs(prior - snapshots[:, v]).sum()
        if distance < nearest:
            nearest, slot = distance, v
    if nearest < SNAPSHOT_DISTANCE:
        visits[slot] += 1
        snapshots[:, slot] += (prior - snapshots[:, slot]) / visits[slot]
        return

    slot = seen[1]
    if slot < n_snapshots:
        seen[1] += 1
    else:
        least = np.inf
        for v in range(n_snapshots):
            use = 0.0
            for j in range(rate_weights.size):
                use += rate_weights[j] * uses[j, n_filters + v]
            if use < least:
                least, slot = use, v
    snapshots[:, slot] = prior
    visits[slot] = 1
    expert = n_filters + slot
    for j in range(rate_weights.size):
        # the newcomer earns its weight from the next share on; the others take over what its place held
        remaining = 1.0 - weights[j, expert]
        used[j] -= uses[j, expert]
        weights[j, expert] = 0.0
        uses[j, expert] = 0.0
        weights[j] /= remaining
