"""Hold labelled rows in a canonical order, and split off the held-out rows that members must not see."""

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray
from obil.calibration.cross_fit import Split, choose_splits, require_one_per_row
from obil.datasets.splits import stratified_split, time_split
from obil.errors import InvalidInputError

MOST_REPEATS = 10  # weights are taken as repeated rows up to so many rows per given row


@dataclass(frozen=True, slots=True, eq=False)
class LabelledRows:
    """The rows to learn from."""

    X: Any  # (N, d) matrix, or (N, ...) for a torch module
    labels: IntArray  # (N,) class numbers
    weights: FloatArray  # (N,)
    classes: npt.NDArray[Any]  # (K,) the user's own
    categories: tuple[int, ...]  # columns that hold codes
    origin: IntArray  # (N,) which of the caller's rows each one is
    n_given: int  # how many rows the caller gave

    @classmethod
    def in_order(
        cls,
        X: Any,
        labels: IntArray,
        weights: FloatArray,
        *,
        classes: npt.NDArray[Any],
        categories: tuple[int, ...] = (),
    ) -> "LabelledRows":
        """Return the rows of a table in the order of what they hold, so that the order of the rows changes nothing.

        Only ratios of weights count. Multiples of the smallest become repeats: a row of twice its weight is then
        exactly two rows, and one of weight 0 none.
        """
        origin, n_given = np.flatnonzero(weights > 0.0), len(labels)  # a row of weight 0 is ignored
        weights = weights[origin] / weights[origin].min()
        counts = np.round(weights)
        if np.allclose(weights, counts, rtol=1e-9, atol=0.0) and counts.sum() <= MOST_REPEATS * n_given:
            origin, weights = np.repeat(origin, counts.astype(np.int64)), np.ones(int(counts.sum()))
        weights = weights / weights.mean()
        if np.ndim(X) == 2:
            order = np.lexsort((weights, labels[origin], *X[origin].T[::-1]))
            origin, weights = origin[order], weights[order]
        return cls(X[origin], labels[origin], weights, classes, categories, origin, n_given)

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return len(self.classes)

    def take(self, rows: IntArray) -> "LabelledRows":
        """Return some of the rows."""
        return replace(
            self, X=self.X[rows], labels=self.labels[rows], weights=self.weights[rows], origin=self.origin[rows]
        )


def out_of_fold_splits(
    rows: LabelledRows, cv: Any, *, groups: npt.ArrayLike | None = None, time: npt.ArrayLike | None = None, seed: int
) -> list[Split]:
    """Return (train, test) pairs of the rows: one where `cv` is a fraction, else those of the folds or of a splitter.

    `groups`, `time` and given pairs follow the caller's rows.
    """
    require_one_per_row(rows.n_given, groups=groups, time=time)
    by_row = [None if given is None else np.asarray(given)[rows.origin] for given in (groups, time)]
    if is_fraction(cv):
        aside = set_aside(rows.labels, float(cv), classes=rows.classes, groups=by_row[0], time=by_row[1], seed=seed)
        return _together(rows, [aside])
    if isinstance(cv, Integral):
        chosen = choose_splits(
            cv, rows.X, rows.labels, rows.labels, groups=by_row[0], time=by_row[1], random_state=seed
        )
        return _together(rows, chosen)
    if time is not None:
        raise InvalidInputError("give time or a splitter, not both: a splitter does not use time")
    if hasattr(cv, "split"):  # it splits the caller's rows, without those of weight 0
        own, first = np.unique(rows.origin, return_index=True)
        caller = rows.take(first)
        given_groups = None if groups is None else np.asarray(groups)[own]
        pairs = [(own[train], own[test]) for train, test in cv.split(caller.X, caller.labels, given_groups)]
    else:
        chosen = choose_splits(cv, rows.X, rows.labels, rows.labels, groups=None, time=None, random_state=seed)
        pairs = [(_row_numbers(train, rows.n_given), _row_numbers(test, rows.n_given)) for train, test in chosen]
    for train, test in pairs:
        if np.intersect1d(train, test).size:
            raise InvalidInputError(
                "the two sides of a split must share no row: calibration needs rows that no member has seen"
            )
    return [
        (np.flatnonzero(np.isin(rows.origin, train)), np.flatnonzero(np.isin(rows.origin, test)))
        for train, test in pairs
    ]


def _together(rows: LabelledRows, splits: list[Split]) -> list[Split]:
    """Return the splits with every copy of a weighted row on the side of its first."""
    _, first, which = np.unique(rows.origin, return_index=True, return_inverse=True)
    leader = first[which]
    return [(np.flatnonzero(np.isin(leader, train)), np.flatnonzero(np.isin(leader, test))) for train, test in splits]


def _row_numbers(side: npt.ArrayLike, n_given: int) -> IntArray:
    """Return one side of a given split as row numbers: a mask becomes the rows it marks."""
    rows = np.asarray(side)
    if rows.dtype == bool and rows.shape == (n_given,):
        return np.flatnonzero(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or (rows.size and not (0 <= rows.min() <= rows.max() < n_given)):
        raise InvalidInputError(f"a split names rows 0 to {n_given - 1} or masks them all, got {side!r:.60}")
    return rows.astype(np.int64)


def is_fraction(cv: Any) -> bool:
    """Return whether `cv` is a fraction of the rows, and not a number of folds, a splitter or pairs."""
    return isinstance(cv, Real) and not isinstance(cv, Integral)


def set_aside(
    labels: IntArray,
    fraction: float,
    *,
    classes: npt.NDArray[Any],
    groups: npt.ArrayLike | None,
    time: npt.ArrayLike | None,
    seed: int,
) -> Split:
    """Return the rows to fit on and the fraction that is held out: at random, by group, or the last in time."""
    if time is not None:
        train, test = time_split(time, test_size=fraction)
    else:
        train, test = stratified_split(labels, test_size=fraction, random_state=seed, groups=groups)
    for side in (train, test):
        held = np.bincount(labels[side], minlength=len(classes))
        if (held == 0).any():
            rare = classes[int(held.argmin())]
            raise InvalidInputError(
                f"{fraction:g} of the rows are set aside to calibrate, and class {rare!r} has too few rows (or groups) "
                "for both sides: one of them would hold a single class"
            )
    return train, test
