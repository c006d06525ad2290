"""Split rows into a part that trains and a part that tests: by class, never through a group or a duplicate."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from obil.arrays import FloatArray, IntArray
from obil.errors import InvalidInputError

ATOM_FRACTION = 0.05
SMALLEST_ATOM = 100  # rows


class Split(NamedTuple):
    """Row numbers of the two sides; every row is on exactly one.

    >>> time_split(4, test_size=0.25)
    Split(train=array([0, 1, 2]), test=array([3]))
    """

    train: IntArray
    test: IntArray


def stratified_split(
    labels: npt.ArrayLike,
    *,
    test_size: float = 0.25,
    random_state: int,
    groups: npt.ArrayLike | None = None,
    rows: npt.ArrayLike | pd.DataFrame | None = None,
) -> Split:
    """Return a seeded split in which each class gives about `test_size` of its rows to the test side.

    Rows of one group (one patient) stay together, and so do rows whose features, given as `rows`, are equal to
    the last bit. A class that several groups hold is on both sides where that can be; one that a single group
    holds trains.

    >>> train, test = stratified_split([0, 0, 0, 0, 1, 1, 1, 1], test_size=0.5, random_state=0)
    >>> len(train), int(sum(test >= 4))
    (4, 2)
    >>> train, test = stratified_split([0, 1, 0, 1], test_size=0.5, random_state=0, groups=["a", "a", "b", "b"])
    >>> train.tolist() in ([0, 1], [2, 3])
    True
    """
    _require_fraction(test_size)
    values = np.asarray(labels)
    if values.ndim != 1 or values.size < 2:
        raise InvalidInputError(f"labels must have shape (n,) with n >= 2, got {values.shape}")
    if pd.isna(values).any():
        raise InvalidInputError("labels must not be missing: leave out rows without a label first")
    classes = _codes(values)
    units = _units(len(values), groups, rows)
    n_units = int(units.max()) + 1
    if n_units < 2:
        raise InvalidInputError("a split needs at least two groups of different rows, got one")

    n_classes = int(classes.max()) + 1
    counts = np.zeros((n_units, n_classes))  # (units, K)
    np.add.at(counts, (units, classes), 1.0)
    in_test = _assign(counts, test_size, np.random.default_rng(random_state))
    sides = in_test[units]
    return Split(np.flatnonzero(~sides).astype(np.int64), np.flatnonzero(sides).astype(np.int64))


def time_split(n_or_time: int | npt.ArrayLike, *, test_size: float = 0.25) -> Split:
    """Return a split in which the earlier rows train, each side in time order; equal times stay together.

    A whole number stands for that many rows in time order.

    >>> time_split(4, test_size=0.25)
    Split(train=array([0, 1, 2]), test=array([3]))
    >>> time_split(["2020-03-02", "2020-03-01", "2020-03-02", "2020-03-01"], test_size=0.4).train
    array([1, 3])
    """
    _require_fraction(test_size)
    if isinstance(n_or_time, int | np.integer):
        time: npt.NDArray[Any] = np.arange(int(n_or_time))
    else:
        time = np.asarray(n_or_time)
    if time.ndim != 1 or time.size < 2:
        raise InvalidInputError(f"time must have shape (n,) with n >= 2, got {time.shape}")
    if pd.isna(time).any():
        raise InvalidInputError(f"time must not be missing, got {int(pd.isna(time).sum())} rows without one")
    order = np.argsort(time, kind="stable")
    moves = np.flatnonzero(time[order][1:] != time[order][:-1]) + 1  # where a cut leaves equal times together
    if not moves.size:
        raise InvalidInputError(f"time must have two different values, got only {time[:1].tolist()[0]!r:.40}")
    wanted = (1.0 - test_size) * time.size
    cut = int(moves[np.argmin(np.abs(moves - wanted))])
    return Split(order[:cut].astype(np.int64), order[cut:].astype(np.int64))


def duplicate_groups(rows: npt.ArrayLike | pd.DataFrame) -> IntArray:
    """Return one number per row, equal where all features are equal; a missing value equals a missing value.

    A point that holds more than a twentieth of many rows is an *atom* of the distribution, not a copy: on one side
    alone it would give the sides different class priors (in mammography it is 30 % of all rows), so each of its rows
    gets its own number.

    >>> duplicate_groups([[1.0, 2.0], [3.0, np.nan], [1.0, 2.0], [3.0, np.nan]])
    array([0, 1, 0, 1])
    """
    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(np.asarray(rows))
    codes = np.zeros(len(frame), dtype=np.int64)
    for place in range(frame.shape[1]):
        column = _codes(frame.iloc[:, place])
        codes = _codes(codes * (int(column.max(initial=0)) + 1) + column)
    sizes = np.bincount(codes) if codes.size else np.zeros(0)
    atom = (sizes > ATOM_FRACTION * len(codes)) & (sizes >= SMALLEST_ATOM)
    return _codes(np.where(atom[codes], sizes.size + np.arange(len(codes)), codes)) if atom.any() else codes


def _codes(values: "npt.NDArray[Any] | pd.Series[Any]") -> IntArray:
    codes, _ = pd.factorize(values, use_na_sentinel=False)
    return codes.astype(np.int64)


def _units(n_rows: int, groups: npt.ArrayLike | None, rows: npt.ArrayLike | pd.DataFrame | None) -> IntArray:
    """Return the number of the unit of each row: rows joined by a group or by being equal, however far."""
    joined = []
    if groups is not None:
        values = np.asarray(groups)
        if values.ndim != 1 or pd.isna(values).any():
            raise InvalidInputError("groups must name one group per row, none missing")
        joined.append(_codes(values))
    if rows is not None:
        joined.append(duplicate_groups(rows))
    for codes in joined:
        if len(codes) != n_rows:
            raise InvalidInputError(f"groups and rows must be as long as labels ({n_rows}), got {len(codes)}")
    if not joined:
        return np.arange(n_rows)
    if len(joined) == 1:
        return joined[0]
    first, second = joined
    n_first, n_second = int(first.max()) + 1, int(second.max()) + 1
    edges = coo_array((np.ones(n_rows), (first, n_first + second)), shape=(n_first + n_second,) * 2)
    _, component = connected_components(edges, directed=False)
    return _codes(component[first])


def _assign(counts: FloatArray, test_size: float, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Return which units (units, K) test: large ones first, then single rows fill each class up to `test_size`."""
    totals = counts.sum(axis=0)  # (K,)
    weights = (counts / totals).sum(axis=1)  # the rarer its classes, the sooner a unit is placed
    in_test = np.zeros(len(counts), dtype=bool)
    single = counts.sum(axis=1) == 1.0
    shuffled = rng.permutation(len(counts))

    # sorted by powers of two only: within one, the seed decides
    large = shuffled[~single[shuffled]]
    large = large[np.argsort(-np.floor(np.log2(weights[large])), kind="stable")]
    placed = np.zeros((2, counts.shape[1]))  # (train | test, K)
    room = np.stack([(1.0 - test_size) * totals, test_size * totals]) * totals
    for unit in large:
        cost = ((2.0 * placed + counts[unit]) * counts[unit] / room).sum(axis=1)
        side = int(cost[1] <= cost[0])  # least where both sides fill at the same rate
        placed[side] += counts[unit]
        in_test[unit] = side == 1

    for k, total in enumerate(totals):
        members = shuffled[single[shuffled] & (counts[shuffled, k] > 0.0)]
        wanted = round(test_size * total - placed[1, k])
        in_test[members[: max(wanted, 0)]] = True
    return _both_sides(counts, in_test, weights, shuffled)


