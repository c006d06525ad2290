"""Say whether one method beats another: over splits of the same rows, or over data sets."""

from typing import Literal

import numpy as np
from scipy.stats import chi2, rankdata, studentized_range, wilcoxon
from scipy.stats import t as student

from obil.arrays import FloatArray


def corrected_p_value(differences: FloatArray, *, test_size: float) -> float:
    """Return the one-sided p value that the mean difference is below 0, for splits that overlap (Nadeau, Bengio 2003).

    >>> round(corrected_p_value(np.array([-1.0, -1.2, -0.8]), test_size=0.3), 3)
    0.015
    """
    n = len(differences)
    variance = float(differences.var(ddof=1))
    if n < 2 or variance == 0.0:
        return float(differences.mean() >= 0.0)
    statistic = differences.mean() / np.sqrt(variance * (1.0 / n + test_size / (1.0 - test_size)))
    return float(student.cdf(statistic, n - 1))


def corrected_two_sided(differences: FloatArray, *, test_size: float) -> float:
    """Return the two-sided p value of the same test; 1 where nothing differs.

    >>> corrected_two_sided(np.zeros(10), test_size=0.3)
    1.0
    """
    if not differences.any():
        return 1.0
    below = corrected_p_value(differences, test_size=test_size)
    return min(2.0 * min(below, 1.0 - below), 1.0)


def signed_rank_p_value(
    differences: FloatArray, *, alternative: Literal["two-sided", "greater"] = "two-sided"
) -> float:
    """Return the p value of Wilcoxon's signed-rank test; 1 where nothing differs.

    >>> signed_rank_p_value(np.zeros(5)), signed_rank_p_value(np.arange(1.0, 7.0), alternative="greater")
    (1.0, 0.015625)
    """
    if not differences.any():
        return 1.0
    return float(wilcoxon(differences, alternative=alternative).pvalue)


def holm(p_values: FloatArray) -> FloatArray:
    """Return p values corrected for how many there are (Holm 1979).

    >>> holm(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.06, 0.06])
    """
    order = np.argsort(p_values, kind="stable")
    n_left = len(p_values) - np.arange(len(p_values))
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(np.maximum.accumulate(p_values[order] * n_left), 1.0)
    return corrected


def sign_flip_p_value(differences: FloatArray, *, n_draws: int, seed: int) -> float:
    """Return the two-sided p value that the mean of independent, symmetric differences is 0, by flipping signs.

    The draws include the differences as they are, so that the p value is valid at any number of draws.

    >>> sign_flip_p_value(np.zeros(5), n_draws=100, seed=0)
    1.0
    >>> round(sign_flip_p_value(np.arange(1.0, 9.0), n_draws=100_000, seed=0), 4)  # 2 of 256
    0.0079
    """
    rng = np.random.default_rng(seed)
    least = abs(float(differences.mean())) - 1e-12  # sums in another order may differ in the last bits
    beyond = 0
    for first in range(0, n_draws, 10_000):
        signs = rng.choice([-1.0, 1.0], size=(min(10_000, n_draws - first), len(differences)))
        beyond += int((np.abs(signs @ differences) / len(differences) >= least).sum())
    return (1.0 + beyond) / (1.0 + n_draws)


def bootstrap_interval(values: FloatArray, *, level: float, n_draws: int, seed: int) -> tuple[float, float]:
    """Return a percentile interval of the mean of independent values, such as the means of families of sets.

    >>> bootstrap_interval(np.ones(4), level=0.95, n_draws=100, seed=0)
    (1.0, 1.0)
    """
    rng = np.random.default_rng(seed)
    means = values[rng.integers(len(values), size=(n_draws, len(values)))].mean(axis=1)
    low, high = np.quantile(means, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)


def mean_ranks(losses: FloatArray) -> FloatArray:
    """Return the mean rank of each method over data sets, (sets, methods) -> (methods,); the least loss ranks 1.

    >>> mean_ranks(np.array([[0.1, 0.2, 0.3], [0.1, 0.2, 0.2]]))
    array([1.  , 2.25, 2.75])
    """
    ranks: FloatArray = rankdata(losses, axis=1).mean(axis=0)
    return ranks


def friedman_p_value(losses: FloatArray) -> float:
    """Return the p value of Friedman's test that all methods rank alike, corrected for ties; 1 where all tie.

    >>> friedman_p_value(np.ones((4, 3)))
    1.0
    """
    n_sets, n_methods = losses.shape
    ranks = rankdata(losses, axis=1)
    spread = float(((ranks - (n_methods + 1.0) / 2.0) ** 2).sum())
    if spread == 0.0:
        return 1.0
    between = float(((ranks.mean(axis=0) - (n_methods + 1.0) / 2.0) ** 2).sum())
    return float(chi2.sf((n_methods - 1.0) * n_sets**2 * between / spread, n_methods - 1.0))


def critical_difference(n_methods: int, n_sets: int, *, level: float = 0.05) -> float:
    """Return by how much mean ranks must differ to be significant (Nemenyi; Demsar 2006).

    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    quantile = float(studentized_range.ppf(1.0 - level, n_methods, np.inf)) / np.sqrt(2.0)
    return float(quantile * np.sqrt(n_methods * (n_methods + 1.0) / (6.0 * n_sets)))
