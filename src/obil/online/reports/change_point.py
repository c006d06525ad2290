"""Date the change of a prevalence: the two levels that explain a history best."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from obil.online.state.history import Bucket

# Log likelihood that two levels must gain over one before a date is named: by chance in 1 to 2 of 1,000 steady streams.
DATING_GAIN = 8.0


class Split(NamedTuple):
    """The best split of a history into two levels."""

    row: int  # the first of the second part
    before: float  # prevalence
    after: float
    gain: float  # log likelihood


def change_point(buckets: Sequence[Bucket], k: int) -> Split | None:
    """Return the two levels of class k's prevalence that explain a history best, or None where one does as well.

    Mean posteriors are taken for counts of independent rows, which they nearly are: this dates a change, but does not
    prove one.

    >>> from obil.online.state.history import StreamHistory
    >>> history = StreamHistory(2)
    >>> history.add([[0.98, 0.02]] * 800 + [[0.9, 0.1]] * 800, None, [False] * 1_600)
    >>> change_point(history.buckets(), 1)[:3]
    (800, 0.02, 0.1)
    """
    if len(buckets) < 2:
        return None
    rows = np.array([bucket.n_rows for bucket in buckets], dtype=np.float64)
    count = rows * [bucket.prevalence[k] for bucket in buckets]
    n_before, before = np.cumsum(rows)[:-1], np.cumsum(count)[:-1]
    n_after, after = rows.sum() - n_before, count.sum() - before
    gains = _log_likelihood(before, n_before) + _log_likelihood(after, n_after)
    gains -= _log_likelihood(count.sum(), rows.sum())
    best = int(np.argmax(gains))
    if gains[best] < DATING_GAIN:
        return None
    levels = before[best] / n_before[best], after[best] / n_after[best]
    return Split(
        buckets[best + 1].first_row, round(float(levels[0]), 12), round(float(levels[1]), 12), float(gains[best])
    )


def _log_likelihood(count: Any, n: Any) -> Any:
    rate = np.clip(count / n, 1e-12, 1.0 - 1e-12)
    return count * np.log(rate) + (n - count) * np.log1p(-rate)
