"""Score rows with frozen decision trees, a forest's or a booster's, without the library that grew them."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.serving.leaf_tables import LeafTables
from obil.serving.records import JsonFloats, pack
from obil.serving.scorers import LOGIT, PROBABILITY, OutputScorer, as_matrix, raw_scores
from obil.serving.tree_kernels import NODE, NUMERIC, Nodes, add_leaves, walk_trees

LEAF = {"threshold": np.inf, "feature": 0, "category_set": NUMERIC, "missing_left": 1}  # what keeps a row in a leaf
pack_nodes = partial(pack, NODE)  # from the array of each field


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
    # of one or of None, once rows were scored: nodes are not yet checked when the record is made
    tables: list[LeafTables | None] = field(init=False, default_factory=list)

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
        if not self.tables:
            self.tables.append(LeafTables.of(self.nodes, self.roots, self.values, self.category_sets))
        tables, ends = self.tables[0], (self.outputs, self.single_sums, total)
        if tables is None:
            walk_trees(rows, self.nodes, self.roots, self.values, self.category_sets, *ends)
        else:
            add_leaves(rows, *tables, *ends)
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
