"""Score rows with frozen decision trees, a forest's or a booster's, without the library that grew them."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.compiled import compiled, inlined
from obil.errors import InvalidInputError
from obil.serving.records import JsonFloats, pack
from obil.serving.scorers import LOGIT, PROBABILITY, OutputScorer, as_matrix, raw_scores

CHUNK_ROWS = 512  # rows that walk one tree after the other: its nodes stay in the cache
NUMERIC = -1
# `child` is the left child, the right one stands after it; a leaf is its own child, and no value leads out of it.
# `category_set` is the row of `TreeScorer.category_sets` that a node splits by, or NUMERIC
NODE = np.dtype(
    [("threshold", "f8"), ("feature", "i4"), ("child", "i4"), ("category_set", "i4"), ("missing_left", "u1")],
    align=True,
)
LEAF = {"threshold": np.inf, "feature": 0, "category_set": NUMERIC, "missing_left": 1}  # what keeps a row in a leaf
pack_nodes = partial(pack, NODE)  # from the array of each field
Nodes = Annotated[npt.NDArray[np.void], NODE]


@dataclass(frozen=True, slots=True, eq=False)
class TreeScorer(OutputScorer):
    """Trees as a flat array of nodes; a forest averages probabilities, a booster adds log odds.

    A row goes left where its feature is at most the threshold or its category is in the node's set; where the
    feature is missing or the category unknown, it goes to the side `missing_left` says.
    """

    batch_invariant: ClassVar[bool] = True
    nodes: Nodes
    roots: npt.NDArray[np.int32]  # (T,) the first node of each tree
    outputs: npt.NDArray[np.int32]  # (T,) which output a booster's tree adds to; of a forest the first, 0
    values: FloatArray  # (nodes, K) of a forest, (nodes, 1) of a booster
    start: FloatArray  # (K,) of a forest 0; of a booster its log odds before any tree, (1,) for two classes
    category_sets: npt.NDArray[np.uint8]  # (sets, bytes) bit c of a set tells that category c goes left
    link: str  # PROBABILITY of a forest, LOGIT of a booster
    training_prior: JsonFloats  # (K,)
    floor: float  # probabilities below this are moved to it
    n_features: int
    single_inputs: bool = False  # features are rounded to float32, as in scikit-learn's forests and XGBoost
    single_sums: bool = False  # so is every sum of leaves, as in XGBoost
    allow_missing: bool = True

    def scores(self, X: Any) -> FloatArray:
        """Return raw scores with the training prior divided out, (n, K)."""
        return raw_scores(self.sums(X), self.link, self.training_prior, self.floor)

    def sums(self, X: Any) -> FloatArray:
        """Return a forest's probabilities or a booster's log odds, (n, outputs)."""
        rows = as_matrix(X, self.n_features)
        if self.single_inputs:
            with np.errstate(over="ignore"):
                rows = rows.astype(np.float32).astype(np.float64)
            if np.isinf(rows).any():
                raise InvalidInputError("features must be finite in float32, or NaN where one is missing: got infinity")
        if not self.allow_missing and np.isnan(rows).any():
            raise InvalidInputError("features must not be missing: this model was fitted without missing values")
        total = np.empty((len(rows), len(self.start)))
        total[:] = self.start
        walk_trees(rows, self.nodes, self.roots, self.outputs, self.values, self.category_sets, self.single_sums, total)
        if self.link == PROBABILITY:
            total /= len(self.roots)
        return total

    @staticmethod
    def stacked(folds: tuple["TreeScorer", ...]) -> "TreeScorer | None":
        """Return the trees of several models as those of one with all their outputs, so that one pass walks them.

        None where the models differ in more than their trees. What it sums up is not yet divided by trees.
        """
        first = folds[0]
        settings = {
            (
                one.link,
                one.floor,
                one.training_prior.tobytes(),
                one.n_features,
                one.single_inputs,
                one.single_sums,
                one.allow_missing,
                len(one.start),
            )
            for one in folds
        }
        same_trees = first.link != PROBABILITY or len({len(one.roots) for one in folds}) == 1
        widths = {one.category_sets.shape[1] for one in folds}
        if len(settings) > 1 or len(widths) > 1 or not same_trees:
            return None
        n_nodes = np.cumsum([0, *(len(one.nodes) for one in folds)])
        n_sets = np.cumsum([0, *(len(one.category_sets) for one in folds)])
        nodes = np.concatenate([one.nodes for one in folds])
        for fold in range(len(folds)):
            own = nodes[n_nodes[fold] : n_nodes[fold + 1]]
            own["child"] += n_nodes[fold]
            own["category_set"][own["category_set"] >= 0] += n_sets[fold]
        return replace(
            first,
            nodes=nodes,
            roots=np.concatenate([one.roots + at for one, at in zip(folds, n_nodes, strict=False)]).astype(np.int32),
            outputs=np.concatenate([one.outputs + fold * len(first.start) for fold, one in enumerate(folds)]).astype(
                np.int32
            ),
            values=np.concatenate([one.values for one in folds]),
            start=np.concatenate([one.start for one in folds]),
            category_sets=np.concatenate([one.category_sets for one in folds]),
        )

    def stacked_scores(self, X: Any, n_folds: int) -> FloatArray:
        """Return the raw scores of each of the models that were stacked into this one, (n, F, K)."""
        sums = self.sums(X)
        if self.link == PROBABILITY:
            sums *= n_folds  # `sums` divided by the trees of all models
        outputs = sums.reshape(len(sums) * n_folds, len(self.start) // n_folds)
        raw = raw_scores(outputs, self.link, self.training_prior, self.floor)
        return raw.reshape(len(sums), n_folds, len(self.training_prior))

    def summary(self) -> str:
        """Return a short text that says what scores."""
        return "a decision tree" if len(self.roots) == 1 else f"{len(self.roots):,} decision trees"

    def require_sound(self) -> None:
        """Refuse what a damaged file could hold: a kernel follows the nodes without asking."""
        super(TreeScorer, self).require_sound()
        if not _is_sound(self):
            raise InvalidInputError("the trees of a model are damaged")


def _is_sound(trees: TreeScorer) -> bool:
    nodes, n_trees, n_classes = trees.nodes, len(trees.roots), len(trees.training_prior)
    n_nodes = len(nodes)
    forest = trees.link == PROBABILITY
    shapes = (
        trees.link in (PROBABILITY, LOGIT)
        and nodes.ndim == 1
        and trees.n_features > 0
        and n_trees > 0
        and trees.roots.shape == trees.outputs.shape == (n_trees,)
        and trees.values.shape == (n_nodes, n_classes if forest else 1)
        and trees.start.shape == (1 if not forest and n_classes == 2 else n_classes,)
        and trees.category_sets.ndim == 2
        and trees.category_sets.shape[1] > 0
        and bool(np.isfinite(trees.values).all() and np.isfinite(trees.start).all())
    )
    if not shapes:
        return False
    numbers, last = np.arange(n_nodes), np.append(trees.roots[1:], n_nodes)  # a tree ends where the next begins
    if trees.roots[0] != 0 or not (trees.roots < last).all():
        return False
    leaf = nodes["child"] == numbers
    return (
        bool(((trees.outputs >= 0) & (trees.outputs < len(trees.start))).all())
        and bool(((nodes["feature"] >= 0) & (nodes["feature"] < trees.n_features)).all())
        and bool(((nodes["category_set"] >= NUMERIC) & (nodes["category_set"] < len(trees.category_sets))).all())
        and all(bool((nodes[name][leaf] == value).all()) for name, value in LEAF.items())
        # children come after their parent and within its tree: no walk runs in a circle
        and bool((leaf | (nodes["child"] > numbers)).all())
        and bool((nodes["child"] < np.repeat(last, last - trees.roots) - ~leaf).all())
    )


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
    outputs: npt.NDArray[np.int32],
    values: FloatArray,
    category_sets: npt.NDArray[np.uint8],
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