def _both_sides(
    counts: FloatArray, in_test: npt.NDArray[np.bool_], weights: FloatArray, shuffled: npt.NDArray[np.intp]
) -> npt.NDArray[np.bool_]:
    """Move the lightest units across, so that a class in several units is on both sides and every class trains."""
    holds = counts > 0.0
    for side in (True, False):  # training last: it must hold every class
        for k in np.argsort(counts.sum(axis=0), kind="stable"):
            absent = not (holds[:, k] & (in_test == side)).any()
            if not absent or (side and holds[:, k].sum() < 2):
                continue
            there = holds[in_test != side].sum(axis=0)  # units a class has on the other side, (K,)
            movable = holds[:, k] & (in_test != side)
            if side:  # training must keep what it has
                movable &= ~(holds & (there < 2)).any(axis=1)
            candidates = shuffled[movable[shuffled]]
            if candidates.size:
                in_test[candidates[np.argmin(weights[candidates])]] = side
    if in_test.all() or not in_test.any():
        in_test[shuffled[np.argmin(weights[shuffled])]] ^= True
    return in_test


def _require_fraction(test_size: float) -> None:
    if not 0.0 < test_size < 1.0:
        raise InvalidInputError(f"test_size must lie strictly between 0 and 1, got {test_size!r}")
