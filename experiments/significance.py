"""Say whether one method beats another over splits of the same rows."""

from typing import Literal

import numpy as np
from scipy.stats import t as student
from scipy.stats import wilcoxon

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
