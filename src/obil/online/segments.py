"""Estimate the prevalence of many segments together, so that those with few rows learn from the others."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, TypeAlias

import numpy as np

from obil.arrays import FloatArray, require_in
from obil.errors import InvalidInputError
from obil.online.deviations import FALSE_DISCOVERIES, LogLikelihood, deviation_q_values
from obil.online.one_class import OneClass, binary_estimate, learn_one_class, logit_of
from obil.online.weighted_rows import WeightedRows
from obil.readable import Table, as_html, as_text
from obil.trackers.evidence import BinaryEvidence, PriorEstimate

FIRST_SIZE = 10.0  # labelled rows that the common level counts for, before it is found
LEAST_PSEUDO_COUNT = 0.02  # of a class that hardly comes
ROUNDS = 3  # with three or more classes: the composition of the others comes from the rounds before

Evidence: TypeAlias = BinaryEvidence | WeightedRows  # the first of two classes
SegmentEvidence: TypeAlias = Mapping[Any, BinaryEvidence] | Mapping[Any, WeightedRows]


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
    mean: FloatArray  # (K,) of the segments' priors
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
        deviating, level = set(self.deviating()), f"{100 * self.common.level:.3g} % interval"
        shown = [1] if len(self.mean) == 2 else list(range(len(self.mean)))
        classes = self.common.classes or range(len(self.mean))
        header = ["segment", "rows"]
        for k in shown:
            header += ["prevalence" if len(shown) == 1 else f"{classes[k]!s:.60}", level, "by its own rows"]
        rows = []
        for name, found in self.estimates.items():
            row = [f"{name!s:.60}", f"{found.n_rows:,}"]
            for k in shown:
                low, high = found.interval[k].tolist()
                own = f"{self.alone[name].prior[k]:.4g}" if found.n_rows else ""
                row += [f"{found.prior[k]:.4g}", f"{low:.4g} to {high:.4g}", own]
            rows.append((*row, "yes" if name in deviating else ""))
        whole, mean = (", ".join(f"{prior[k]:.4g}" for k in shown) for prior in (self.common.prior, self.mean))
        notes = [
            f"All rows: {whole}. The mean of the segments, {mean}, counts as much as "
            f"{self.size:,.0f} labelled rows of a segment's own.",
            f"{len(deviating):,} of {len(self):,} segments deviate from the others, "
            f"about {FALSE_DISCOVERIES:.0%} of them by chance at most.",
        ]
        return Table(f"Prevalence of {len(self):,} segments", (*header, "deviates"), rows, notes)


def estimate_segments(evidence: SegmentEvidence, *, level: float = 0.9) -> SegmentEstimates:
    """Return the prevalence of segments by empirical Bayes, as `learn_one_class` does for each class against the rest.

    With two classes one of them says everything. With more, the segments' priors are taken for draws of a Dirichlet
    distribution, so that the composition of the rest is independent of the prior of the one class.
    """
    require_in("level", level, 1e-6, 1.0 - 1e-6)
    names, parts = list(evidence), [_evidence(part) for part in evidence.values()]
    if not any(part.n_rows for part in parts):
        raise InvalidInputError("no segment has a row, so there is no evidence to estimate a prior from")
    pooled = _sum(parts).estimate(level=level)
    if pooled.prior.size == 2:
        classes = [learn_one_class([part for part in parts if isinstance(part, BinaryEvidence)], level=level)]
        own = classes[0].alone
    else:
        rows = [part for part in parts if isinstance(part, WeightedRows)]
        classes = _learn_classes(rows, pooled.prior, level=level)
        own = [part.estimate(level=level) if part.n_rows else None for part in rows]
    mean = _mean(classes)
    q_values = deviation_q_values(
        [_log_likelihood(part) for part in parts],
        [None if found is None else found.prior for found in own],
        mean,
        lambda kept: _sum([parts[i] for i in kept]).estimate().prior,
    )
    estimates = {name: _estimate(classes, i, level, parts[i].n_rows) for i, name in enumerate(names)}
    alone = {name: found for name, found in zip(names, own, strict=True) if found is not None}
    return SegmentEstimates(
        estimates, alone, pooled, mean, _size(classes), dict(zip(names, q_values.tolist(), strict=True))
    )


def _learn_classes(parts: Sequence[WeightedRows], pooled: FloatArray, *, level: float) -> list[OneClass]:
    """Return the prior of each of three or more classes in each segment."""
    mean, size = pooled, FIRST_SIZE
    for _ in range(ROUNDS):
        pseudo_counts = np.maximum(size * mean, LEAST_PSEUDO_COUNT)
        classes = [
            learn_one_class([part.against_rest(k, pseudo_counts) for part in parts], level=level)
            for k in range(pooled.size)
        ]
        # where classes overlap, too much of one is too little of another: full steps go to and fro
        mean, size = (mean + _mean(classes)) / 2.0, _size(classes)
    return classes


def _mean(classes: Sequence[OneClass]) -> FloatArray:
    """Return the mean of the segments' priors, (K,)."""
    if len(classes) == 1:
        return np.array([1.0 - classes[0].mean, classes[0].mean])
    means = np.array([one.mean for one in classes])
    return np.asarray(means / means.sum())


def _size(classes: Sequence[OneClass]) -> float:
    """Return how many labelled rows of its own a segment needs to count as much as the others."""
    return float(np.exp(np.mean([np.log(one.size) for one in classes])))


def _estimate(classes: Sequence[OneClass], segment: int, level: float, n_rows: int) -> PriorEstimate:
    means = np.array([one.means[segment] for one in classes])
    interval = np.array([one.intervals[segment] for one in classes])
    if len(classes) == 1:
        return binary_estimate(float(means[0]), float(interval[0, 0]), float(interval[0, 1]), level, n_rows)
    prior = means / means.sum()
    interval = np.stack([np.minimum(interval[:, 0], prior), np.maximum(interval[:, 1], prior)], axis=1)
    return PriorEstimate(prior, interval, level, n_rows)


def _evidence(part: Evidence) -> Evidence:
    """Return evidence in the form that is used for its number of classes."""
    return part.binary() if isinstance(part, WeightedRows) and part.n_classes == 2 else part


def _sum(parts: Sequence[Evidence]) -> Evidence:
    return reduce(add, parts)


def _log_likelihood(part: Evidence) -> LogLikelihood:
    """Return the log-likelihood of a segment's rows as a function of the prior, (K,)."""
    if isinstance(part, WeightedRows):
        return part.log_likelihood
    binary = part.log_likelihood()
    return lambda prior: float(binary(logit_of(prior)))
