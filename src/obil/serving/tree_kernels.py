"""The compiled kernels of trees: walk them from node to node, or find their leaves by tables.

They are in one file because a cached kernel is not rebuilt when one that it calls in another file changes.
"""

from typing import Annotated, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray
from obil.compiled import compiled, inlined

CHUNK_ROWS = 512  # rows that walk one tree after the other: its nodes stay in the cache
NUMERIC = -1
# `child` is the left child, the right one stands after it; a leaf is its own child, and no value leads out of it.
# `category_set` is the row of `category_sets` that a node splits by, or NUMERIC
NODE = np.dtype(
    [("threshold", "f8"), ("feature", "i4"), ("child", "i4"), ("category_set", "i4"), ("missing_left", "u1")],
    align=True,
)
Nodes = Annotated[npt.NDArray[np.void], NODE]
Bits: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]  # 32 or 64 of them: one for each leaf of a tree


@inlined
def _step(number: int, r: int, rows: FloatArray, nodes: Nodes) -> int:
    """Return the child of a numeric split that a row goes to, without a branch that the processor could guess wrong."""
    node = nodes[number]
    x = rows[r, node.feature]
    child: int = node.child + np.int32((x > node.threshold) | ((x != x) & (node.missing_left == 0)))  # noqa: PLR0124
    return child


@inlined
def _step_by_category(number: int, r: int, rows: FloatArray, nodes: Nodes, category_sets: npt.NDArray[np.uint8]) -> int:
    """Return the child that a row goes to, where some splits are by category."""
    node = nodes[number]
    if node.category_set < 0:
        return _step(number, r, rows, nodes)
    x = rows[r, node.feature]
    known = x > -1.0 and x < 8 * category_sets.shape[1]  # false for NaN; codes are cut to whole numbers
    code = int(x) if known else 0
    in_set = (category_sets[node.category_set, code >> 3] >> (code & 7)) & 1 == 1
    child: int = node.child + np.int32(not in_set if known else node.missing_left == 0)
    return child


@compiled
def walk_trees(
    rows: FloatArray,
    nodes: Nodes,
    roots: npt.NDArray[np.int32],
    values: FloatArray,
    category_sets: npt.NDArray[np.uint8],
    outputs: npt.NDArray[np.int32],
    single_sums: bool,
    total: FloatArray,
) -> None:
    """Add the leaf of every tree to `total`, (n, outputs).

    Four walks go in step, of four rows through one tree or of one row through four: while one waits for its node,
    the others proceed. A walk that has reached its leaf stays there.
    """
    n_rows, n_values, numeric = rows.shape[0], values.shape[1], category_sets.shape[0] == 0
    leaves, trees, places = np.empty(4, dtype=np.int64), np.empty(4, dtype=np.int64), np.empty(4, dtype=np.int64)
    for start in range(0, n_rows, CHUNK_ROWS):
        size = min(CHUNK_ROWS, n_rows - start)
        n_walks = roots.shape[0] * size
        for walk in range(0, n_walks, 4):
            for w in range(4):  # the last walks are repeated where fewer than four are left
                trees[w] = min(walk + w, n_walks - 1) // size
                places[w] = start + min(walk + w, n_walks - 1) - trees[w] * size
            a, b, c, d = roots[trees[0]], roots[trees[1]], roots[trees[2]], roots[trees[3]]
            row_a, row_b, row_c, row_d = places[0], places[1], places[2], places[3]
            before, after = -1, np.int64(a) + b + c + d
            while after > before:  # a child comes after its parent
                if numeric:
                    a, b = _step(a, row_a, rows, nodes), _step(b, row_b, rows, nodes)
                    c, d = _step(c, row_c, rows, nodes), _step(d, row_d, rows, nodes)
                else:
                    a = _step_by_category(a, row_a, rows, nodes, category_sets)
                    b = _step_by_category(b, row_b, rows, nodes, category_sets)
                    c = _step_by_category(c, row_c, rows, nodes, category_sets)
                    d = _step_by_category(d, row_d, rows, nodes, category_sets)
                before, after = after, np.int64(a) + b + c + d
            leaves[0], leaves[1], leaves[2], leaves[3] = a, b, c, d
            for w in range(min(4, n_walks - walk)):
                for k in range(n_values):
                    output = outputs[trees[w]] + k
                    total[places[w], output] += values[leaves[w], k]
                    if single_sums:
                        total[places[w], output] = np.float32(total[places[w], output])


@compiled
def rule_out(
    nodes: Nodes,
    roots: npt.NDArray[np.int32],
    trees: IntArray,
    category_sets: npt.NDArray[np.uint8],
    below: Bits,
    features: IntArray,
    starts: IntArray,
    representatives: FloatArray,
    possible: Bits,
) -> None:
    """Write `possible` of `LeafTables`, given the tree of each node, (nodes,), and in `below` the bit of each leaf."""
    for number in range(nodes.shape[0] - 1, -1, -1):  # a child comes after its parent
        child = nodes[number].child
        if child != number:
            below[number] = below[child] | below[child + 1]
    for t in range(roots.size):
        possible[:, t] = below[roots[t]]
    row = np.empty((1, features[-1] + 1))
    for j in range(features.size):
        for number in range(nodes.shape[0]):
            node = nodes[number]
            if node.feature != features[j] or node.child == number:
                continue
            for place in range(starts[j], starts[j + 1]):
                row[0, node.feature] = representatives[place]
                left_out = 2 * node.child + 1 - _step_by_category(number, 0, row, nodes, category_sets)
                possible[place, trees[number]] &= ~below[left_out]


@compiled
def add_leaves(
    rows: FloatArray,
    features: IntArray,
    starts: IntArray,
    representatives: FloatArray,
    possible: Bits,
    values: FloatArray,
    factor: np.unsignedinteger[Any],
    shift: int,
    outputs: npt.NDArray[np.int32],
    single_sums: bool,
    total: FloatArray,
) -> None:
    """Add the leaf of every tree to `total`, (n, outputs), with the bits of `walk_trees`, by `LeafTables`."""
    n_trees = possible.shape[1]
    n_slots = values.shape[0] // n_trees
    leaf = np.empty(n_trees, dtype=possible.dtype)
    places = np.empty(n_trees, dtype=np.int64)
    for r in range(rows.shape[0]):
        for j in range(features.size):
            x, low, high = rows[r, features[j]], starts[j], starts[j + 1] - 2
            if np.isnan(x):
                low = high + 1
            else:
                while low < high:
                    middle = (low + high) // 2
                    if representatives[middle] < x:
                        low = middle + 1
                    else:
                        high = middle
            if j == 0:
                for t in range(n_trees):
                    leaf[t] = possible[low, t]
            else:
                for t in range(n_trees):
                    leaf[t] &= possible[low, t]
        for t in range(n_trees):
            places[t] = n_slots * t + np.int64(possible.dtype.type(leaf[t] * factor) >> shift)
        for k in range(values.shape[1]):
            t = 0
            while t < n_trees:  # trees of one output stand together: their sum stays in a register
                output = outputs[t] + k
                added = total[r, output]
                while t < n_trees and outputs[t] + k == output:
                    added += values[places[t], k]
                    if single_sums:
                        added = np.float64(np.float32(added))
                    t += 1
                total[r, output] = added
