"""Find the leaves of small trees by tables of what each value of a feature rules out, as QuickScorer does."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray
from obil.serving.tree_kernels import Bits, Nodes, rule_out

# For integers of 32 and of 64 bits, de Bruijn sequences: one times an integer with one bit set, shifted to the right by
# the other number, is the place of that bit's leaf.
FACTORS: dict[int, tuple[np.uint32 | np.uint64, int]] = {
    32: (np.uint32(0x077CB531), 27),
    64: (np.uint64(0x03F79D71B4CB0A89), 58),
}
MOST_FEATURES = 64  # that trees split by: with more of them a walk is faster
LARGEST_TABLE = 8 << 20  # bytes


class LeafTables(NamedTuple):
    """For every interval of a feature in which no split separates two values: the leaves that it leaves possible.

    Each leaf of a tree has a bit. What all features of a row leave possible is the bit of the leaf that a walk ends in:
    every other leaf hangs from a split whose other side the row goes to. F features have R intervals in all.
    """

    features: IntArray  # (F,)
    starts: IntArray  # (F + 1,) where the intervals of each feature begin
    representatives: FloatArray  # (R,) their upper ends: of each feature in order, then infinity, then NaN
    possible: Bits  # (R, T)
    values: FloatArray  # (T * bits, outputs of a leaf) of each tree's leaves, at the places by `factor` and `shift`
    factor: np.uint32 | np.uint64
    shift: int

    @classmethod
    def of(
        cls,
        nodes: Nodes,
        roots: npt.NDArray[np.int32],
        values: FloatArray,
        category_sets: npt.NDArray[np.uint8],
    ) -> "LeafTables | None":
        """Return the tables of trees, or None where a walk is faster: leaves, features or intervals are too many."""
        n_nodes, n_trees = len(nodes), len(roots)
        is_leaf = nodes["child"] == np.arange(n_nodes)
        trees = np.repeat(np.arange(n_trees), np.diff(np.append(roots, n_nodes)))
        n_before = np.cumsum(is_leaf) - is_leaf
        numbers = (n_before - n_before[roots][trees])[is_leaf]  # of the leaves, in their trees
        features = np.unique(nodes["feature"][~is_leaf]).astype(np.int64)
        if numbers.max() >= max(FACTORS) or not 0 < len(features) <= MOST_FEATURES:
            return None
        n_bits = 32 if numbers.max() < 32 else 64
        factor, shift = FACTORS[n_bits]
        ends = [_ends(nodes[~is_leaf & (nodes["feature"] == j)], category_sets.shape[1]) for j in features]
        representatives = np.concatenate(ends)
        children = nodes["child"][~is_leaf]
        shared = len(np.unique([children, children + 1])) < 2 * len(children)  # as only a damaged file has them
        if shared or len(representatives) * n_trees * factor.itemsize > LARGEST_TABLE:
            return None
        bits = factor.dtype.type(1) << numbers.astype(factor.dtype)
        below = np.zeros(n_nodes, dtype=factor.dtype)
        below[is_leaf] = bits
        placed = np.zeros((n_trees * n_bits, values.shape[1]))
        placed[n_bits * trees[is_leaf] + (bits * factor >> shift).astype(np.int64)] = values[is_leaf]
        starts = np.cumsum([0, *map(len, ends)])
        possible = np.empty((len(representatives), n_trees), dtype=factor.dtype)
        rule_out(nodes, roots, trees, category_sets, below, features, starts, representatives, possible)
        return cls(features, starts, representatives, possible, placed, factor, shift)


def _ends(nodes: Nodes, n_bytes: int) -> FloatArray:
    """Return the upper ends of the intervals that splits by one feature separate, then infinity and NaN."""
    by_category = nodes["category_set"] >= 0
    thresholds = nodes["threshold"][~by_category]
    # codes are cut to whole numbers, and what is not above -1 is none
    codes = [-1.0, *np.nextafter(np.arange(1.0, 8 * n_bytes + 1.0), 0.0)] if by_category.any() else []
    return np.concatenate([np.unique([*thresholds[thresholds < np.inf], *codes]), [np.inf, np.nan]])
