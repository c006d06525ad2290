"""Score every row with a model that has not seen it; folds keep groups together."""

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from obil.arrays import FloatArray, IntArray
from obil.errors import InvalidInputError

Split = tuple[IntArray, IntArray]
N_DEALS = 20  # before another number of folds is tried
SPARE_FRACTION = 0.1  # of the rows, left out by two folds: how far folds differ is seen on them
LEAST_TRAINED = 0.7  # of the rows, which every fold's model must have learned from to be averaged
FEWEST_FOLDS = 5  # that leave out spare rows: fewer learn from too little already
MOST_UNEQUAL = 0.9


def score_method(estimator: Any) -> str:
    """Return how a classifier gives scores: `predict_proba` where there is one, else `decision_function`."""
    for method in ("predict_proba", "decision_function"):
        if hasattr(estimator, method):
            return method
    raise InvalidInputError(f"{type(estimator).__name__} has neither predict_proba nor decision_function: no scores")


def fit_estimator(estimator: Any, X: Any, y: npt.NDArray[Any], sample_weight: FloatArray | None) -> Any:
    """Fit a copy; weights reach it where it takes them, and the calibrator in any case."""
    fresh = clone(estimator)
    if sample_weight is None:
        return fresh.fit(X, y)
    if isinstance(fresh, Pipeline):
        name, last = fresh.steps[-1]
        resamples = any(hasattr(step, "fit_resample") for _, step in fresh.steps)  # rows would no longer match
        if resamples or not has_fit_parameter(last, "sample_weight"):
            return fresh.fit(X, y)
        return fresh.fit(X, y, **{f"{name}__sample_weight": sample_weight})
    if has_fit_parameter(fresh, "sample_weight"):
        return fresh.fit(X, y, sample_weight=sample_weight)
    return fresh.fit(X, y)


def outputs_of(fitted: Any, X: Any, classes: npt.NDArray[Any]) -> FloatArray:
    """Return probabilities or margins with one column per class of `classes`; a class not seen in fit gets none."""
    method = score_method(fitted)
    output = np.asarray(getattr(fitted, method)(X), dtype=np.float64)
    seen = getattr(fitted, "classes_", classes)
    if len(seen) == len(classes):
        return output
    if method == "decision_function":
        raise InvalidInputError(f"a fold lacks a class: it has {list(seen)} of {list(classes)}; use fewer folds")
    full = np.zeros((len(output), len(classes)))
    full[:, np.searchsorted(classes, seen)] = output
    return full


class HeldOutRows(NamedTuple):
    """The rows that folds have not seen, each once, and those of them that a second fold has not seen either."""

    rows: IntArray  # (n,)
    folds: IntArray  # (n,) the fold that tests each row
    first: IntArray  # (m,) places in `rows` of those that a second fold has not seen
    second_folds: IntArray  # (m,) that fold


class CrossFitted(NamedTuple):
    """The models of the folds, and what they put out for rows they had not seen."""

    folds: list[Any]  # (F,) fitted estimators
    held_out: HeldOutRows
    outputs: FloatArray  # (n, ...) of the held-out rows, each by its fold
    second: FloatArray  # (m, ...) by the second fold


def cross_fit(
    estimator: Any,
    X: Any,
    y: npt.NDArray[Any],
    sample_weight: FloatArray | None,
    splits: Sequence[Split],
    *,
    classes: npt.NDArray[Any],
    n_jobs: int | None,
    on_fit: Callable[[], None] | None = None,
) -> CrossFitted:
    """Fit one model per fold, and score the rows that it has not seen; `on_fit` is called after each."""

    def one_fold(train: IntArray, unseen: IntArray) -> tuple[Any, FloatArray]:
        weight = None if sample_weight is None else sample_weight[train]
        fitted = fit_estimator(estimator, take_rows(X, train), y[train], weight)
        seen = getattr(fitted, "classes_", classes)
        if len(seen) < len(classes):  # the model of a fold serves: it must know every class
            raise InvalidInputError(
                f"a fold lacks a class: it has {list(seen)} of {list(classes)}; use fewer folds, or folds that are not "
                "blocks of time"
            )
        return fitted, outputs_of(fitted, take_rows(X, unseen), classes)

    unseen = [np.concatenate([test, spare]) for (_, test), spare in zip(splits, spare_rows(splits), strict=True)]
    results = []
    for result in Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(one_fold)(train, rows) for (train, _), rows in zip(splits, unseen, strict=True)
    ):
        results.append(result)
        if on_fit is not None:
            on_fit()
    held_out, places, second = held_out_once(splits, unseen)
    outputs = np.concatenate([outputs for _, outputs in results])
    return CrossFitted([fitted for fitted, _ in results], held_out, outputs[places], outputs[second])


