"""Measure how far a guarded prior overshoots on held-out rows in their order, where the true prior is known.

Rows that were recorded one after the other show how much p(x | class) moves with time, and so how far a tracked prior
goes astray where the true one hardly moves. The same rows in random orders show what of that is chance. Rows that are
sorted by their label have no order to learn from.
"""

from collections.abc import Callable

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.bayes.local_prior import local_priors

WINDOW = 2_000  # rows around each row, whose labels tell its true prior
N_SHUFFLED = 19  # random orders: one test in twenty at most takes chance for an error
SORTED = 0.01  # of the changes of label in a random order: with fewer, rows are sorted by their label
MOST_ROWS = 100_000  # held-out rows that are looked at: the last ones, which come closest to the stream


def held_out_error(
    track: Callable[[IntArray], FloatArray], labels: IntArray, start: FloatArray, monitored: list[int]
) -> FloatArray:
    """Return the root mean square overshoot of the monitored classes' priors beyond chance, in arcsin sqrt(P), (B, C).

    `track` returns the priors of B trackers before each of the held-out rows whose numbers it is given, (B, n, K).
    """
    rows = np.arange(max(0, len(labels) - MOST_ROWS), len(labels))
    rng = np.random.default_rng(0)
    shuffled = [rng.permutation(rows) for _ in range(N_SHUFFLED)]
    orders = [rng.permutation(rows) if is_sorted_by_label(labels[rows]) else rows, *shuffled]
    in_order, *others = (_overshoots(track(order), labels[order], start, monitored) for order in orders)
    return np.asarray(np.sqrt(np.maximum(in_order - np.max(others, axis=0), 0.0)))


def is_sorted_by_label(labels: IntArray) -> bool:
    """Return whether rows change their label next to never, so that their order tells nothing of time.

    >>> is_sorted_by_label(np.repeat([0, 1], 500)), is_sorted_by_label(np.tile([0, 1], 500))
    (True, False)
    """
    fractions = np.bincount(labels) / max(len(labels), 1)
    by_chance = (len(labels) - 1) * (1.0 - (fractions**2).sum())
    return bool(np.count_nonzero(np.diff(labels)) < max(SORTED * by_chance, np.count_nonzero(fractions)))


def _overshoots(tracked: FloatArray, labels: IntArray, start: FloatArray, monitored: list[int]) -> FloatArray:
    true = local_priors(labels, n_classes=start.size, window=WINDOW)
    return np.array([[overshoot(one[:, k], float(start[k]), true[:, k]) for k in monitored] for one in tracked])


def overshoot(tracked: FloatArray, start: float, true: FloatArray) -> float:
    """Return the mean square of how far tracked priors (n,) went beyond the true ones, in arcsin sqrt(P).

    A prior that has moved less far than the truth, in the same direction, is only slow: that is no error here.

    >>> start, far = 0.5, np.full(3, 0.9)
    >>> overshoot(np.full(3, 0.7), start, far), overshoot(far, start, far), overshoot(np.full(3, start), start, far)
    (0.0, 0.0, 0.0)
    >>> round(overshoot(far, start, np.full(3, 0.1)), 3)  # in the wrong direction
    0.215
    """
    origin, *moves = (np.arcsin(np.sqrt(prior)) for prior in (start, tracked, true))
    move, true_move = (x - origin for x in moves)
    beyond = np.where(move * true_move > 0.0, np.maximum(np.abs(move) - np.abs(true_move), 0.0), np.abs(move))
    return float(np.mean(beyond**2))
