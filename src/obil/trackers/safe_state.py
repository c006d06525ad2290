"""Hold the memories of a safe tracker's parts, and refuse restored ones that no stream could have left behind."""

from typing import NamedTuple

import numpy as np

from obil.arrays import FloatArray, require_distributions
from obil.errors import InvalidStateError
from obil.trackers.bank_kernel import LARGEST_TOTAL, BankConstants, BankMemory
from obil.trackers.input_expert import LARGEST_COEFFICIENT, unpacked
from obil.trackers.label_experts import LabelMemory
from obil.trackers.label_learning import LARGEST_OFFSET, LARGEST_SLOPE, SMALLEST_SLOPE
from obil.trackers.view_guard import BLOCK_ROWS, LARGEST_SHIFT, GuardMemory


class GuardConstants(NamedTuple):
    """What the guard's kernel takes beside its memory."""

    kept: FloatArray
    grid: FloatArray
    expected: FloatArray
    shrinkage: FloatArray
    noise: FloatArray
    least_information: FloatArray
    may_admit: bool


class SafeConstants(NamedTuple):
    """What the kernels of a safe tracker take beside its memory."""

    start: FloatArray  # (K,)
    slow: BankConstants
    fast: BankConstants
    guard: GuardConstants
    n_views: int
    lead: int


class SafeMemory(NamedTuple):
    """The memories of the parts."""

    prior: FloatArray  # (K,)
    slow: BankMemory
    fast: BankMemory
    guard: GuardMemory
    labels: LabelMemory


def require_possible_guard(guard: GuardMemory) -> None:
    """Refuse a memory that the guard's kernel, which does not check its indices, could not have written."""
    rows, blocks = guard.seen.tolist()
    positive = (
        guard.information, LARGEST_TOTAL - guard.information, guard.squares, guard.block[1],
        -guard.bounds[:, 0], guard.bounds[:, 1], guard.disagreement, guard.reference,
        LARGEST_SHIFT - np.abs(guard.shifts),
    )  # fmt: skip
    if not 0 <= rows < BLOCK_ROWS or blocks < 0 or any((values < 0.0).any() for values in positive):
        raise InvalidStateError("the guard of a safe tracker cannot have seen this")


def require_possible_labels(labels: LabelMemory) -> None:
    """Refuse a memory that the kernels of labels could not have written."""
    require_distributions("the weights of the experts", labels.weights)
    require_distributions("the weights in the prevalence", labels.prevalence_weights)
    counts = (labels.counts < 0.0).any() or (labels.counts > LARGEST_TOTAL).any() or (labels.seen < 0).any()
    if counts or (labels.seen > LARGEST_TOTAL).any() or not 0.0 < labels.least_propensity[0] <= 1.0:
        raise InvalidStateError("the labels of a safe tracker cannot have been counted so")
    late = (labels.past_rows > labels.seen[0]).any() or (labels.past_labels > labels.seen[1]).any()
    early = (labels.past_rows < -1).any() or (labels.past_labels < 0).any() or (labels.arrivals < 0).any()
    if late or early or (labels.arrivals > labels.seen[0]).any():
        raise InvalidStateError("the past of a safe tracker cannot lie in its future")
    slopes = np.concatenate([labels.maps[:, 0], labels.latest[:, 0], labels.input_map[:1]])
    advice = np.concatenate([labels.past.ravel(), labels.latest.ravel()])
    outside = (slopes < SMALLEST_SLOPE).any() or (slopes > LARGEST_SLOPE).any() or (np.abs(advice) > 1e6).any()
    offsets = np.concatenate([labels.maps[:, 1:].ravel(), labels.input_map[1:]])  # and coefficients
    if outside or (np.abs(offsets) > max(LARGEST_OFFSET, LARGEST_COEFFICIENT)).any():
        raise InvalidStateError("the experts of a safe tracker cannot have advised this")
    require_positive_definite(unpacked(labels.input_precision, labels.input_map.size))
    precisions, turned = labels.precisions, labels.precisions.transpose(0, 2, 1)
    skewed = np.abs(precisions - turned) > 1e-8 + 1e-5 * np.abs(turned)  # by more than rounding
    if skewed.any():
        raise InvalidStateError("the recalibrations of a safe tracker must have a positive precision")
    require_positive_definite(*precisions)


def require_positive_definite(*precisions: FloatArray) -> None:
    """Refuse precisions of recalibrations that no label could have left."""
    for precision in precisions:
        if (np.abs(precision) > LARGEST_TOTAL).any() or np.linalg.eigvalsh(precision).min(initial=1.0) <= 0.0:
            raise InvalidStateError("the recalibrations of a safe tracker must have a positive precision")
