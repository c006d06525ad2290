"""Integrate a judge's error rates out of the likelihood of a prevalence, exactly."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import lgamma

import numpy as np
from scipy.special import betainc, betaln, expit, gammaln, logit, ndtri

from obil.arrays import FloatArray, IntArray
from obil.compiled import compiled

NEGLIGIBLE = -45.0  # in the log, beside the largest term of a sum
FARTHEST = 60.0  # from 0, that a quantile is searched for in the logit
TOLERANCE = 1e-9  # in the logit
MOST_STEPS = 100  # as many as bisection alone could need, and more


@dataclass(frozen=True, slots=True, eq=False)
class JudgedPrevalence:
    """The posterior of a prevalence: a mixture over how many of the judged items may be positive.

    An item of class y gets verdict v with probability f_y[v], and f_y is Dirichlet. Given that j of the n judged items
    are positive, the f_y integrate out in closed form, and the prevalence is Beta(j + successes, n - j + failures).

    >>> sure = JudgedPrevalence.from_verdicts(np.array([[1000, 0], [0, 1000]]), np.array([15, 5]))
    >>> sure.quantiles([0.5]).round(2)  # a judge that made no error in 2,000: 5 of 20
    array([0.25])
    """

    weights: FloatArray  # (n + 1,) of j positive items among the judged
    successes: float
    failures: float
    _constants: FloatArray = field(init=False, repr=False)  # (n + 1,)
    _tails: FloatArray = field(init=False, repr=False)  # (n + 1,) the weight beyond each j

    def __post_init__(self) -> None:
        counts = np.arange(len(self.weights)) + self.successes
        total = self._total
        object.__setattr__(self, "_constants", gammaln(total) - gammaln(counts + 1.0) - gammaln(total - counts))
        object.__setattr__(self, "_tails", self.weights[::-1].cumsum()[::-1] - self.weights)

    @classmethod
    def from_verdicts(cls, labelled: IntArray, judged: IntArray, *, random_sample: bool = False) -> "JudgedPrevalence":
        """Return the posterior from verdicts of labelled items by class, (2, V), and of judged items, (V,).

        Each f_y has the prior Dirichlet(1 / V, ..., 1 / V): Jeffreys' for two verdicts, and one pseudo-item for any
        number. The prevalence has Jeffreys' prior Beta(1/2, 1/2). Where the labelled items are a random sample, truth
        and verdict are one multinomial with a symmetric prior: the prevalence is uniform, and the labels count for it.
        """
        successes, failures = (labelled.sum(axis=1)[::-1] + 1.0).tolist() if random_sample else (0.5, 0.5)
        positive = np.arange(int(judged.sum()) + 1)
        log_weights = integrated_log_likelihoods(labelled + 1.0 / labelled.shape[1], judged)
        log_weights += betaln(positive + successes, positive[::-1] + failures)
        weights = np.exp(log_weights - log_weights.max())
        return cls(weights / weights.sum(), successes, failures)

    @property
    def _total(self) -> float:
        return len(self.weights) - 1 + self.successes + self.failures

    def quantiles(self, probabilities: Sequence[float]) -> FloatArray:
        """Return quantiles of the prevalence, one for each probability.

        Newton's method in the logit of both sides; it is bisected where a step leaves the bracket.
        """
        counts = np.arange(len(self.weights)) + self.successes
        mean = float(self.weights @ counts) / self._total
        variance = float(self.weights @ (counts / self._total - mean) ** 2) + mean * (1.0 - mean) / (self._total + 1.0)
        width = np.sqrt(variance) / (mean * (1.0 - mean))
        found = np.empty(len(probabilities))
        for place, wanted in enumerate(probabilities):
            low, high = -FARTHEST, FARTHEST
            at = float(np.clip(logit(mean) + ndtri(wanted) * width, low, high))
            for _ in range(MOST_STEPS):
                below, density = self._distribution(at)
                low, high = (at, high) if below < wanted else (low, at)
                step = np.inf
                if density > 0.0 and 0.0 < below < 1.0:
                    step = float(logit(wanted) - logit(below)) * below * (1.0 - below) / density
                if abs(step) < TOLERANCE or high - low < TOLERANCE:
                    break
                at = at + step if low < at + step < high else (low + high) / 2.0
            found[place] = expit(at)
        return found

    def _distribution(self, at: float) -> tuple[float, float]:
        """Return the distribution function and the density, both in the logit of the prevalence."""
        # I_x(a + 1, b - 1) = I_x(a, b) - x^a (1 - x)^(b - 1) G(a + b) / (G(a + 1) G(b)): one call serves all j
        x = float(expit(at))
        first = float(betainc(self.successes, self._total - self.successes, x))
        return _sums(at, first, self.weights, self._tails, self._constants, self.successes, self.failures)


@compiled
def _sums(
    at: float,
    first: float,
    weights: FloatArray,
    tails: FloatArray,
    constants: FloatArray,
    successes: float,
    failures: float,
) -> tuple[float, float]:
    """Return the distribution function and density of the mixture, from the distribution function of its first part."""
    n_items = weights.size - 1
    log_x, log_rest = -np.log1p(np.exp(-at)), -np.log1p(np.exp(at))
    below, density = first, 0.0
    for j in range(n_items + 1):
        exponent = constants[j] + (j + successes) * log_x + (n_items - j + failures - 1.0) * log_rest
        if exponent > NEGLIGIBLE:
            term = np.exp(exponent)
            below -= tails[j] * term
            density += weights[j] * (j + successes) * term
    return below, density * np.exp(log_rest)


@compiled
def integrated_log_likelihoods(pseudo: FloatArray, judged: IntArray) -> FloatArray:
    """Return the log-likelihood of j of the n judged items being positive, (n + 1,), over all choices of the j items.

    `pseudo` (2, V) are the Dirichlet parameters of each class's verdicts. Verdicts multiply, so that their counts of
    positive items add: a convolution over verdicts.
    """
    sums = np.zeros(1)
    totals = pseudo.sum(axis=1)
    for v in range(judged.size):
        count = judged[v]
        own = np.empty(count + 1)
        for j in range(count + 1):
            rest = count - j
            own[j] = (
                lgamma(count + 1.0) - lgamma(j + 1.0) - lgamma(rest + 1.0)
                + lgamma(pseudo[1, v] + j) - lgamma(pseudo[1, v])
                + lgamma(pseudo[0, v] + rest) - lgamma(pseudo[0, v])
            )  # fmt: skip
        longer = np.empty(sums.size + count)
        for j in range(longer.size):
            first, last = max(0, j - count), min(j, sums.size - 1)
            largest = -np.inf
            for i in range(first, last + 1):
                largest = max(largest, sums[i] + own[j - i])
            total = 0.0
            for i in range(first, last + 1):
                term = sums[i] + own[j - i] - largest
                if term > NEGLIGIBLE:
                    total += np.exp(term)
            longer[j] = largest + np.log(total)
        sums = longer
    n_items = sums.size - 1
    for j in range(n_items + 1):
        sums[j] -= lgamma(totals[1] + j) + lgamma(totals[0] + n_items - j)
    return sums
