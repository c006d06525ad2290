"""Estimate the prevalence of many segments together, so that those with few rows learn from the others."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from scipy.special import betaln, chdtrc, chdtri, expit, log_expit, logit

from obil.arrays import FloatArray, require_in
from obil.errors import InvalidInputError
from obil.readable import Table, as_html, as_text
from obil.trackers.evidence import LARGEST_LOGIT, BinaryEvidence, PriorEstimate

GRID = np.linspace(-LARGEST_LOGIT, LARGEST_LOGIT, 1_121)  # logits of a segment's prior
STEPS = 13  # of the common mean, and of how many rows it counts for
ROUNDS = 3  # of a grid over both, each around what is left of the one before
LARGEST_SIZE = 1e6  # rows that the common mean counts for: then all segments have the same prior
LEAST_WEIGHT = 1e-5  # of a point of the grid, relative to the best
FEWEST_POINTS = 8  # of the grid, on which a log-likelihood is within 2 of its largest
MOST_SEGMENTS = 5_000  # at a time
FALSE_DISCOVERIES = 0.1


class CommonLevel(NamedTuple):
    """Where the priors of segments lie: Beta distributions, and how probable each is."""

    densities: FloatArray  # (C, G) of the logit, each sums to 1
    weights: FloatArray  # (C,) for estimates
    cautious_weights: FloatArray  # (C,) for intervals: they allow for segments that differ more
    mean: float
    size: float  # rows that the mean counts for, as a geometric mean over the weights


@dataclass(frozen=True, slots=True, eq=False)
class SegmentEstimates(Mapping[Hashable, PriorEstimate]):
    """The prevalence of each segment by its name, given what all segments show.

    The interval of a segment is a credible interval. `alone` holds what each segment's own rows say, with confidence
    intervals.

    >>> rows = {"north": [[0.0, 9.0]] * 2 + [[0.0, -9.0]] * 18, "south": [[0.0, 9.0]] * 12 + [[0.0, -9.0]] * 8}
    >>> found = estimate_segments({name: BinaryEvidence.of(own) for name, own in rows.items()})
    >>> found["north"].prior[1] > found.alone["north"].prior[1]  # drawn towards the others
    np.True_
    """

    estimates: Mapping[Hashable, PriorEstimate]
    alone: Mapping[Hashable, PriorEstimate]
    common: PriorEstimate  # of all rows together
    mean: float  # of the segments' priors
    size: float  # how many rows of its own a segment needs to count as much as the others
    q_values: Mapping[Hashable, float]  # of the segments whose prior differs from that of all rows

    def __getitem__(self, name: Hashable) -> PriorEstimate:
        return self.estimates[name]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def deviating(self, rate: float = FALSE_DISCOVERIES) -> tuple[Hashable, ...]:
        """Return the segments whose prior is not that of all rows, the clearest first.

        At most the fraction `rate` of them is expected to be there by chance (Benjamini and Hochberg).
        """
        require_in("rate", rate, 1e-6, 1.0 - 1e-6)
        ranked = sorted(self.q_values, key=self.q_values.__getitem__)
        return tuple(name for name in ranked if self.q_values[name] <= rate)

    def __str__(self) -> str:
        return as_text(self._table())

    def _repr_html_(self) -> str:
        return as_html(self._table())

    def _table(self) -> Table:
        deviating = set(self.deviating())
        rows = []
        for name, found in self.estimates.items():
            low, high = found.interval[1].tolist()
            own = f"{self.alone[name].prior[1]:.4g}" if found.n_rows else ""
            mark = "differs" if name in deviating else ""
            rows.append(
                (f"{name!s:.60}", f"{found.n_rows:,}", f"{found.prior[1]:.4g}", f"{low:.4g} to {high:.4g}", own, mark)
            )
        header = ("segment", "rows", "prevalence", f"{100 * self.common.level:.3g} % interval", "alone", "")
        notes = [
            f"All rows: {self.common.prior[1]:.4g}. Mean of the segments: {self.mean:.4g}, which counts for "
            f"{self.size:,.0f} rows in each.",
            f"{len(deviating):,} of {len(self):,} segments differ from all rows "
            f"(false discoveries at most {FALSE_DISCOVERIES:.0%}).",
        ]
        return Table(f"Prevalence of {len(self):,} segments", header, rows, notes)


def estimate_segments(evidence: Mapping[Hashable, BinaryEvidence], *, level: float = 0.9) -> SegmentEstimates:
    """Return the prevalence of segments with two classes, by empirical Bayes.

    The segments' priors are taken for draws of one Beta distribution. How its mean and its spread are distributed,
    given all segments, is found on a grid; each segment's prior follows from its own rows and from that.
    """
    require_in("level", level, 1e-6, 1.0 - 1e-6)
    names, parts = list(evidence), list(evidence.values())
    if not any(part.n_rows for part in parts):
        raise InvalidInputError("no segment has a row, so there is no evidence to estimate a prior from")
    tail = (1.0 - level) / 2.0
    total = sum(parts[1:], parts[0])
    pooled = total.estimate(level=level)
    chunks = [slice(first, first + MOST_SEGMENTS) for first in range(0, len(parts), MOST_SEGMENTS)]
    logs = np.concatenate([_log_likelihoods(parts[chunk]) for chunk in chunks])  # (S, G), the largest of each is 0
    common = common_level(logs, total)
    alone = {name: _alone(part, own, level) for name, part, own in zip(names, parts, logs, strict=True) if part.n_rows}
    estimates: dict[Hashable, PriorEstimate] = {}
    for chunk in chunks:
        likelihoods = np.exp(logs[chunk])
        means = _posteriors(likelihoods, common.densities, common.weights) @ expit(GRID)
        cautious = _posteriors(likelihoods, common.densities, common.cautious_weights).cumsum(axis=1)
        for i, name in enumerate(names[chunk], start=chunk.start):
            if name in alone and _is_sure(logs[i]):  # of so many rows, that others add nothing
                estimates[name] = alone[name]
                continue
            mean, below = float(means[i - chunk.start]), cautious[i - chunk.start]
            low, high = expit(np.interp([tail, 1.0 - tail], below, GRID)).tolist()
            estimates[name] = _binary_estimate(mean, min(low, mean), max(high, mean), level, parts[i].n_rows)
    q_values = _q_values(_p_values(parts, [alone.get(name) for name in names]))
    return SegmentEstimates(
        estimates, alone, pooled, common.mean, common.size, dict(zip(names, q_values.tolist(), strict=True))
    )


def common_level(logs: FloatArray, total: BinaryEvidence) -> CommonLevel:
    """Return how the priors of segments with these log-likelihoods, (S, G), and their sum are distributed."""
    log_likelihood = total.log_likelihood()
    centre = float(GRID[np.argmax(log_likelihood(GRID))])
    at = float(expit(centre))
    # what the rows of a segment tell of its prior, as a number of labelled rows
    typical = max(-float(log_likelihood.deriv(2)(centre)) / (at * (1.0 - at)) / len(logs), 1.0)
    means = np.linspace(centre - 2.5, centre + 2.5, STEPS)
    sizes = np.linspace(0.0, np.log(LARGEST_SIZE), STEPS)
    for left in reversed(range(ROUNDS)):
        mean, size = (axis.ravel() for axis in np.meshgrid(means, np.exp(sizes), indexing="ij"))
        densities = _beta_densities(expit(mean), size)
        evidence = np.zeros(len(densities))
        for first in range(0, len(logs), MOST_SEGMENTS):
            evidence += np.log(np.exp(logs[first : first + MOST_SEGMENTS]) @ densities.T + 1e-300).sum(axis=0)
        evidence += log_expit(mean) + log_expit(-mean)  # flat in the mean
        weights = [_normalised(evidence + prior) for prior in _size_priors(size, typical)]
        if left:
            both = np.maximum(*weights).reshape(STEPS, STEPS)
            means, sizes = _around(means, both.max(axis=1)), _around(sizes, both.max(axis=0))
            sizes = np.linspace(max(sizes[0], 0.0), min(sizes[-1], np.log(LARGEST_SIZE)), STEPS)
    used = np.maximum(*weights) > LEAST_WEIGHT * np.maximum(*weights).max()
    plain, cautious = (own[used] / own[used].sum() for own in weights)
    return CommonLevel(
        densities[used], plain, cautious, float(plain @ expit(mean[used])), float(np.exp(plain @ np.log(size[used])))
    )


def _size_priors(size: FloatArray, typical: float) -> tuple[FloatArray, FloatArray]:
    """Return the logs of two densities of log size: half-Cauchy for the spread, and uniform for the shrinkage.

    With few rows in each segment the likelihood can hardly tell a small spread from none. The first follows it to
    none; intervals by it would then be too narrow, and those by the second are not.
    """
    log_size, log_sum = np.log(size), np.log(size + typical)
    return log_size / 2.0 - log_sum, log_size - 2.0 * log_sum


def _log_likelihoods(parts: Sequence[BinaryEvidence]) -> FloatArray:
    """Return the log-likelihood of each segment on the grid, (S, G), the largest of each 0."""
    coefficients = BinaryEvidence.coefficients()
    to_grid = coefficients.T @ chebvander(GRID / LARGEST_LOGIT, len(coefficients) - 1).T  # (nodes, G)
    logs: FloatArray = np.stack([part.log_likelihoods for part in parts]) @ to_grid
    logs -= logs.max(axis=1, keepdims=True)
    return logs


def _is_sure(logs: FloatArray) -> bool:
    """Return whether a log-likelihood is too narrow for the grid."""
    return int((logs > -2.0).sum()) < FEWEST_POINTS


def _alone(part: BinaryEvidence, logs: FloatArray, level: float) -> PriorEstimate:
    """Return what a segment's own rows say."""
    if _is_sure(logs) or np.ptp(logs) < 1e-9:
        return part.estimate(level=level)
    peak = int(np.argmax(logs))
    least = -float(chdtri(1.0, 1.0 - level)) / 2.0  # half the chi-square quantile, from its upper tail
    low = np.interp(least, logs[: peak + 1], GRID[: peak + 1])
    high = np.interp(-least, -logs[peak:], GRID[peak:])
    best, lower, upper = expit(np.array([_peak(logs, peak), low, high])).tolist()
    return _binary_estimate(best, lower, upper, level, part.n_rows)


