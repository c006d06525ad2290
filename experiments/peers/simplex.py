"""Project a vector onto the simplex, the nearest prior in Euclidean distance.

The peers' kernels compile this function in: after a change here, delete `experiments/peers/__pycache__`,
because numba rebuilds a cached kernel only when its own file changes.
"""

import numpy as np

from obil.arrays import FloatArray
from obil.compiled import compiled

# The peers may rule a class out; at exactly 0 it could never be decided, nor its log be taken.
SMALLEST_PRIOR = 1e-6


@compiled
def project_to_simplex(values: FloatArray, floor: float, prior: FloatArray) -> None:
    """Write into `prior` the nearest point to `values` whose entries are at least `floor` and sum to 1.

    The projection is max(values - shift, floor): only the shift is unknown, and the sum, which falls with
    it, fixes it. With the values in falling order the entries above the floor are the first m, for the
    largest m at which the m-th still is.
    """
    n_classes = values.size
    falling = np.sort(values)[::-1]
    total = 0.0
    shift = 0.0
    for m in range(n_classes):
        total += falling[m]
        candidate = (total + (n_classes - m - 1) * floor - 1.0) / (m + 1)
        if falling[m] - candidate > floor:
            shift = candidate
    total = 0.0
    for k in range(n_classes):
        prior[k] = max(values[k] - shift, floor)
        total += prior[k]
    for k in range(n_classes):  # what rounding left
        prior[k] /= total
