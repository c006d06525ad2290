"""Recalibrate by labels with inputs of the row: how far its views differ, a few of its features, its season.

The expert's logits of a row are slope * guarded posterior + offset + coefficients . inputs. A coefficient belongs to an
input and is shared by all classes. Inputs are rounded to single precision, as a row keeps them until its label comes.
"""

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.compiled import compiled, inlined

INPUT_WEIGHT = 0.05  # start weight; the experts without inputs share the rest in their proportions
INPUT_MEMORY = 1_000.0  # labels
INPUT_SD = 0.3  # how far a coefficient is expected to go
FARTHEST_INPUT = 3.0
LARGEST_COEFFICIENT = 10.0
LARGEST_LOG_RATIO = 1e6


def packed_size(n: int) -> int:
    """Return the length of the lower triangle of a matrix (n, n), row by row."""
    return n * (n + 1) // 2


def unpacked(packed: FloatArray, n: int) -> FloatArray:
    """Return the symmetric matrix (n, n) of a packed lower triangle.

    >>> unpacked(np.array([1.0, 2.0, 3.0]), 2)
    array([[1., 2.],
           [2., 3.]])
    """
    matrix = np.zeros((n, n))
    matrix[np.tril_indices(n)] = packed
    return matrix + np.tril(matrix, -1).T


def packed(matrix: FloatArray) -> FloatArray:
    """Return the lower triangle of a symmetric matrix, row by row."""
    triangle: FloatArray = matrix[np.tril_indices(len(matrix))]
    return triangle


@compiled
def read_inputs(evidence: FloatArray, n_views: int, inputs: npt.NDArray[np.float32]) -> None:
    """Write the inputs of rows, (n, J, K-1) in single precision, from their evidence, (n, S, K)."""
    for t in range(evidence.shape[0]):
        for j in range(inputs.shape[1]):
            for k in range(1, evidence.shape[2]):
                inputs[t, j, k - 1] = input_of(evidence[t], n_views, j, k)


@inlined
def input_of(evidence: FloatArray, n_views: int, j: int, k: int) -> float:
    """Return input j of a row for class k from its evidence, (S, K): a view's distance, or what stands after them.

    The views of a row that must not update the prior have no distance.
    """
    if evidence.shape[0] <= 1 + j or (j < n_views and np.isnan(evidence[0, k])):
        return 0.0
    value = min(max(evidence[1 + j, k], -LARGEST_LOG_RATIO), LARGEST_LOG_RATIO)
    if j < n_views:
        value -= min(max(evidence[0, k], -LARGEST_LOG_RATIO), LARGEST_LOG_RATIO)
    return float(np.float32(min(max(value, -FARTHEST_INPUT), FARTHEST_INPUT)))


@inlined
def map_with_inputs(theta: FloatArray, inputs: FloatArray, expert: FloatArray) -> None:
    """Write slope and offsets of a row, (K,), by a map (K + J,) and the row's inputs, (J, K-1)."""
    n_classes = expert.size
    expert[0] = theta[0]
    for k in range(1, n_classes):
        expert[k] = theta[k]
        for j in range(inputs.shape[0]):
            expert[k] += theta[n_classes + j] * inputs[j, k - 1]


@inlined
def step_with_inputs(
    base: FloatArray,
    inputs: FloatArray,
    posterior: FloatArray,
    label: int,
    replaced: int,
    weight: float,
    start_precision: FloatArray,
    precision: FloatArray,
) -> FloatArray:
    """Return the step of a Bayesian logistic regression that forgets, (K + J,), and update its packed precision.

    `posterior` is the map's own for this row, (K,). Slope, offsets and coefficients are the columns of a design with
    a row for each class.
    """
    n_classes, n_inputs = base.size, inputs.shape[0]
    size = n_classes + n_inputs
    design = np.zeros((n_classes, size))
    for k in range(1, n_classes):
        design[k, 0] = base[k]
        design[k, k] = 1.0
        for j in range(n_inputs):
            design[k, n_classes + j] = inputs[j, k - 1]
    gradient = np.empty(size)
    mean = np.zeros(size)
    for i in range(size):
        for k in range(1, n_classes):
            mean[i] += posterior[k] * design[k, i]
        gradient[i] = weight * (design[label, i] - (design[replaced, i] if replaced >= 0 else mean[i]))
    information = np.empty((size, size))
    kept = 1.0 - weight / INPUT_MEMORY
    at = 0
    for i in range(size):
        for j in range(i + 1):
            if replaced < 0:  # the information of a label does not depend on its value
                told = -mean[i] * mean[j]
                for k in range(1, n_classes):
                    told += posterior[k] * design[k, i] * design[k, j]
                precision[at] = start_precision[at] + kept * (precision[at] - start_precision[at]) + weight * told
            information[i, j] = precision[at]
            information[j, i] = precision[at]
            at += 1
    return np.linalg.solve(information, gradient)