def spare_rows(splits: Sequence[Split]) -> list[IntArray]:
    """Return the rows on neither side of each split that a split tests elsewhere: two folds have not seen them."""
    tested = np.unique(np.concatenate([test for _, test in splits]))
    return [np.setdiff1d(tested, np.concatenate([train, test])) for train, test in splits]


def held_out_once(splits: Sequence[Split], unseen: Sequence[IntArray]) -> tuple[HeldOutRows, IntArray, IntArray]:
    """Return the held-out rows, each once and in their order, and where their scores are among those of `unseen`.

    That is: the place of each row's own score (n,), and of its second one, where there is one (m,).
    """
    is_test = np.concatenate([np.arange(len(rows)) < len(test) for rows, (_, test) in zip(unseen, splits, strict=True)])
    every = np.concatenate(list(unseen))
    fold = np.repeat(np.arange(len(unseen)), [len(rows) for rows in unseen])
    tests = np.flatnonzero(is_test)
    rows, own = np.unique(every[tests], return_index=True)
    places = tests[own]
    others = np.setdiff1d(np.arange(len(every)), places)
    first = np.searchsorted(rows, every[others])
    return HeldOutRows(rows, fold[places], first, fold[others]), places, others


def take_rows(X: Any, rows: IntArray) -> Any:
    """Return some rows of a DataFrame, an array, a sparse matrix or a list."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows] if hasattr(X, "shape") else [X[row] for row in rows]


def choose_splits(
    cv: Any,
    X: Any,
    labels: npt.NDArray[Any],
    numbers: IntArray,
    *,
    groups: npt.ArrayLike | None,
    time: npt.ArrayLike | None,
    random_state: int | None,
) -> list[tuple[IntArray, IntArray]]:
    """Return (train, test) pairs for `cv`: a number of folds, a scikit-learn splitter, or the pairs themselves."""
    if not isinstance(cv, Integral):
        if hasattr(cv, "split"):
            return list(cv.split(X, labels, groups))
        if isinstance(cv, Iterable):
            return [(np.asarray(train), np.asarray(test)) for train, test in cv]
        raise InvalidInputError(f"cv must be a number, a splitter or (train, test) pairs, got {cv!r}")
    n_folds = int(cv)
    if n_folds < 2:
        raise InvalidInputError(f"cv must be at least 2 folds, got {cv!r}")
    require_one_per_row(len(labels), groups=groups, time=time)
    if time is not None:
        folds = np.empty(len(labels), dtype=np.int64)
        folds[np.argsort(np.asarray(time), kind="stable")] = np.arange(len(labels)) * n_folds // len(labels)
    else:
        kept = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
        n_classes = int(numbers.max()) + 1
        folds = deal_folds(numbers, n_folds=n_folds, n_classes=n_classes, groups=kept, random_state=random_state)
    spare = np.full(len(labels), -1)
    if time is None and len(np.unique(folds)) == n_folds >= FEWEST_FOLDS:
        spare = _second_folds(folds, numbers, kept, n_folds, random_state)
    return [
        (np.flatnonzero((folds != fold) & (spare != fold)), np.flatnonzero(folds == fold)) for fold in np.unique(folds)
    ]


def _second_folds(
    folds: IntArray, numbers: IntArray, groups: IntArray | None, n_folds: int, random_state: int | None
) -> IntArray:
    """Return a second fold that leaves a row out, (n,), for a tenth of each class; -1 for the others."""
    rng = np.random.default_rng([0 if random_state is None else random_state, 1])
    leader = np.arange(len(folds)) if groups is None else np.unique(groups, return_index=True)[1][groups]
    chosen = np.full(len(folds), -1)
    for k in range(int(numbers.max()) + 1):
        own = np.unique(leader[numbers == k])
        own = rng.permutation(own)[: int(SPARE_FRACTION * len(own))]
        chosen[own] = (folds[own] + rng.integers(1, n_folds, len(own))) % n_folds
    return chosen[leader]


def averages(splits: Sequence[Split], n_rows: int) -> bool:
    """Return whether the mean of the folds is worth deciding with: each learned from most rows, and as many.

    Models fitted on half of the rows, or on windows that grow with time, average to less than one fitted on all.
    """
    sizes = np.array([len(train) for train, _ in splits])
    return len(sizes) == 1 or bool(
        (sizes >= LEAST_TRAINED * n_rows).all() and sizes.min() >= MOST_UNEQUAL * sizes.max()
    )


def require_one_per_row(n_rows: int, **given: npt.ArrayLike | None) -> None:
    """Refuse values, where they are given, that are not one per row."""
    for name, values in given.items():
        if values is not None and len(np.asarray(values)) != n_rows:
            raise InvalidInputError(f"{name} must have one value per row ({n_rows}), got {len(np.asarray(values))}")


def deal_folds(
    labels: IntArray, *, n_folds: int, n_classes: int, groups: IntArray | None = None, random_state: int | None = None
) -> IntArray:
    """Return the fold of each row, (n,): each class spread evenly over the folds, each group in one of them.

    Where a class has fewer groups than folds, there are fewer folds, at least two.

    >>> sorted(deal_folds(np.array([0, 0, 0, 0, 1, 1]), n_folds=5, n_classes=2, random_state=0).tolist())
    [0, 0, 0, 1, 1, 1]
    """
    names, group = np.unique(np.arange(len(labels)) if groups is None else groups, return_inverse=True)
    counts = np.zeros((len(names), n_classes), dtype=np.int64)  # rows of each class in each group
    np.add.at(counts, (group, labels), 1)
    holders = (counts > 0).sum(axis=0)
    if (holders < 2).any():
        rare = int(np.argmin(holders))
        raise InvalidInputError(
            f"cross-fitting needs at least 2 rows (or groups) of every class, got {int(holders[rare])} of class "
            f"number {rare}: the folds would leave one class, a single class, on one side"
        )
    rng = np.random.default_rng(random_state)
    fewest = int(min(n_folds, holders.min()))
    for n in range(fewest, max(fewest, n_folds) + 1):  # tangled groups can need more folds than their classes have
        for _ in range(N_DEALS):
            fold_of_group = _deal(counts, holders, n, rng)
            outside = np.stack([counts[fold_of_group != fold].sum(axis=0) for fold in range(n)])
            if outside.all():  # every fold is scored by a model that saw every class
                return fold_of_group[group]
    raise InvalidInputError("these groups cannot be dealt so that every class is on both sides of every fold")


def _deal(counts: IntArray, holders: IntArray, n_folds: int, rng: np.random.Generator) -> IntArray:
    """Return the fold of each group, (groups,), from the rows of each class in it, (groups, K).

    A group is dealt by its rarest class; groups of many classes first, then large ones: singles even things out.
    """
    n_classes = counts.shape[1]
    rarity = np.argsort(np.argsort(holders, kind="stable"), kind="stable")
    rarest = np.where(counts > 0, rarity, n_classes).argmin(axis=1)
    size, mixed = counts.sum(axis=1), (counts > 0).sum(axis=1)
    fold_of_group = np.empty(len(counts), dtype=np.int64)
    filled = np.zeros((n_folds, n_classes), dtype=np.int64)
    order = rng.permutation(len(counts))
    large = order[size[order] > 1]
    for index in large[np.lexsort((-size[large], -mixed[large]))]:
        fold = int(np.lexsort((filled.sum(axis=1), filled[:, rarest[index]]))[0])
        fold_of_group[index] = fold
        filled[fold] += counts[index]
    singles = order[size[order] == 1]
    for k in range(n_classes):
        members = singles[rarest[singles] == k]
        fold_of_group[members] = _level(filled[:, k], members.size, rng)
    return fold_of_group


def halved_features(n_features: int, n_subsets: int, *, random_state: int | None) -> list[tuple[int, ...]]:
    """Return the halves of random halvings of the features, `n_subsets` in all; none where there is one feature.

    >>> [len(half) for half in halved_features(5, 4, random_state=0)]
    [3, 2, 3, 2]
    """
    if n_features < 2:
        return []
    rng = np.random.default_rng(random_state)
    halves = [half for _ in range(n_subsets // 2) for half in np.array_split(rng.permutation(n_features), 2)]
    return [tuple(sorted(int(feature) for feature in half)) for half in halves]


def _level(filled: IntArray, n_rows: int, rng: np.random.Generator) -> IntArray:
    """Deal single rows so that the folds end as even as they can, given what they already hold."""
    level = filled.copy()
    dealt = np.zeros(len(filled), dtype=np.int64)
    remaining = n_rows
    while remaining:
        lowest = np.flatnonzero(level == level.min())
        above = level[level > level.min()]
        step = int(above.min() - level.min()) if above.size else remaining // len(lowest)
        step = min(step, remaining // len(lowest))
        if step == 0:
            lowest = rng.permutation(lowest)[:remaining]
            step = 1
        level[lowest] += step
        dealt[lowest] += step
        remaining -= step * len(lowest)
    return rng.permutation(np.repeat(np.arange(len(filled)), dealt))