def _p_values(parts: Sequence[BinaryEvidence], alone: Sequence[PriorEstimate | None]) -> FloatArray:
    """Return how probable rows like a segment's own are if its prior is the common one, (S,); 1 without rows.

    The common prior is that of all rows, and then that of the rows of segments that do not differ from it: segments
    that moved have moved the first.
    """
    functions = [part.log_likelihood() for part in parts]
    tops = [0.0 if own is None else float(f(_logit(own))) for f, own in zip(functions, alone, strict=True)]
    p_values = np.ones(len(parts))
    for _ in range(2):
        same = _q_values(p_values) > FALSE_DISCOVERIES
        kept = [part for part, stays in zip(parts, same.tolist(), strict=True) if stays and part.n_rows]
        if not kept:
            break
        at = _logit(sum(kept[1:], kept[0]).estimate())
        drops = [0.0 if own is None else top - float(f(at)) for f, top, own in zip(functions, tops, alone, strict=True)]
        p_values = np.asarray(chdtrc(1.0, 2.0 * np.maximum(drops, 0.0)))
    return p_values


def _logit(estimate: PriorEstimate) -> float:
    return float(np.clip(logit(estimate.prior[1]), -LARGEST_LOGIT, LARGEST_LOGIT))


def _peak(logs: FloatArray, place: int) -> float:
    """Return where the parabola through the largest point and its neighbours is largest."""
    if not 0 < place < len(logs) - 1:
        return float(GRID[place])
    before, at, after = logs[place - 1 : place + 2].tolist()
    return float(GRID[place] + (GRID[1] - GRID[0]) * (before - after) / (2.0 * (before - 2.0 * at + after)))


