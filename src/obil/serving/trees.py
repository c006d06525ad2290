"""Score rows with frozen decision trees, a forest's or a booster's, without the library that grew them."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.compiled import compiled
from obil.errors import InvalidInputError
from obil.serving.records import JsonFloats, pack
from obil.serving.scorers import LOGIT, PROBABILITY, OutputScorer, as_matrix, raw_scores

CHUNK_ROWS = 512  # rows that walk one tree after the other: its nodes stay in the cache
LEAF = -1
NUMERIC = -1
# `feature` is LEAF in leaves; `category_set` is the row of `TreeScorer.category_sets` a node splits by, or NUMERIC
NODE = np.dtype(
    [
        ("threshold", "f8"), ("feature", "i4"), ("left", "i4"), ("right", "i4"),
        ("category_set", "i4"), ("missing_left", "u1"),
    ],
    align=True,
)  # fmt: skip
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
            own["left"] += n_nodes[fold]
            own["right"] += n_nodes[fold]
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
        raw = raw_scores(sums.reshape(len(sums) * n_folds, -1), self.link, self.training_prior, self.floor)
        return raw.reshape(len(sums), n_folds, -1)

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
    inner = nodes[nodes["feature"] >= 0]
    parents = np.flatnonzero(nodes["feature"] >= 0)
    return (
        bool(((trees.roots >= 0) & (trees.roots < n_nodes)).all())
        and bool(((trees.outputs >= 0) & (trees.outputs < len(trees.start))).all())
        and bool((nodes["feature"] >= LEAF).all() and (nodes["feature"] < trees.n_features).all())
        and bool((inner["category_set"] >= NUMERIC).all() and (inner["category_set"] < len(trees.category_sets)).all())
        # a child comes after its parent, so that no walk runs in a circle
        and all(bool(((inner[side] > parents) & (inner[side] < n_nodes)).all()) for side in ("left", "right"))
    )


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
    """Add the leaf of every tree to `total`, (n, outputs)."""
    n_rows, n_values = rows.shape[0], values.shape[1]
    n_codes = 8 * category_sets.shape[1]
    for start in range(0, n_rows, CHUNK_ROWS):
        stop = min(start + CHUNK_ROWS, n_rows)
        for tree in range(roots.shape[0]):
            output = outputs[tree]
            for r in range(start, stop):
                number = roots[tree]
                while True:
                    node = nodes[number]
                    if node.feature < 0:
                        break
                    x = rows[r, node.feature]
                    if node.category_set >= 0:
                        known = x > -1.0 and x < n_codes  # false for NaN; codes are cut to whole numbers
                        code = int(x) if known else 0
                        in_set = (category_sets[node.category_set, code >> 3] >> (code & 7)) & 1 == 1
                        goes_left = in_set if known else node.missing_left == 1
                    else:
                        goes_left = x <= node.threshold or (x != x and node.missing_left == 1)  # noqa: PLR0124  # NaN
                    number = node.left if goes_left else node.right
                if n_values == 1:
                    total[r, output] += values[number, 0]
                    if single_sums:
                        total[r, output] = np.float32(total[r, output])
                else:
                    for k in range(n_values):
                        total[r, output + k] += values[number, k]
