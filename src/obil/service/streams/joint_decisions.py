"""Decide requests together that wait together: the same decisions and votes, for a fraction of the work."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from obil.arrays import FloatArray
from obil.service.streams.operations import Decided, Rows, Sender

MOST_ROWS = 1_024  # of requests decided together

Scored = tuple[FloatArray, FloatArray | None]  # log ratios (n, K), views (n, V, K)


@dataclass(frozen=True, slots=True, eq=False)
class RowsToDecide:
    """The rows of one request, with who sends them and what was scored beforehand."""

    rows: Rows
    sender: Sender
    scored: Scored | None = None
    version: str | None = None  # of the model that scored

    def fits(self, other: "RowsToDecide") -> bool:
        """Return whether the rows may be written to the log as one event: nobody could tell the requests apart."""
        one, two = self.rows, other.rows
        return (
            self.sender == other.sender
            and self.sender.idempotency_key is None
            and self.scored is None
            and other.scored is None
            and type(one.table) is np.ndarray
            and type(two.table) is np.ndarray
            and one.table.shape[1:] == two.table.shape[1:]
            and one.table.dtype == two.table.dtype
            and one.read_for is two.read_for
            and (one.ids is None) == (two.ids is None)
            and (one.inputs is None) == (two.inputs is None)
        )


def runs_of(works: Sequence[RowsToDecide]) -> list[range]:
    """Return which requests, of some that follow each other, are decided together.

    >>> one = RowsToDecide(Rows(np.zeros((1, 3)), 1), Sender())
    >>> keyed = RowsToDecide(Rows(np.zeros((1, 3)), 1), Sender(idempotency_key="a"))
    >>> runs_of([one, one, keyed, one])
    [range(0, 2), range(2, 3), range(3, 4)]
    """
    runs: list[range] = []
    n_rows = 0
    for place, work in enumerate(works):
        n_rows += work.rows.n_rows
        if runs and n_rows <= MOST_ROWS and works[runs[-1].start].fits(work):
            runs[-1] = range(runs[-1].start, place + 1)
        else:
            runs.append(range(place, place + 1))
            n_rows = work.rows.n_rows
    return runs


def joined(works: Sequence[RowsToDecide]) -> Rows:
    """Return the rows of requests that fit each other as those of one."""
    all_rows = [work.rows for work in works]
    return Rows(
        np.concatenate([rows.table for rows in all_rows]),
        sum(rows.n_rows for rows in all_rows),
        None if all_rows[0].ids is None else [name for rows in all_rows for name in rows.ids or ()],
        None if all_rows[0].inputs is None else [one for rows in all_rows for one in rows.inputs or ()],
        all_rows[0].read_for,
    )


def parts_of(decided: Decided, sizes: Sequence[int]) -> list[Decided]:
    """Return what was decided together as it belongs to each request."""
    ends = list(accumulate(sizes))
    return [_part(decided, end - size, end) for size, end in zip(sizes, ends, strict=True)]


def _part(decided: Decided, first: int, end: int) -> Decided:
    return replace(
        decided,
        first_row=decided.first_row + first,
        ids=decided.ids[first:end],
        labels=decided.labels[first:end],
        log_ratios=decided.log_ratios[first:end],
        priors=decided.priors[first:end],
        thresholds=None if decided.thresholds is None else decided.thresholds[first:end],
        reachable=decided.reachable[first:end],
        trusted=decided.trusted[first:end],
    )