def _binary_estimate(mean: float, low: float, high: float, level: float, n_rows: int) -> PriorEstimate:
    interval = np.array([[1.0 - high, 1.0 - low], [low, high]])
    return PriorEstimate(np.array([1.0 - mean, mean]), interval, level, n_rows)


def _beta_densities(mean: FloatArray, size: FloatArray) -> FloatArray:
    """Return Beta densities of the logit on the grid, (C, G), each summing to 1."""
    a, b = mean * size, (1.0 - mean) * size
    logs = a[:, None] * log_expit(GRID) + b[:, None] * log_expit(-GRID) - betaln(a, b)[:, None]
    densities: FloatArray = np.exp(logs - logs.max(axis=1, keepdims=True))
    densities /= densities.sum(axis=1, keepdims=True)
    return densities


def _posteriors(likelihoods: FloatArray, densities: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the posterior of each segment on the grid, (S, G), mixed over where the priors may lie."""
    evidence = likelihoods @ densities.T  # (S, C)
    posteriors = ((weights / np.maximum(evidence, 1e-300)) @ densities) * likelihoods
    posteriors /= posteriors.sum(axis=1, keepdims=True)
    return posteriors


def _around(axis: FloatArray, weights: FloatArray) -> FloatArray:
    """Return a finer axis around the points that have weight."""
    kept, step = axis[weights > LEAST_WEIGHT * weights.max()], axis[1] - axis[0]
    return np.linspace(kept[0] - step, kept[-1] + step, STEPS)


def _normalised(logs: FloatArray) -> FloatArray:
    weights = np.exp(logs - logs.max())
    normalised: FloatArray = weights / weights.sum()
    return normalised


def _q_values(p_values: FloatArray) -> FloatArray:
    """Return the false discovery rate at which each hypothesis would be rejected, (S,): Benjamini and Hochberg."""
    order = np.argsort(p_values, kind="stable")
    stepped: FloatArray = p_values[order] * len(order) / np.arange(1, len(order) + 1)
    q_values = np.empty(len(order))
    q_values[order] = np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1.0)
    return q_values
