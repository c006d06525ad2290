"""Score rows with frozen decision trees, a forest's or a booster's, without the library that grew them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.compiled import compiled
from obil.errors import InvalidInputError
from obil.serving.dense_network import as_matrix
from obil.serving.scorers import scores_of_margins, scores_of_probabilities

CHUNK_ROWS = 512  # rows that walk one tree after the other: its nodes stay in the cache
LEAF = -1
FOREST, BOOSTER = "forest", "booster"


@dataclass(frozen=True, slots=True, eq=False)
class TreeScorer:
    """Trees as flat arrays of nodes; a forest averages probabilities, a booster adds log odds.

    A row goes left where its feature is at most the threshold; where it is missing, to the side `missing_left` says.
    """

    batch_invariant: ClassVar[bool] = True
    kind: str  # FOREST or BOOSTER
    roots: npt.NDArray[np.int32]  # (T,) the first node of each tree
    outputs: npt.NDArray[np.int32]  # (T,) which output a tree adds to; of a forest 0
    features: npt.NDArray[np.int32]  # (nodes,) LEAF in leaves
    thresholds: FloatArray  # (nodes,)
    children: npt.NDArray[np.int32]  # (nodes, 2) left and right
    missing_left: npt.NDArray[np.uint8]  # (nodes,)
    values: FloatArray  # (nodes, K) of a forest, (nodes, 1) of a booster
    start: FloatArray  # (K,) of a forest 0; of a booster its log odds before any tree, (1,) for two classes
    training_prior: FloatArray  # (K,)
    floor: float  # probabilities of a forest below this are moved to it
    width: int  # features of a row

    @property
    def n_features(self) -> int | None:
        """The width of a row."""
        return self.width

    def scores(self, X: Any) -> FloatArray:
        """Return raw scores with the training prior divided out, (n, K)."""
        rows = as_matrix(X)
        if rows.shape[1] != self.width:
            raise InvalidInputError(f"a row has {self.width} features, got an array of shape {rows.shape}")
        if np.isinf(rows).any():
            raise InvalidInputError("features must be finite numbers, or NaN where one is missing: got infinity")
        if self.kind == FOREST:
            rows = rows.astype(np.float32).astype(np.float64)  # as scikit-learn's forests see them
        total = np.tile(self.start, (len(rows), 1))
        walk_trees(
            rows, self.roots, self.outputs, self.features, self.thresholds, self.children, self.missing_left,
            self.values, total,
        )  # fmt: skip
        if self.kind == FOREST:
            return scores_of_probabilities(total / len(self.roots), self.training_prior, self.floor)
        margins = scores_of_margins(total, len(self.training_prior))
        log_prior = np.log(self.training_prior)
        relative: FloatArray = margins - (log_prior - log_prior[0])
        return relative

    def describe(self) -> dict[str, Any]:
        """Return what is not an array, as JSON values."""
        return {
            "kind": self.kind,
            "training_prior": self.training_prior.tolist(),
            "floor": self.floor,
            "width": self.width,
        }

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays by name."""
        return {
            "roots": self.roots,
            "outputs": self.outputs,
            "features": self.features,
            "thresholds": self.thresholds,
            "children": self.children,
            "missing_left": self.missing_left,
            "values": self.values,
            "start": self.start,
        }

    @classmethod
    def rebuild(cls, described: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> "TreeScorer":
        """Return the scorer that gave these, checked: a kernel follows the nodes without asking."""
        integers = {name: arrays[name].astype(np.int32) for name in ("roots", "outputs", "features", "children")}
        scorer = cls(
            kind=str(described["kind"]),
            **integers,
            thresholds=arrays["thresholds"].astype(np.float64),
            missing_left=arrays["missing_left"].astype(np.uint8),
            values=arrays["values"].astype(np.float64),
            start=arrays["start"].astype(np.float64),
            training_prior=np.asarray(described["training_prior"], dtype=np.float64),
            floor=float(described["floor"]),
            width=int(described["width"]),
        )
        if not _is_sound(scorer):
            raise InvalidInputError("the trees of a model are damaged")
        return scorer


def _is_sound(trees: TreeScorer) -> bool:
    n_nodes, n_trees, n_classes = len(trees.features), len(trees.roots), len(trees.training_prior)
    shapes = (
        trees.kind in (FOREST, BOOSTER)
        and n_trees > 0
        and trees.roots.shape == (n_trees,)
        and bool((np.isfinite(trees.training_prior) & (trees.training_prior > 0.0)).all())
        and trees.outputs.shape == (n_trees,)
        and trees.features.shape == trees.thresholds.shape == trees.missing_left.shape == (n_nodes,)
        and trees.children.shape == (n_nodes, 2)
        and trees.values.shape == (n_nodes, n_classes if trees.kind == FOREST else 1)
        and trees.start.shape == (1 if trees.kind == BOOSTER and n_classes == 2 else n_classes,)
        and bool(np.isfinite(trees.values).all() and np.isfinite(trees.start).all())
        and 0.0 <= trees.floor <= 0.5
    )
    if not shapes:
        return False
    inner = trees.features >= 0
    numbers = np.arange(n_nodes)[inner, None]
    return (
        bool(((trees.roots >= 0) & (trees.roots < n_nodes)).all())
        and bool(((trees.outputs >= 0) & (trees.outputs < len(trees.start))).all())
        and bool((trees.features >= LEAF).all() and (trees.features < trees.width).all())
        # a child stands after its parent, so that no walk goes round in circles
        and bool(((trees.children[inner] > numbers) & (trees.children[inner] < n_nodes)).all())
    )


@compiled
def walk_trees(
    rows: FloatArray,
    roots: npt.NDArray[np.int32],
    outputs: npt.NDArray[np.int32],
    features: npt.NDArray[np.int32],
    thresholds: FloatArray,
    children: npt.NDArray[np.int32],
    missing_left: npt.NDArray[np.uint8],
    values: FloatArray,
    total: FloatArray,
) -> None:
    """Add the leaf of every tree to `total`, (n, outputs)."""
    n_rows, n_values = rows.shape[0], values.shape[1]
    for start in range(0, n_rows, CHUNK_ROWS):
        stop = min(start + CHUNK_ROWS, n_rows)
        for tree in range(roots.shape[0]):
            output = outputs[tree]
            for r in range(start, stop):
                node = roots[tree]
                while features[node] >= 0:
                    x = rows[r, features[node]]
                    goes_left = missing_left[node] == 1 if np.isnan(x) else x <= thresholds[node]
                    node = children[node, 0] if goes_left else children[node, 1]
                if n_values == 1:
                    total[r, output] += values[node, 0]
                else:
                    for k in range(n_values):
                        total[r, k] += values[node, k]
