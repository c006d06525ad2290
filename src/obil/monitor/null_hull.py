"""Hold every histogram that some prior explains, and bet against all of them at once."""

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from obil.arrays import FloatArray
from obil.compiled import compiled
from obil.monitor.multinomial_bound import divergence_bound
from obil.monitor.score_bins import ScoreBins, effective_counts
from obil.serving.holdout import Holdout

STEPS = 4  # of the projection in each call, from where the last one stopped
LEAST_MIXING = 1e-9  # a class that explains nothing now may explain something later
SETTLED = 60  # calls after which the projection no longer moves
ENOUGH_ROWS = 20  # of a class for each bin, from which on the chi-square law is good


@dataclass(frozen=True, slots=True, eq=False)
class NullHull:
    """All mixtures of histograms that the held-out rows leave possible, one set per class.

    The set of class k holds every f with n_k KL(f^_k || f) <= half a chi-square quantile of B - 1 degrees of
    freedom: all K of them hold the true histograms with probability 1 - delta. Under label shift, whatever
    the prior, a row's bin is then drawn from their hull. Weighted held-out rows count as n_k = (sum w)^2 /
    sum w^2 rows, which is right where the weights do not depend on the bin.

    The chi-square law is an approximation; Bartlett's factor in Williams' form,
    1 + sum(1 / count) / 6 (B - 1), is what it lacks where bins hold few rows. A class with fewer than 20 rows for each
    bin has a bound in its place that holds for any number of rows (`divergence_bound`).

    >>> rows = Holdout.of([[0.0, -1.0], [0.0, 1.0]] * 50, [0, 1] * 50)
    >>> hull = NullHull.of(rows, ScoreBins.of(rows), delta=0.005)
    >>> hull.histograms
    array([[1., 0.],
           [0., 1.]])
    >>> round(hull.largest_mean([1.0, 0.0]), 9)  # the prior may be all of class 0
    1.0
    """

    histograms: FloatArray  # (K, B)
    radii: FloatArray  # (K,) the largest KL(f^_k || f)
    counts: FloatArray  # (K,) n_k

    @classmethod
    def of(cls, holdout: Holdout, bins: ScoreBins, *, delta: float, tolerance: float = 0.0) -> "NullHull":
        """Draw the sets around the held-out histograms.

        `delta` is the chance that one of them misses the truth; `tolerance` widens all of them, in KL.
        """
        counts = effective_counts(holdout)
        histograms = bins.histograms(holdout.log_ratios, holdout)
        freedom = max(bins.n_bins - 1.0, 1.0)
        in_bins = np.maximum(histograms * counts[:, None], 1.0)
        factors = 1.0 + (1.0 / in_bins).sum(axis=1) / (6.0 * freedom)
        limits = factors * float(chdtri(freedom, delta / len(counts))) / 2.0
        few = counts < ENOUGH_ROWS * bins.n_bins
        if few.any():
            limits[few] = divergence_bound(bins.n_bins, delta / len(counts))
        return cls(histograms, limits / counts + tolerance, counts)

    def largest_mean(self, payoff: FloatArray | list[float]) -> float:
        """Return the largest mean that a non-negative payoff (B,) has over the hull."""
        return float(largest_mean(self.histograms, self.radii, np.asarray(payoff, dtype=np.float64)))

    def is_fair(self, pays: FloatArray) -> bool:
        """Return whether no bet, (M, B), pays below 0, or more than 1 on average under any prior."""
        return bool(_is_fair(self.histograms, self.radii, pays))

    def start(self, n_alternatives: int) -> tuple[FloatArray, FloatArray]:
        """Return where the projections of alternatives start: mixing (N, K), and the parts they mix (N, K, B)."""
        n_classes, n_bins = self.histograms.shape
        n_rows = self.counts[:, None]
        # no bin at 0: a part that starts there would stay there, while the sets leave room
        inside = (self.histograms * n_rows + 0.5) / (n_rows + 0.5 * n_bins)
        return np.full((n_alternatives, n_classes), 1.0 / n_classes), np.tile(inside, (n_alternatives, 1, 1))

    def closest(self, histogram: FloatArray) -> FloatArray:
        """Return the point of the hull, (B,), that explains a histogram (B,) best: the least KL(histogram || p)."""
        mixing, parts = self.start(1)
        smooth = (histogram + 1e-9) / (histogram + 1e-9).sum()
        bets = np.empty((1, histogram.size))
        for _ in range(SETTLED):
            bet_against(self.histograms, self.radii, smooth[None], mixing, parts, bets)
        return np.asarray(mixing[0] @ parts[0])


@compiled
def _is_fair(histograms: FloatArray, radii: FloatArray, pays: FloatArray) -> bool:
    """Return whether none of these bets (M, B) pays below 0, or more than 1 on average under any prior."""
    for j in range(pays.shape[0]):
        if not (pays[j] >= 0.0).all() or not largest_mean(histograms, radii, pays[j]) <= 1.0 + 1e-9:
            return False
    return True


