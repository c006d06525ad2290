"""Intervals for a prevalence from the verdicts of a judge and a few labels: the methods to compare with.

Every function takes `Counts` of many samples at once and returns the lower and upper ends, (R,) each. Methods that put
a normal approximation around an estimate do so as it is or, as Chen et al. (2026, arXiv:2601.05420) do, in its logit.
Where a method has no estimate its interval is 0 to 1.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit
from scipy.stats import beta, chi2, norm

from obil.arrays import FloatArray, IntArray
from obil.bayes.judged_prevalence import JudgedPrevalence
from obil.compiled import compiled

Interval = tuple[FloatArray, FloatArray]
NEVER_EXACT = 1e-6  # how near an estimate comes to 0 or 1 before its logit
LEAST_YOUDEN = 1e-4  # sensitivity + specificity - 1
PSEUDO = 1e-4  # of each labelled count in a maximum, so that it is not on the edge
COARSE, FINE = 40, 12  # points of a first search for an end, and bisections after it
NEWTON_STEPS = 60


class Counts(NamedTuple):
    """What R samples hold: labelled items by truth and verdict, and judged items by verdict, (R,) each."""

    true_positive: IntArray
    false_negative: IntArray
    false_positive: IntArray
    true_negative: IntArray
    judged_positive: IntArray
    judged_negative: IntArray

    @property
    def positive(self) -> IntArray:
        """Labelled items of the positive class."""
        return self.true_positive + self.false_negative

    @property
    def negative(self) -> IntArray:
        """Labelled items of the negative class."""
        return self.false_positive + self.true_negative

    @property
    def judged(self) -> IntArray:
        """Judged items without a label."""
        return self.judged_positive + self.judged_negative


def integrated(counts: Counts, *, level: float, random_sample: bool) -> Interval:
    """Return credible intervals of the integrated likelihood: ours."""
    tails = (1.0 - level) / 2.0
    table = np.stack([counts.false_positive, counts.true_negative, counts.true_positive, counts.false_negative], axis=1)
    judged = np.stack([counts.judged_positive, counts.judged_negative], axis=1)
    ends = np.empty((len(table), 2))
    for row in range(len(table)):
        found = JudgedPrevalence.from_verdicts(table[row].reshape(2, 2), judged[row], random_sample=random_sample)
        ends[row] = found.quantiles([tails, 1.0 - tails])
    return ends[:, 0], ends[:, 1]


def rogan_gladen(counts: Counts, *, level: float, in_logit: bool = False) -> Interval:
    """Return Rogan-Gladen intervals by the delta method, with pseudo-counts (Lee et al. 2025, arXiv:2511.21140)."""
    z = norm.ppf((1.0 + level) / 2.0)
    n_judged, n_positive, n_negative = counts.judged + z**2, counts.positive + 2.0, counts.negative + 2.0
    rate = (counts.judged_positive + z**2 / 2.0) / n_judged
    sensitivity = (counts.true_positive + 1.0) / n_positive
    specificity = (counts.true_negative + 1.0) / n_negative
    youden = sensitivity + specificity - 1.0
    with np.errstate(all="ignore"):
        found = np.clip((rate + specificity - 1.0) / youden, 0.0, 1.0)
        variance = (
            rate * (1.0 - rate) / n_judged
            + found**2 * sensitivity * (1.0 - sensitivity) / n_positive
            + (1.0 - found) ** 2 * specificity * (1.0 - specificity) / n_negative
        ) / youden**2
        low, high = _around(found, variance, level, in_logit)
    unknown = youden < LEAST_YOUDEN
    return np.where(unknown, 0.0, low), np.where(unknown, 1.0, high)


def rogan_gladen_exact(counts: Counts, *, level: float) -> Interval:
    """Return the prevalences that three Clopper-Pearson intervals leave possible, of 1 - (1 - level) / 3 each."""
    each = 1.0 - (1.0 - level) / 3.0
    least_rate, most_rate = _clopper_pearson(counts.judged_positive, counts.judged, each)
    corners = []
    for sensitivity in _clopper_pearson(counts.true_positive, counts.positive, each):
        for specificity in _clopper_pearson(counts.true_negative, counts.negative, each):
            youden = sensitivity + specificity - 1.0
            with np.errstate(all="ignore"):
                ends = [(rate + specificity - 1.0) / youden for rate in (least_rate, most_rate)]
            corners += [np.where(youden > 0.0, end, np.nan) for end in ends]
    every = np.array(corners)
    unknown = np.isnan(every).any(axis=0)  # a judge no better than chance is possible
    low, high = np.clip(every.min(axis=0), 0.0, 1.0), np.clip(every.max(axis=0), 0.0, 1.0)
    return np.where(unknown, 0.0, low), np.where(unknown, 1.0, high)


def ppi(counts: Counts, *, level: float, in_logit: bool = False) -> Interval:
    """Return prediction-powered intervals (Angelopoulos et al. 2023)."""
    return _prediction_powered(counts, np.ones(len(counts.judged)), level, in_logit)


def ppi_plus_plus(counts: Counts, *, level: float, in_logit: bool = False) -> Interval:
    """Return prediction-powered intervals with the weight of the verdicts tuned (Angelopoulos et al. 2023)."""
    n_labelled = counts.positive + counts.negative
    verdicts = counts.true_positive + counts.false_positive
    covariance = (counts.true_positive - counts.positive * verdicts / n_labelled) / (n_labelled - 1.0)
    variances = [
        _variance(verdicts, n_labelled),
        n_labelled / counts.judged * _variance(counts.judged_positive, counts.judged),
    ]
    total = sum(variances)
    weight = np.where(total > 0.0, covariance / np.where(total > 0.0, total, 1.0), 1.0)
    return _prediction_powered(counts, weight, level, in_logit)


def maximum_likelihood(counts: Counts, *, level: float, in_logit: bool = False) -> Interval:
    """Return intervals around the maximum-likelihood estimate of a random sample, by its Fisher information."""
    n_labelled, said_yes = counts.positive + counts.negative, counts.true_positive + counts.false_positive
    with np.errstate(all="ignore"):
        rate = (said_yes + counts.judged_positive) / (n_labelled + counts.judged)
        if_yes = counts.true_positive / said_yes
        if_no = counts.false_negative / (n_labelled - said_yes)
        found = rate * if_yes + (1.0 - rate) * if_no
        variance = (
            (if_yes - if_no) ** 2 * rate * (1.0 - rate) / (n_labelled + counts.judged)
            + rate**2 * if_yes * (1.0 - if_yes) / said_yes
            + (1.0 - rate) ** 2 * if_no * (1.0 - if_no) / (n_labelled - said_yes)
        )
    low, high = _around(found, variance, level, in_logit)
    return np.where(np.isnan(found), 0.0, low), np.where(np.isnan(found), 1.0, high)


def profile_likelihood(counts: Counts, *, level: float, random_sample: bool) -> Interval:
    """Return the prevalences whose profile likelihood is within half a chi-square quantile of the largest."""
    drop = float(chi2.ppf(level, 1)) / 2.0
    ends = np.empty((len(counts.judged), 2))
    _profile_ends(np.array(counts, dtype=np.float64), drop, random_sample, ends)
    return ends[:, 0], ends[:, 1]


def _prediction_powered(counts: Counts, weight: FloatArray, level: float, in_logit: bool) -> Interval:
    """Return intervals around mean(truth) + weight (mean(verdict of judged) - mean(verdict of labelled))."""
    n_labelled = counts.positive + counts.negative
    verdicts = counts.true_positive + counts.false_positive
    found = counts.positive / n_labelled + weight * (counts.judged_positive / counts.judged - verdicts / n_labelled)
    mean = (counts.positive - weight * verdicts) / n_labelled  # of truth - weight * verdict
    squares = (
        counts.true_positive * (1.0 - weight) ** 2 + counts.false_negative + counts.false_positive * weight**2
    ) / n_labelled
    residual = (squares - mean**2) * n_labelled / (n_labelled - 1.0)
    variance = residual / n_labelled + weight**2 * _variance(counts.judged_positive, counts.judged) / counts.judged
    return _around(found, variance, level, in_logit)


def _variance(successes: IntArray, trials: IntArray) -> FloatArray:
    rate = successes / trials
    return np.asarray(rate * (1.0 - rate) * trials / (trials - 1.0))


def _around(found: FloatArray, variance: FloatArray, level: float, in_logit: bool) -> Interval:
    """Return a normal interval around an estimate, between 0 and 1."""
    half = norm.ppf((1.0 + level) / 2.0) * np.sqrt(np.maximum(variance, 0.0))
    if not in_logit:
        return np.clip(found - half, 0.0, 1.0), np.clip(found + half, 0.0, 1.0)
    centre = np.clip(found, NEVER_EXACT, 1.0 - NEVER_EXACT)
    half = half / (centre * (1.0 - centre))
    return expit(logit(centre) - half), expit(logit(centre) + half)


def _clopper_pearson(successes: IntArray, trials: IntArray, level: float) -> Interval:
    tail = (1.0 - level) / 2.0
    low = np.where(successes > 0, beta.ppf(tail, np.maximum(successes, 1), trials - successes + 1), 0.0)
    high = np.where(successes < trials, beta.ppf(1.0 - tail, successes + 1, np.maximum(trials - successes, 1)), 1.0)
    return low, high


@compiled
def _profile_ends(counts: FloatArray, drop: float, random_sample: bool, ends: FloatArray) -> None:
    """Write the outermost prevalences within `drop` of the largest profile log-likelihood: a grid, then bisection."""
    values = np.empty(COARSE + 1)
    for row in range(counts.shape[1]):
        own = counts[:, row]
        for point in range(COARSE + 1):
            values[point] = _profile(own, point / COARSE, random_sample)
        best = int(values.argmax())
        low, high = max(best - 1, 0) / COARSE, min(best + 1, COARSE) / COARSE
        for _ in range(2 * FINE):  # the maximum, by thirds
            first, second = low + (high - low) / 3.0, high - (high - low) / 3.0
            if _profile(own, first, random_sample) < _profile(own, second, random_sample):
                low = first
            else:
                high = second
        peak = (low + high) / 2.0
        least = max(_profile(own, peak, random_sample), values[best]) - drop
        first_inside, last_inside = peak, peak  # the peak may be the only point above
        for point in range(COARSE + 1):
            if values[point] >= least:
                first_inside, last_inside = min(first_inside, point / COARSE), max(last_inside, point / COARSE)
        for side in range(2):
            within = first_inside if side == 0 else last_inside
            step = -1.0 / COARSE if side == 0 else 1.0 / COARSE
            beyond = min(max(within + step, 0.0), 1.0)
            if _profile(own, beyond, random_sample) >= least:
                within = beyond
            for _ in range(FINE):
                middle = (within + beyond) / 2.0
                if _profile(own, middle, random_sample) >= least:
                    within = middle
                else:
                    beyond = middle
            ends[row, side] = within


@compiled
def _profile(counts: FloatArray, prevalence: float, random_sample: bool) -> float:
    """Return the log-likelihood of a prevalence at the sensitivity and false positive rate that make it largest.

    It is concave in both, as logarithms of linear functions are: damped Newton.
    """
    hit, miss, alarm, quiet = counts[0] + PSEUDO, counts[1] + PSEUDO, counts[2] + PSEUDO, counts[3] + PSEUDO
    yes, no = counts[4], counts[5]
    sensitivity, alarm_rate = (hit + 0.5) / (hit + miss + 1.0), (alarm + 0.5) / (alarm + quiet + 1.0)
    value = -np.inf
    for _ in range(NEWTON_STEPS):
        rate = prevalence * sensitivity + (1.0 - prevalence) * alarm_rate
        value = (
            hit * np.log(sensitivity) + miss * np.log(1.0 - sensitivity)
            + alarm * np.log(alarm_rate) + quiet * np.log(1.0 - alarm_rate)
            + yes * np.log(rate) + no * np.log(1.0 - rate)
        )  # fmt: skip
        slope = yes / rate - no / (1.0 - rate)
        bend = yes / rate**2 + no / (1.0 - rate) ** 2
        g0 = hit / sensitivity - miss / (1.0 - sensitivity) + prevalence * slope
        g1 = alarm / alarm_rate - quiet / (1.0 - alarm_rate) + (1.0 - prevalence) * slope
        h00 = hit / sensitivity**2 + miss / (1.0 - sensitivity) ** 2 + prevalence**2 * bend
        h11 = alarm / alarm_rate**2 + quiet / (1.0 - alarm_rate) ** 2 + (1.0 - prevalence) ** 2 * bend
        h01 = prevalence * (1.0 - prevalence) * bend
        determinant = h00 * h11 - h01 * h01
        d0, d1 = (h11 * g0 - h01 * g1) / determinant, (h00 * g1 - h01 * g0) / determinant
        decrement = g0 * d0 + g1 * d1
        if decrement < 1e-8:
            break
        scale = 1.0
        for _ in range(40):
            a, b = sensitivity + scale * d0, alarm_rate + scale * d1
            if 0.0 < a < 1.0 and 0.0 < b < 1.0:
                at = prevalence * a + (1.0 - prevalence) * b
                moved = (
                    hit * np.log(a) + miss * np.log(1.0 - a) + alarm * np.log(b) + quiet * np.log(1.0 - b)
                    + yes * np.log(at) + no * np.log(1.0 - at)
                )  # fmt: skip
                if moved >= value + 1e-4 * scale * decrement:
                    break
            scale *= 0.5
        sensitivity, alarm_rate = sensitivity + scale * d0, alarm_rate + scale * d1
    if random_sample:
        positive, negative = counts[0] + counts[1], counts[2] + counts[3]
        value += positive * np.log(max(prevalence, 1e-300)) + negative * np.log(max(1.0 - prevalence, 1e-300))
    return value
