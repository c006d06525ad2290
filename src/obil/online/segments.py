"""Estimate the prevalence of many segments together, so that those with few rows learn from the others."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from scipy.special import chdtrc, chdtri, expit, logit, ndtri

from obil.arrays import FloatArray, require_in
from obil.errors import InvalidInputError
from obil.online.common_level import GRID, MOST_SEGMENTS, CommonLevel, common_level
from obil.readable import Table, as_html, as_text
from obil.trackers.evidence import LARGEST_LOGIT, BinaryEvidence, PriorEstimate

FEWEST_POINTS = 8  # of the grid, on which a log-likelihood is within 2 of its largest
LEAST_WIDTH = 0.02  # of a segment's logit, as far as the common level is concerned: the grid shows no less
LARGEST_CENTRE = 7.0  # of a logit at which a curvature is more than rounding
LOCAL_GRID = np.linspace(-8.0, 8.0, 321)  # in standard errors, for segments of many rows
FALSE_DISCOVERIES = 0.1


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
    size: float  # how many labelled rows of its own a segment needs to count as much as the others
    q_values: Mapping[Hashable, float]  # false discovery rate at which each segment is said to differ from the others

    def __getitem__(self, name: Hashable) -> PriorEstimate:
        return self.estimates[name]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def deviating(self, rate: float = FALSE_DISCOVERIES) -> tuple[Hashable, ...]:
        """Return the segments whose prior is not that of the others, the clearest first.

        About the fraction `rate` of them, at most, is there by chance (Benjamini and Hochberg on chi-square p values).
        "The others" have one prior: that of all rows of segments that do not deviate.
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
            mark = "yes" if name in deviating else ""
            rows.append(
                (f"{name!s:.60}", f"{found.n_rows:,}", f"{found.prior[1]:.4g}", f"{low:.4g} to {high:.4g}", own, mark)
            )
        level = f"{100 * self.common.level:.3g} % interval"
        header = ("segment", "rows", "prevalence", level, "by its own rows", "deviates")
        notes = [
            f"All rows: {self.common.prior[1]:.4g}. The mean of the segments, {self.mean:.4g}, counts as much as "
            f"{self.size:,.0f} labelled rows of a segment's own.",
            f"{len(deviating):,} of {len(self):,} segments deviate from the others, "
            f"about {FALSE_DISCOVERIES:.0%} of them by chance at most.",
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
    total = sum(parts[1:], parts[0])
    chunks = [slice(first, first + MOST_SEGMENTS) for first in range(0, len(parts), MOST_SEGMENTS)]
    logs = np.concatenate([_log_likelihoods(parts[chunk]) for chunk in chunks])  # (S, G), the largest of each is 0
    own = [_own(part, row, level) if part.n_rows else None for part, row in zip(parts, logs, strict=True)]
    narrow = {i: found for i, found in enumerate(own) if found is not None and _is_narrow(logs[i])}
    for i, found in narrow.items():
        logs[i] = -0.5 * ((GRID - _logit(found)) / max(_width(found), LEAST_WIDTH)) ** 2
    common = common_level(logs, _typical_rows(total, [part.n_rows for part in parts]))
    ends = [(1.0 - level) / 2.0, (1.0 + level) / 2.0]
    found_by_chunk = [_on_grid(logs[chunk], common, ends) for chunk in chunks]
    means = np.concatenate([found[0] for found in found_by_chunk])
    intervals = np.concatenate([found[1] for found in found_by_chunk])
    estimates: dict[Hashable, PriorEstimate] = {}
    for i, (name, part) in enumerate(zip(names, parts, strict=True)):
        mean, interval = float(means[i]), intervals[i]
        if i in narrow:
            mean, interval = _on_local_grid(part, narrow[i], common, ends)
        low, high = min(float(interval[0]), mean), max(float(interval[1]), mean)
        estimates[name] = _binary_estimate(mean, low, high, level, part.n_rows)
    alone = {name: found for name, found in zip(names, own, strict=True) if found is not None}
    q_values = _q_values(_p_values(parts, own, common.mean)).tolist()
    pooled = total.estimate(level=level)
    return SegmentEstimates(estimates, alone, pooled, common.mean, common.size, dict(zip(names, q_values, strict=True)))


def _typical_rows(total: BinaryEvidence, n_rows: Sequence[int]) -> float:
    """Return what the rows of a segment of median size tell of its prior, as a number of labelled rows."""
    log_likelihood = total.log_likelihood()
    centre = float(np.clip(GRID[np.argmax(log_likelihood(GRID))], -LARGEST_CENTRE, LARGEST_CENTRE))
    spread = float(expit(centre) * expit(-centre))
    per_row = -float(log_likelihood.deriv(2)(centre)) / spread / total.n_rows
    return float(np.clip(per_row, 0.0, 1.0) * np.median(n_rows) + 1.0)


def _log_likelihoods(parts: Sequence[BinaryEvidence]) -> FloatArray:
    """Return the log-likelihood of each segment on the grid, (S, G), the largest of each 0."""
    coefficients = BinaryEvidence.coefficients()
    to_grid = coefficients.T @ chebvander(GRID / LARGEST_LOGIT, len(coefficients) - 1).T  # (nodes, G)
    logs: FloatArray = np.stack([part.log_likelihoods for part in parts]) @ to_grid
    logs -= logs.max(axis=1, keepdims=True)
    return logs


def _on_grid(logs: FloatArray, common: CommonLevel, ends: list[float]) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean of each segment, (S,), and the ends of its interval, (S, 2)."""
    masses, likelihoods = common.masses(), np.exp(logs)
    inverse = 1.0 / np.maximum(likelihoods @ masses.T, 1e-300)  # (S, C)
    means = _normalised((common.weights * inverse) @ masses * likelihoods) @ expit(GRID)
    cautious = _normalised((common.cautious_weights * inverse) @ masses * likelihoods)
    return means, np.array([_quantiles(mass, GRID, ends) for mass in cautious])


def _on_local_grid(
    part: BinaryEvidence, own: PriorEstimate, common: CommonLevel, ends: list[float]
) -> tuple[float, FloatArray]:
    """Return what `_on_grid` does for one segment whose likelihood is too narrow for the grid."""
    points = np.clip(_logit(own) + LOCAL_GRID * _width(own), -LARGEST_LOGIT, LARGEST_LOGIT)
    logs = part.log_likelihood()(points)
    joint = common.log_densities(points) + (logs - logs.max())  # (C, L)
    joint -= joint.max()
    likely = np.exp(joint)
    masses = likely / np.maximum(likely.sum(axis=1, keepdims=True), 1e-300)
    mean = float(_normalised((common.weights @ masses)[None])[0] @ expit(points))
    return mean, _quantiles(_normalised((common.cautious_weights @ masses)[None])[0], points, ends)


def _quantiles(mass: FloatArray, points: FloatArray, ends: list[float]) -> FloatArray:
    """Return the priors below which these parts of a mass on points lie; half of a point's mass is below it."""
    return np.asarray(expit(np.interp(ends, mass.cumsum() - mass / 2.0, points)))


def _normalised(masses: FloatArray) -> FloatArray:
    normalised: FloatArray = masses / masses.sum(axis=1, keepdims=True)
    return normalised


def _is_narrow(logs: FloatArray) -> bool:
    """Return whether a log-likelihood is too narrow for the grid."""
    return int((logs > -2.0).sum()) < FEWEST_POINTS


def _own(part: BinaryEvidence, logs: FloatArray, level: float) -> PriorEstimate:
    """Return what a segment's own rows say: what `BinaryEvidence.estimate` does, from the grid where that is exact."""
    if _is_narrow(logs) or np.ptp(logs) < 1e-9:
        return part.estimate(level=level)
    peak = int(np.argmax(logs))
    least = -float(chdtri(1.0, 1.0 - level)) / 2.0  # half the chi-square quantile, from its upper tail
    low = np.interp(least, logs[: peak + 1], GRID[: peak + 1])
    high = np.interp(-least, -logs[peak:], GRID[peak:])
    best, lower, upper = expit(np.array([_peak(logs, peak), low, high])).tolist()
    return _binary_estimate(best, lower, upper, level, part.n_rows)


def _p_values(parts: Sequence[BinaryEvidence], own: Sequence[PriorEstimate | None], mean: float) -> FloatArray:
    """Return how probable rows like a segment's own are if its prior is that of the others, (S,); 1 without rows.

    The others' prior is first the mean of the segments' priors, and then that of the rows of those that do not deviate
    from it: a segment that has moved has moved the first.
    """
    functions = [part.log_likelihood() for part in parts]
    tops = [0.0 if found is None else float(f(_logit(found))) for f, found in zip(functions, own, strict=True)]
    at, p_values = float(np.clip(logit(mean), -LARGEST_LOGIT, LARGEST_LOGIT)), np.ones(len(parts))
    for _ in range(2):
        drops = [
            0.0 if found is None else top - float(f(at)) for f, top, found in zip(functions, tops, own, strict=True)
        ]
        p_values = np.asarray(chdtrc(1.0, 2.0 * np.maximum(drops, 0.0)))
        same = _q_values(p_values) > FALSE_DISCOVERIES
        kept = [part for part, stays in zip(parts, same.tolist(), strict=True) if stays and part.n_rows]
        if not kept:
            break
        at = _logit(sum(kept[1:], kept[0]).estimate())
    return p_values


def _logit(estimate: PriorEstimate) -> float:
    return float(np.clip(logit(estimate.prior[1]), -LARGEST_LOGIT, LARGEST_LOGIT))


def _width(estimate: PriorEstimate) -> float:
    """Return the standard error of the logit that an interval shows."""
    low, high = logit(np.clip(estimate.interval[1], 1e-9, 1.0 - 1e-9)).tolist()
    return float((high - low) / (2.0 * ndtri((1.0 + estimate.level) / 2.0)))


def _peak(logs: FloatArray, place: int) -> float:
    """Return where the parabola through the largest point and its neighbours is largest."""
    if not 0 < place < len(logs) - 1:
        return float(GRID[place])
    before, at, after = logs[place - 1 : place + 2].tolist()
    return float(GRID[place] + (GRID[1] - GRID[0]) * (before - after) / (2.0 * (before - 2.0 * at + after)))


def _binary_estimate(mean: float, low: float, high: float, level: float, n_rows: int) -> PriorEstimate:
    interval = np.array([[1.0 - high, 1.0 - low], [low, high]])
    return PriorEstimate(np.array([1.0 - mean, mean]), interval, level, n_rows)


def _q_values(p_values: FloatArray) -> FloatArray:
    """Return the false discovery rate at which each hypothesis would be rejected, (S,): Benjamini and Hochberg."""
    order = np.argsort(p_values, kind="stable")
    stepped: FloatArray = p_values[order] * len(order) / np.arange(1, len(order) + 1)
    q_values = np.empty(len(order))
    q_values[order] = np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1.0)
    return q_values
