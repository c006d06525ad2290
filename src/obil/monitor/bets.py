"""Propose what the stream would look like if no prior explained it: warped held-out scores, and recent rows."""

import numpy as np

from obil.arrays import FloatArray
from obil.compiled import compiled
from obil.monitor.score_bins import ScoreBins, centre_rows, effective_counts
from obil.serving.holdout import Holdout

SHIFTS = (0.4, 1.0)  # of the evidence for one class, in standard deviations within the classes
ONE_SHIFT = (0.7,)  # where there are many classes, and so many shifts
MANY_CLASSES = 5
SHIFTED_CLASSES = 6  # the commonest: every shift is one more bet to place
NOISES = (0.5, 1.0)  # standard deviations of what is added, likewise
NOISY_COPIES = 8
MEMORIES = (2_000.0, np.inf)  # rows each running histogram remembers; the first also gives the warps their priors
START_ROWS = 20.0  # what the held-out prior counts for, in rows of the stream
UNMOVED_ROWS = 50.0  # what the unwarped mixture counts for in a running histogram
PRIOR_STEPS = 3


def warped_histograms(holdout: Holdout, bins: ScoreBins) -> FloatArray:
    """Return the histograms of held-out rows as they are and under each of J warps, (1 + J, K, B).

    A warp adds to the evidence for one class, or noise to the evidence for all of them.
    """
    n_classes = holdout.n_classes
    rows = holdout.log_ratios
    spread = _spread_within_classes(holdout, bins)  # (K,)
    warped = [bins.histograms(rows, holdout)]
    for size in SHIFTS if n_classes < MANY_CLASSES else ONE_SHIFT:
        for k in np.argsort(-holdout.prior, kind="stable")[:SHIFTED_CLASSES].tolist():
            moved = rows.copy()
            moved[:, k] += size * spread[k]
            warped.append(bins.histograms(moved, holdout))
    rng = np.random.default_rng(0)  # any draw will do, as long as it is the same one each time
    for size in NOISES:
        scale = size * spread * np.sqrt(1.0 - 1.0 / n_classes)
        copies = [bins.histograms(rows + scale * rng.standard_normal(rows.shape), holdout) for _ in range(NOISY_COPIES)]
        warped.append(np.mean(copies, axis=0))
    counts = effective_counts(holdout)[:, None]
    # one more row, spread over all bins: a bet on a bin that stays empty would stake all it has
    return np.asarray((np.stack(warped) * counts + 1.0 / bins.n_bins) / (counts + 1.0))


def _spread_within_classes(holdout: Holdout, bins: ScoreBins) -> FloatArray:
    """Return how far the evidence for each class has to move to move a row by one standard deviation, (K,)."""
    points = np.empty_like(holdout.log_ratios)
    centre_rows(holdout.log_ratios, points)
    points = np.clip(points, bins.low, bins.high)
    variances = []
    for k in range(holdout.n_classes):
        own = holdout.labels == k
        weights = holdout.weights[own] / holdout.weights[own].sum()
        variances.append(weights @ (points[own] - weights @ points[own]) ** 2)
    # adding to one log ratio moves their mean as well
    return np.asarray(np.sqrt(np.mean(variances, axis=0)) / (1.0 - 1.0 / holdout.n_classes))


@compiled
def propose(
    fresh: FloatArray,
    counts: FloatArray,
    kept: FloatArray,
    warped: FloatArray,
    start_prior: FloatArray,
    priors: FloatArray,
    alternatives: FloatArray,
) -> None:
    """Take the fresh rows (B,) into the running counts (M, B), and write what may come next: (J + M, B).

    Each warp is mixed at the prior that fits the recent rows best under it, by a few steps of
    expectation-maximisation from where they stopped last: `priors` (1 + J, K). All of it is known before
    the rows that are bet on.
    """
    n_memories, n_bins = counts.shape
    n_warped, n_classes, _ = warped.shape
    for m in range(n_memories):
        for b in range(n_bins):
            counts[m, b] = kept[m] * counts[m, b] + fresh[b]
    fresh[:] = 0.0

    recent = counts[0]
    n_recent = recent.sum()
    claimed = np.empty(n_classes)
    mixture = np.empty(n_bins)
    for j in range(n_warped):
        for step in range(PRIOR_STEPS + 1):
            for b in range(n_bins):
                mixture[b] = 0.0
            for k in range(n_classes):
                for b in range(n_bins):
                    mixture[b] += priors[j, k] * warped[j, k, b]
            if step == PRIOR_STEPS:
                break
            for k in range(n_classes):
                claimed[k] = START_ROWS * start_prior[k]
                for b in range(n_bins):
                    claimed[k] += recent[b] * priors[j, k] * warped[j, k, b] / mixture[b]
            for k in range(n_classes):
                priors[j, k] = claimed[k] / (n_recent + START_ROWS)
        if j > 0:
            for b in range(n_bins):
                alternatives[j - 1, b] = mixture[b]
        else:
            for m in range(n_memories):
                n_rows = counts[m].sum()
                for b in range(n_bins):
                    running = counts[m, b] + UNMOVED_ROWS * mixture[b]
                    alternatives[n_warped - 1 + m, b] = running / (n_rows + UNMOVED_ROWS)
