"""Hold the memories of a safe tracker's parts, and find what no stream could have left in restored ones."""

from typing import NamedTuple

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.bayes.posterior import sums_to_one
from obil.compiled import compiled, inlined
from obil.trackers.bank_kernel import LARGEST_TOTAL, BankConstants, BankMemory
from obil.trackers.input_expert import LARGEST_COEFFICIENT, LARGEST_LOG_RATIO
from obil.trackers.label_experts import LabelMemory
from obil.trackers.label_learning import LARGEST_OFFSET, LARGEST_SLOPE, SMALLEST_SLOPE
from obil.trackers.view_guard import BLOCK_ROWS, LARGEST_SHIFT, GuardMemory

FAULTS_OF_LABELS = (
    "",
    "the weights of the experts of a safe tracker must be non-negative and sum to 1",
    "the labels of a safe tracker cannot have been counted so",
    "the past of a safe tracker cannot lie in its future",
    "the experts of a safe tracker cannot have advised this",
    "the recalibrations of a safe tracker must have a positive precision",
)


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


@compiled
def guard_is_possible(
    shifts: FloatArray,
    information: FloatArray,
    squares: FloatArray,
    products: FloatArray,  # noqa: ARG001  # any that are finite
    block: FloatArray,
    reference: FloatArray,
    bounds: FloatArray,
    disagreement: FloatArray,
    seen: IntArray,
) -> bool:
    """Return whether the guard's kernel, which does not check its indices, could have written this memory."""
    return not (
        not 0 <= seen[0] < BLOCK_ROWS
        or seen[1] < 0
        or (information < 0.0).any()
        or (information > LARGEST_TOTAL).any()
        or (squares < 0.0).any()
        or (block[1] < 0.0).any()
        or (bounds[:, 0] > 0.0).any()
        or (bounds[:, 1] < 0.0).any()
        or (disagreement < 0.0).any()
        or (reference < 0.0).any()
        or (np.abs(shifts) > LARGEST_SHIFT).any()
    )


@compiled
def fault_of_labels(  # noqa: PLR0911  # one for each rule
    weights: FloatArray,
    prevalence_weights: FloatArray,
    counts: FloatArray,
    maps: FloatArray,
    precisions: FloatArray,
    input_map: FloatArray,
    input_precision: FloatArray,
    past: FloatArray,
    past_rows: IntArray,
    past_labels: IntArray,
    latest: FloatArray,
    arrivals: IntArray,
    least_propensity: FloatArray,
    seen: IntArray,
) -> int:
    """Return which of FAULTS_OF_LABELS a restored memory has: the kernels do not check their indices."""
    if not (sums_to_one(weights) and sums_to_one(prevalence_weights)):
        return 1
    if (counts < 0.0).any() or (counts > LARGEST_TOTAL).any() or (seen < 0).any() or (seen > LARGEST_TOTAL).any():
        return 2
    if not 0.0 < least_propensity[0] <= 1.0:
        return 2
    if (past_rows > seen[0]).any() or (past_labels > seen[1]).any() or (arrivals > seen[0]).any():
        return 3
    if (past_rows < -1).any() or (past_labels < 0).any() or (arrivals < 0).any():
        return 3
    if not (is_map(maps[:, :1], maps[:, 1:]) and is_map(latest[:, :1], latest[:, :0])):
        return 4
    if not is_map(input_map[None, :1], input_map[None, 1:]):
        return 4
    if (np.abs(past) > LARGEST_LOG_RATIO).any() or (np.abs(latest) > LARGEST_LOG_RATIO).any():
        return 4
    for m in range(precisions.shape[0]):
        if not is_precision(precisions[m].copy()):
            return 5
    n, place = input_map.size, 0
    matrix = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            matrix[i, j] = matrix[j, i] = input_precision[place]
            place += 1
    return 0 if is_precision(matrix) else 5


@inlined
def is_map(slopes: FloatArray, offsets: FloatArray) -> bool:
    """Return whether recalibrations may have these slopes, and these offsets and coefficients."""
    inside = not ((slopes < SMALLEST_SLOPE).any() or (slopes > LARGEST_SLOPE).any())
    return inside and not (np.abs(offsets) > max(LARGEST_OFFSET, LARGEST_COEFFICIENT)).any()


@compiled
def is_precision(matrix: FloatArray) -> bool:
    """Return whether a matrix is the precision of a recalibration: positive definite; Cholesky's factor replaces it."""
    for i in range(matrix.shape[0]):
        for j in range(i + 1):
            value, mirrored = matrix[i, j], matrix[j, i]
            if abs(value) > LARGEST_TOTAL or abs(value - mirrored) > 1e-8 + 1e-5 * abs(mirrored):  # beyond rounding
                return False
    for i in range(matrix.shape[0]):
        for j in range(i + 1):
            rest = matrix[i, j]
            for k in range(j):
                rest -= matrix[i, k] * matrix[j, k]
            if i == j:
                if not rest > 0.0:
                    return False
                matrix[i, i] = np.sqrt(rest)
            else:
                matrix[i, j] = rest / matrix[j, j]
    return True
