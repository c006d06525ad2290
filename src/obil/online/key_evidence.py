"""Gather what the rows and labels of each key tell of its prior, the same bits however the keys are interleaved."""

from collections.abc import Hashable, Iterable, Mapping

import numpy as np

from obil.arrays import FloatArray
from obil.online.row_counts import RowCounts
from obil.online.segments import SegmentEvidence
from obil.online.weighted_rows import WeightedRows
from obil.trackers.evidence import BinaryEvidence

CERTAIN = 50.0  # log ratio of a row whose class is known
BLOCK_ROWS = 256  # of a key, added up together: sums of floats depend on their order


class KeyEvidence:
    """The rows of keys, as evidence of the prior of each.

    >>> evidence = KeyEvidence()
    >>> evidence.add("north", np.array([[0.0, 9.0], [0.0, -9.0]]))
    >>> {key: own.n_rows for key, own in evidence.by_key().items()}
    {'north': 2}
    """

    def __init__(self) -> None:
        self._sums: dict[Hashable, BinaryEvidence | RowCounts] = {}
        self._rest: dict[Hashable, list[FloatArray]] = {}  # rows that do not fill a block yet

    def __len__(self) -> int:
        return len(self._rest)

    def add(self, key: Hashable, log_ratios: FloatArray) -> None:
        """Add rows of a key, (n, K)."""
        rest = self._rest.setdefault(key, [])
        rest.append(log_ratios)
        if sum(map(len, rest)) < BLOCK_ROWS:
            return
        rows = np.concatenate(rest)
        n_whole = len(rows) - len(rows) % BLOCK_ROWS
        for first in range(0, n_whole, BLOCK_ROWS):
            own = _evidence(rows[first : first + BLOCK_ROWS])
            self._sums[key] = self._sums[key] + own if key in self._sums else own  # type: ignore[operator]
        self._rest[key] = [rows[n_whole:]]

    def forget(self, key: Hashable) -> None:
        """Leave out a key."""
        self._rest.pop(key, None)
        self._sums.pop(key, None)

    def by_key(self) -> SegmentEvidence:
        """Return the evidence of each key, in the order of the keys where they have one."""
        found = {}
        for key in _in_order(self._rest):
            own = _evidence(np.concatenate(self._rest[key]))
            own = self._sums[key] + own if key in self._sums else own  # type: ignore[operator]
            found[key] = own.weighted() if isinstance(own, RowCounts) else own
        return found  # type: ignore[return-value]  # of one kind, as all rows have as many classes


def labelled_evidence(counts: Mapping[Hashable, FloatArray]) -> SegmentEvidence:
    """Return what labels, counted by class, (K,), tell of the prior of each key: rows whose class is certain."""
    found = {}
    for key in _in_order(counts):
        rows = CERTAIN * np.eye(counts[key].size)
        found[key] = WeightedRows(rows - rows[:, :1], counts[key], int(np.ceil(counts[key].sum())))
    return found


def _in_order(keys: Iterable[Hashable]) -> list[Hashable]:
    """Return keys in their order; where they have none, as they came."""
    try:
        return sorted(keys)  # type: ignore[type-var]
    except TypeError:
        return list(keys)


def _evidence(rows: FloatArray) -> BinaryEvidence | RowCounts:
    return BinaryEvidence.of(rows) if rows.shape[1] == 2 else RowCounts.of(rows)
