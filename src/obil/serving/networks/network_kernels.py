"""The compiled kernels of served networks: inputs, first layers from a table, layers of one row, ends of those of many.

They are in one file because a cached kernel is not rebuilt when one that it calls in another file changes.
"""

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray
from obil.compiled import compiled, inlined

Float32Array = npt.NDArray[np.float32]
CURVE, LEVEL, MISSING = 0, 1, 2  # what an input is made of
LARGEST_INPUT = 1e4  # beyond every standardised number that means something; keeps float32 finite


@inlined
def encode_row(row: FloatArray, layout: IntArray, table: FloatArray, straight: bool, inputs: Float32Array) -> bool:
    """Write the inputs of one row, (d,), into `inputs`; return whether every number was finite or missing."""
    for j in range(row.shape[0]):
        if np.isinf(row[j]):
            return False
    for place in range(layout.shape[0]):
        x, kind, first, last = row[layout[place, 0]], layout[place, 1], layout[place, 2], layout[place, 3]
        if kind == MISSING:
            inputs[place] = 1.0 if np.isnan(x) else 0.0
        elif kind == LEVEL:
            inputs[place] = 1.0 if x == table[0, first] else 0.0
        elif np.isnan(x):
            inputs[place] = 0.0
        else:
            if not straight:
                x = min(max(x, table[0, first]), table[0, last - 1])
            low, high = first, last - 1  # the segment that holds x, by bisection
            while high - low > 1:
                middle = (low + high) // 2
                if table[0, middle] <= x:
                    low = middle
                else:
                    high = middle
            value = table[1, low] + (0.5 * x - 0.5 * table[0, low]) * table[2, low]  # halves never overflow
            inputs[place] = min(max(value, -LARGEST_INPUT), LARGEST_INPUT)
    return True


@compiled
def encode_rows(rows: FloatArray, layout: IntArray, table: FloatArray, straight: bool, inputs: Float32Array) -> bool:
    """Write the inputs of rows, (n, d), into `inputs`; return whether every number was finite or missing."""
    sound = True
    for r in range(rows.shape[0]):
        sound &= encode_row(rows[r], layout, table, straight, inputs[r])
    return sound


@inlined
def first_layer_of_row(
    row: FloatArray,
    kinds: IntArray,
    starts: IntArray,
    knots: FloatArray,
    ends: FloatArray,
    units: Float32Array,
    outputs: Float32Array,
) -> bool:
    """Write the units of a `KnotTable` for one row, (d,); return whether every number was finite or missing."""
    n_knots, n_units = knots.size, outputs.size
    for unit in range(n_units):
        outputs[unit] = units[units.shape[0] - 1, unit]
    for j in range(row.shape[0]):
        x, low, last = row[j], starts[j], starts[j + 1]
        if np.isinf(x):
            return False
        if np.isnan(x):
            for unit in range(n_units):
                outputs[unit] += units[n_knots + j, unit]
            continue
        if low == last:
            continue
        if kinds[j] == CURVE:
            x = min(max(x, ends[j, 0]), ends[j, 1])
            last -= 1  # the last knot begins no segment
        while last - low > 1:
            middle = (low + last) // 2
            if knots[middle] <= x:
                low = middle
            else:
                last = middle
        if kinds[j] == CURVE:  # halves never overflow
            fraction = np.float32((0.5 * x - 0.5 * knots[low]) / (0.5 * knots[low + 1] - 0.5 * knots[low]))
            for unit in range(n_units):
                outputs[unit] += units[low, unit] + fraction * (units[low + 1, unit] - units[low, unit])
        elif x == knots[low]:
            for unit in range(n_units):
                outputs[unit] += units[low, unit]
    return True


@compiled
def first_layer_of_rows(
    rows: FloatArray,
    kinds: IntArray,
    starts: IntArray,
    knots: FloatArray,
    ends: FloatArray,
    units: Float32Array,
    outputs: Float32Array,
) -> bool:
    """Write the units of rows, (n, d), rectified; return whether every number was finite or missing."""
    sound = True
    for r in range(rows.shape[0]):
        sound &= first_layer_of_row(rows[r], kinds, starts, knots, ends, units, outputs[r])
        for unit in range(outputs.shape[1]):
            outputs[r, unit] = max(outputs[r, unit], np.float32(0.0))
    return sound


