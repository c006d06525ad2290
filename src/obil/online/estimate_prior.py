"""Estimate the prevalence of a batch, or of each of its segments, with everything that makes it uncertain."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.online.row_counts import RowCounts
from obil.online.segments import SegmentEstimates, SegmentEvidence, estimate_segments
from obil.serving.ratio_model import RatioModel, as_ratio_model
from obil.trackers.calibration_spread import evidence_variance, widen
from obil.trackers.evidence import BinaryEvidence, PriorEstimate
from obil.trackers.pass_search import estimate_from_rows


@overload
def estimate_prior(model: Any, X: Any, *, by: None = None, level: float = 0.9) -> PriorEstimate: ...
@overload
def estimate_prior(model: Any, X: Any, *, by: Iterable[Any], level: float = 0.9) -> SegmentEstimates: ...
def estimate_prior(
    model: Any, X: Any, *, by: Iterable[Any] | None = None, level: float = 0.9
) -> PriorEstimate | SegmentEstimates:
    """Return the most likely class prior of a batch of unlabelled rows, with a confidence interval for each class.

    The interval carries what the rows leave open and what the calibrator does not know about itself.

    With `by`, the name of each row's segment, (n,), the prevalence of every segment is estimated, and segments with few
    rows learn from the others (empirical Bayes). Their intervals are credible intervals.

    >>> from obil import RatioClassifier
    >>> model = RatioClassifier.from_scores([-2.0, -1.0, 1.0, -1.0, 1.0, 2.0] * 10, [0, 0, 0, 1, 1, 1] * 10)
    >>> found = estimate_prior(model, [[-1.0]] * 50 + [[1.0]] * 50)
    >>> found.prior.round(2)  # half the rows look like either class
    array([0.5, 0.5])
    >>> bool(found.interval[1, 0] < 0.5 < found.interval[1, 1])
    True
    >>> found = estimate_prior(model, [[-2.0]] * 50 + [[2.0]] * 50, by=["north"] * 50 + ["south"] * 50)
    >>> bool(found["north"].prior[1] < found["south"].prior[1])
    True
    """
    fitted = as_ratio_model(model)
    rows = fitted.evidence_rows(X)
    if by is None:
        return with_calibration(fitted, estimate_from_rows(rows, level=level))
    segments = _segments(by, len(rows))
    evidence = evidence_by_segment({name: rows[own] for name, own in segments.items()})
    return estimate_by_segment(fitted, evidence, level=level)


def evidence_by_segment(rows: Mapping[Any, FloatArray]) -> SegmentEvidence:
    """Return the evidence of each segment's rows of log ratios, (n, F, K)."""
    if all(own.shape[-1] == 2 for own in rows.values()):
        return {name: BinaryEvidence.of(own) for name, own in rows.items()}
    return {name: RowCounts.of(own).weighted() for name, own in rows.items()}


def estimate_by_segment(model: RatioModel, evidence: SegmentEvidence, *, level: float) -> SegmentEstimates:
    """Return what segments tell of their priors together, with the calibrator's own uncertainty in every interval."""
    found = estimate_segments(evidence, level=level)
    return replace(
        found,
        estimates={name: with_calibration(model, own) for name, own in found.estimates.items()},
        alone={name: with_calibration(model, own) for name, own in found.alone.items()},
        common=with_calibration(model, found.common),
    )


def with_calibration(model: RatioModel, found: PriorEstimate) -> PriorEstimate:
    """Return an estimate whose interval carries the calibrator's own uncertainty."""
    variance = evidence_variance(model, found.prior)
    interval = widen(found.prior, found.interval, variance, level=found.level)
    return replace(found, interval=interval, classes=tuple(model.classes_.tolist()))


def _segments(by: Any, n_rows: int) -> dict[Any, npt.NDArray[np.intp]]:
    """Return the rows of each segment, by its name."""
    if isinstance(by, str):
        raise InvalidInputError(
            f"by must name the segment of each row, got {by!r:.40}: pass the column, by=table[{by!r}]"
        )
    names = by.tolist() if hasattr(by, "tolist") else list(by)
    if len(names) != n_rows:
        raise InvalidInputError(f"by must name the segment of each of the {n_rows:,} rows, got {len(names):,} names")
    rows: dict[Any, list[int]] = {}
    for row, name in enumerate(names):
        if name is None or name != name:  # noqa: PLR0124  # NaN and NaT are not equal to themselves
            raise InvalidInputError(
                f"by must name a segment for each row, row {row} has none: give those a name of their own"
            )
        rows.setdefault(name, []).append(row)
    try:
        ordered = sorted(rows)
    except TypeError:  # names of several kinds stay in the order in which they come
        ordered = list(rows)
    return {name: np.array(rows[name], dtype=np.intp) for name in ordered}
