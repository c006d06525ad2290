"""Keep the models of the folds: their mean decides, and one of them per row is evidence of the class prior."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.errors import InvalidInputError
from obil.serving.scorers import Scorer
from obil.serving.trees import TreeScorer

MOST_FOLDS = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class FoldScorer:
    """The models of cross-fitting, each fitted without the rows of its fold.

    A single one of them scores new rows as it scored its held-out rows, so that frequencies learned from those hold.
    The mean of the raw scores separates the classes better, but is distributed differently.
    """

    folds: tuple[Scorer, ...]
    trees: TreeScorer | None = field(init=False)  # of all folds, walked in one pass

    def __post_init__(self) -> None:
        if not 1 <= len(self.folds) <= MOST_FOLDS:
            raise InvalidInputError(f"a model has 1 to {MOST_FOLDS:,} folds, got {len(self.folds):,}")
        shapes = {(fold.n_classes, fold.n_features) for fold in self.folds}
        if len(shapes) > 1:
            raise InvalidInputError(
                f"the folds of a model have the same classes and features, got {sorted(map(str, shapes))}"
            )
        trees = tuple(fold for fold in self.folds if isinstance(fold, TreeScorer))
        stacked = TreeScorer.stacked(trees) if len(trees) == len(self.folds) else None
        object.__setattr__(self, "trees", stacked)

    @property
    def n_features(self) -> int | None:
        """The width of a row, or None where any is taken."""
        return self.folds[0].n_features

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return self.folds[0].n_classes

    @property
    def batch_invariant(self) -> bool:
        """Whether the scores of a row have the same bits whichever rows are scored together with it."""
        return all(getattr(fold, "batch_invariant", False) for fold in self.folds)

    def scores(self, X: Any) -> FloatArray:
        """Return the mean of the folds' raw scores, (n, K)."""
        return mean_of_folds(self.fold_scores(X))

    def fold_scores(self, X: Any) -> FloatArray:
        """Return the raw scores of each fold's model, (n, F, K)."""
        if self.trees is not None:
            return self.trees.stacked_scores(X, len(self.folds))
        return np.stack([fold.scores(X) for fold in self.folds], axis=1)


def folds_of(scorer: Scorer) -> tuple[Scorer, ...]:
    """Return the models of the folds, (F,); a scorer without folds is its only one."""
    return scorer.folds if isinstance(scorer, FoldScorer) else (scorer,)


def fold_scores(scorer: Scorer, X: Any) -> FloatArray:
    """Return the raw scores of each fold's model, (n, F, K); a scorer without folds has one."""
    return scorer.fold_scores(X) if isinstance(scorer, FoldScorer) else scorer.scores(X)[:, None]


def trees_in_one_pass(
    scorers: Sequence[Scorer], features: Sequence[Sequence[int]], n_features: int | None
) -> TreeScorer | None:
    """Return the trees of scorers that each see some of the features, as those of one that sees all of them.

    None where they are not all boosters or forests of as many folds.
    """
    folds = [(fold, places) for one, places in zip(scorers, features, strict=True) for fold in folds_of(one)]
    if n_features is None or not folds or len({len(folds_of(one)) for one in scorers}) > 1:
        return None
    trees = []
    for fold, places in folds:
        if not isinstance(fold, TreeScorer):
            return None
        nodes = fold.nodes.copy()
        nodes["feature"] = np.asarray(places)[nodes["feature"]]
        trees.append(replace(fold, nodes=nodes, n_features=n_features))
    return TreeScorer.stacked(tuple(trees))


def mean_of_folds(scores: FloatArray) -> FloatArray:
    """Return the mean of raw scores (n, F, K) over the folds, (n, K), added in the order of the folds.

    >>> mean_of_folds(np.array([[[0.0, 1.0], [0.0, 3.0]]]))
    array([[0., 2.]])
    """
    if scores.shape[1] == 1:
        return scores[:, 0]
    total = scores[:, 0].copy()
    for fold in range(1, scores.shape[1]):
        total += scores[:, fold]
    total /= scores.shape[1]
    return total


def folds_of_rows(first_row: int, n_rows: int, n_folds: int) -> IntArray:
    """Return the fold that is evidence for each of a stream's rows, (n,): a hash of the row's number.

    It must not depend on what a row holds: repeated rows would always meet the same fold.

    >>> folds_of_rows(0, 8, 5).tolist() == [*folds_of_rows(0, 3, 5).tolist(), *folds_of_rows(3, 5, 5).tolist()]
    True
    """
    return folds_of_numbers(np.arange(first_row, first_row + n_rows), n_folds)


def folds_of_numbers(rows: IntArray, n_folds: int) -> IntArray:
    """Return what `folds_of_rows` does for rows of these numbers, (n,)."""
    if n_folds == 1:
        return np.zeros(len(rows), dtype=np.int64)
    mixed = rows.astype(np.uint64) + np.uint64(1)
    mixed *= np.uint64(0x9E3779B97F4A7C15)  # SplitMix64: every bit of the number reaches every bit of the hash
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return (mixed % np.uint64(n_folds)).astype(np.int64)


def fold_of_row(row: int, n_folds: int) -> int:
    """Return what `folds_of_rows` does for one row, without the arrays.

    >>> [fold_of_row(row, 5) for row in range(100)] == folds_of_rows(0, 100, 5).tolist()
    True
    """
    if n_folds == 1:
        return 0
    mask = 0xFFFFFFFFFFFFFFFF
    mixed = (row + 1) * 0x9E3779B97F4A7C15 & mask
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & mask
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & mask
    return (mixed ^ mixed >> 31) % n_folds