@inlined
def layer_of_row(layer: Float32Array, hidden: Float32Array, following: Float32Array, rectify: bool) -> None:
    """Write the outputs of one layer, (inputs + 1, outputs) with the biases last, of one row."""
    n_in, n_out = layer.shape[0] - 1, layer.shape[1]
    for j in range(n_out):
        following[j] = layer[n_in, j]
    i = 0
    while i + 4 <= n_in:  # added in order, but read and written once for four
        a, b, c, d = hidden[i], hidden[i + 1], hidden[i + 2], hidden[i + 3]
        for j in range(n_out):
            so_far = (following[j] + a * layer[i, j]) + b * layer[i + 1, j]
            following[j] = (so_far + c * layer[i + 2, j]) + d * layer[i + 3, j]
        i += 4
    while i < n_in:
        for j in range(n_out):
            following[j] += hidden[i] * layer[i, j]
        i += 1
    if rectify:
        for j in range(n_out):
            following[j] = max(following[j], np.float32(0.0))


@compiled
def stack_rows(
    rows: FloatArray,
    kinds: IntArray,
    starts: IntArray,
    knots: FloatArray,
    ends: FloatArray,
    units: Float32Array,
    layers: tuple[Float32Array, ...],
    fusion: FloatArray,
    gating: Float32Array,
    scores: FloatArray,
) -> bool:
    """Write the fused raw scores of rows, (n, d), one by one, into `scores[:, 1]`; return whether all are finite.

    `units` and what stands before it are a `KnotTable`: the first layer of all members, then of the gating network.
    `layers` are the members' others, (M, inputs + 1, outputs) each, and `gating` its last, (inputs + 1, M), empty
    where the weights are fixed; `fusion` holds the members' log prior odds in training and their weights, (2, M).
    """
    n_members = fusion.shape[1]
    n_gating = max(gating.shape[0] - 1, 0)
    first = np.empty(units.shape[1], dtype=np.float32)
    width = (first.size - n_gating) // n_members
    widest = n_members
    for layer in range(len(layers)):
        widest = max(widest, layers[layer].shape[2])
    hidden = np.empty(widest, dtype=np.float32)
    following = np.empty(widest, dtype=np.float32)
    weights = fusion[1].copy()
    sound = True
    for r in range(rows.shape[0]):
        sound &= first_layer_of_row(rows[r], kinds, starts, knots, ends, units, first)
        for unit in range(first.size):
            first[unit] = max(first[unit], np.float32(0.0))
        if n_gating > 0:
            layer_of_row(gating, first[first.size - n_gating :], following, False)
            highest = following[0]
            for m in range(n_members):
                highest = max(highest, following[m])
            total = 0.0
            for m in range(n_members):
                weights[m] = np.exp(np.float64(following[m]) - np.float64(highest))
                total += weights[m]
            for m in range(n_members):
                weights[m] /= total
        fused = 0.0
        for m in range(n_members):
            own = first[m * width : (m + 1) * width]
            for layer in range(len(layers)):
                last = layer == len(layers) - 1
                layer_of_row(layers[layer][m], own if layer == 0 else hidden, following, not last)
                hidden, following = following, hidden
            fused += weights[m] * (2.0 * np.float64(hidden[0]) - fusion[0, m])
        scores[r, 1] = fused
        sound &= np.isfinite(fused)
    return sound


@compiled
def end_layer(hidden: Float32Array, biases: Float32Array, rectify: bool) -> None:
    """Add the biases of a layer to many rows, (n, outputs), and rectify, in one pass over memory."""
    for r in range(hidden.shape[0]):
        for j in range(hidden.shape[1]):
            value = hidden[r, j] + biases[j]
            hidden[r, j] = max(value, np.float32(0.0)) if rectify else value
