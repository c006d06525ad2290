"""Run the Bayes bank: forgetful Dirichlet filters and snapshots of regimes, mixed by their evidence."""

from typing import NamedTuple

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.bayes.posterior import sums_to_one
from obil.compiled import compiled, inlined

LEAST_SWITCHING = 1e-6
SNAPSHOT_EVERY = 100  # rows
SNAPSHOT_DISTANCE = 0.3  # in the logit for two classes, in L1 for more
START_PART = 0.02  # of the start counts, which a filter that forgot everything falls back to
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


class BankConstants(NamedTuple):
    """What the kernel takes beside the memory."""

    start_counts: FloatArray  # (K,)
    kept: FloatArray  # (M,) of a filter from one row to the next
    floors: FloatArray  # (J,) of the switching rates


FAULTS_OF_BANK = (
    "",
    "a bank cannot have seen so many rows or snapshots",
    "the counts and the prior of a bank must be positive and not too large",
    "a snapshot of a bank was visited at least once, and is a positive distribution",
    "the weights of a bank must be non-negative and sum to 1",
    "the weights of a bank must belong to experts that exist",
    "the uses of a bank must add up to their sum",
)


@compiled
def fault_of_bank(  # noqa: PLR0911  # one for each rule
    prior: FloatArray,
    counts: FloatArray,
    snapshots: FloatArray,
    weights: FloatArray,
    uses: FloatArray,
    used: FloatArray,
    rate_weights: FloatArray,
    visits: IntArray,
    seen: IntArray,
) -> int:
    """Return which of FAULTS_OF_BANK a restored memory has: the kernel does not check its indices."""
    n_classes, n_filters = counts.shape
    n_snapshots, n_rates = snapshots.shape[1], rate_weights.size
    stored = seen[1]
    if not (0 <= seen[0] <= LARGEST_TOTAL and 0 <= stored <= n_snapshots):
        return 1
    for k in range(n_classes):
        if not 0.0 < prior[k] <= 1.0:
            return 2
        for m in range(n_filters):
            if not 0.0 < counts[k, m] <= LARGEST_TOTAL:
                return 2
    for v in range(stored):
        if visits[v] < 1 or not (snapshots[:, v] > 0.0).all() or not sums_to_one(snapshots[:, v]):
            return 3
    if not sums_to_one(rate_weights):
        return 4
    for j in range(n_rates):
        if not sums_to_one(weights[j]):
            return 4
        use = 0.0
        for m in range(weights.shape[1]):
            if not 0.0 <= uses[j, m] <= LARGEST_TOTAL:
                return 4
            if m >= n_filters + stored and (weights[j, m] != 0.0 or uses[j, m] != 0.0):
                return 5
            use += uses[j, m]
        if not abs(use - used[j]) <= 1e-6 * abs(used[j]) + 1e-8:
            return 6
    return 0


@compiled
def run_bank(
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
    """Update with n rows; write the prior before each, and the one after the last if `priors` is (n + 1, K).

    A row of NaN changes nothing.
    """
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
            priors[t, k] = prior[k]  # decide with this: a row must not influence its own threshold
            largest = max(largest, rows[t, k])
        if np.isnan(rows[t, n_classes - 1]):
            continue
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
        switched = max(newest, LEAST_SWITCHING)
        for j in range(n_rates):
            kept_weight = (1.0 - switched) * rate_weights[j] * rate_evidence[j] / mixed_evidence
            rate_weights[j] = kept_weight + switched / n_rates
            own_switched = max(newest, floors[j])
            stayed = (1.0 - own_switched) / rate_evidence[j]
            to_past = 0.5 * own_switched / used[j]
            to_all = 0.5 * own_switched / n_active
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
            forgotten = scale[m] * counts[k, m] + (1.0 - kept[m]) * START_PART * start_counts[k]
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
        # the new snapshot earns its weight from the next row on; the others take over what its place held
        remaining = 1.0 - weights[j, expert]
        used[j] -= uses[j, expert]
        weights[j, expert] = 0.0
        uses[j, expert] = 0.0
        weights[j] /= remaining