@compiled
def bet_against(
    histograms: FloatArray,
    radii: FloatArray,
    alternatives: FloatArray,
    mixing: FloatArray,
    parts: FloatArray,
    bets: FloatArray,
) -> None:
    """Write into `bets` (N, B) what the best bet on each alternative (N, B) pays in each bin.

    The best bet on r is r / p*, with p* the point of the hull that is closest to r in KL(r || p). It is found
    by expectation-maximisation: each class claims its part of r, and moves to what it claimed as far as its set
    allows. The bet is divided by its exact largest mean over the hull, so that it is fair under
    every prior however close p* is; steps only make it pay more.
    """
    n_bets, n_bins = alternatives.shape
    n_classes = radii.size
    closest = np.empty(n_bins)
    claimed = np.empty(n_bins)
    for j in range(n_bets):
        for step in range(STEPS + 1):
            for b in range(n_bins):
                closest[b] = 0.0
            for k in range(n_classes):
                for b in range(n_bins):
                    closest[b] += mixing[j, k] * parts[j, k, b]
            if step == STEPS:
                break
            total = 0.0
            for k in range(n_classes):
                weight = 0.0
                for b in range(n_bins):
                    claimed[b] = alternatives[j, b] * mixing[j, k] * parts[j, k, b] / closest[b]
                    weight += claimed[b]
                for b in range(n_bins):
                    claimed[b] /= weight
                mixing[j, k] = max(weight, LEAST_MIXING)
                total += mixing[j, k]
                _pull_into_set(claimed, histograms[k], radii[k], parts[j, k])
            for k in range(n_classes):
                mixing[j, k] /= total
        for b in range(n_bins):
            bets[j, b] = alternatives[j, b] / closest[b]
        largest = largest_mean(histograms, radii, bets[j])
        for b in range(n_bins):
            bets[j, b] /= largest


@compiled
def _pull_into_set(wanted: FloatArray, centre: FloatArray, radius: float, pulled: FloatArray) -> None:
    """Write (1-t) wanted + t centre with the least t that lies in the set: the likeliest point of it.

    KL(centre || .) falls with t and is convex, so that Newton's steps arrive from wherever they start.
    """
    n_bins = centre.size
    t = 0.0
    for b in range(n_bins):
        if centre[b] > 0.0 and not wanted[b] > 1e-12 * centre[b]:
            t = 1e-3
    for _ in range(8):
        excess, slope = -radius, 0.0
        for b in range(n_bins):
            if centre[b] > 0.0:
                mixed = wanted[b] + t * (centre[b] - wanted[b])
                excess += centre[b] * np.log(centre[b] / mixed)
                slope -= centre[b] * (centre[b] - wanted[b]) / mixed
        if abs(excess) < 1e-3 * radius or (t == 0.0 and excess <= 0.0) or not slope < 0.0:
            break
        t = min(max(t - excess / slope, 0.0), 1.0 - 1e-9)
    for b in range(n_bins):
        pulled[b] = wanted[b] + t * (centre[b] - wanted[b])


@compiled
def largest_mean(histograms: FloatArray, radii: FloatArray, payoff: FloatArray) -> float:
    """Return the largest mean of a payoff (B,) over the hull: the largest over any class's set.

    Over one set it is min over v >= max(payoff) of v - exp(-radius) prod_b (v - payoff_b)^f^_b. *Every* such v bounds
    the mean from above, so that a bet is fair even where the search for the best v stops early. Proof: docs/theory.md,
    Proposition 6.
    """
    n_classes, n_bins = histograms.shape
    top, bottom = payoff[0], payoff[0]
    for b in range(1, n_bins):
        top = max(top, payoff[b])
        bottom = min(bottom, payoff[b])
    spread = top - bottom
    if not spread > 1e-12 * top:
        return float(top)
    largest = bottom
    for k in range(n_classes):
        mean, variance = 0.0, 0.0
        for b in range(n_bins):
            mean += histograms[k, b] * payoff[b]
        for b in range(n_bins):
            variance += histograms[k, b] * (payoff[b] - mean) ** 2
        # v - max(payoff), first where it is in a small set
        above = max(np.sqrt(variance / (2.0 * radii[k])) - (top - mean), 0.03 * spread)
        low, high = 0.0, np.inf
        bound = top
        for _ in range(12):
            logs, inverse, squares = 0.0, 0.0, 0.0
            for b in range(n_bins):
                if histograms[k, b] > 0.0:
                    gap = above + (top - payoff[b])
                    ratio = histograms[k, b] / gap
                    logs += histograms[k, b] * np.log(gap)
                    inverse += ratio
                    squares += ratio / gap
            bound = min(bound, top + above - np.exp(logs - radii[k]))
            excess = logs + np.log(inverse) - radii[k]  # 0 at the best v, and falls with it
            if abs(excess) < 1e-4 * radii[k] or above < 1e-9 * spread:
                break
            if excess > 0.0:
                low = above
            else:
                high = above
            stride = excess / (above * (squares / inverse - inverse))  # Newton's, in the logarithm
            above *= np.exp(min(max(stride, -3.0), 3.0))
            if not low < above < high:
                above = 0.5 * (low + high)
        largest = max(largest, bound)
    return float(largest * (1.0 + 1e-13 * n_bins))  # whatever rounding took from the bound
