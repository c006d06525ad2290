"""Draw streams at other imbalance ratios from held-out rows: the protocol by which every method is scored."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray, PriorLike, as_labels, as_prior
from obil.errors import InvalidInputError

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


class ShiftedStream(NamedTuple):
    """One stream: which held-out rows arrive, in order, and the prior P1 they were drawn at.

    >>> stream = next(shifted_streams([0, 0, 0, 1], train_prior=0.25, factors=(1.0,), n_rows=10, random_state=0))
    >>> stream.factor, stream.draw, stream.prior, len(stream.rows)
    (1.0, 0, 0.25, 10)
    """

    factor: float  # of the training imbalance ratio Qp
    draw: int
    rows: IntArray  # (n_rows,) held-out row numbers, with repeats
    prior: float


def shifted_streams(
    labels: npt.ArrayLike,
    *,
    train_prior: PriorLike,
    factors: Sequence[float] = FACTORS,
    n_draws: int = 5,
    n_rows: int = 20_000,
    random_state: int,
) -> Iterator[ShiftedStream]:
    """Yield `n_draws` streams at each target ratio Qp x factor, where Qp = (1 - P1) / P1 of `train_prior`.

    Each row's class is drawn at the target prior and the row, with replacement, among the held-out rows of
    that class. A stream depends on the seed, its factor and its draw alone.

    >>> streams = list(shifted_streams([0, 0, 0, 1], train_prior=0.25, n_rows=10, random_state=0))
    >>> len(streams), [round(stream.prior, 3) for stream in streams[::5]]
    (25, [0.571, 0.4, 0.25, 0.143, 0.077])
    """
    by_class = _rows_by_class(labels)
    if n_draws < 1 or n_rows < 1 or random_state < 0:
        raise InvalidInputError(
            "n_draws and n_rows must be positive and random_state not negative, "
            f"got {n_draws}, {n_rows} and {random_state}"
        )
    for factor in factors:
        if not (factor > 0.0 and math.isfinite(factor)):
            raise InvalidInputError(f"every factor must be positive and finite, got {factor!r}")
    negative, positive = as_prior(train_prior, n_classes=2)

    def stream(factor: float, draw: int) -> ShiftedStream:
        prior = 1.0 / (1.0 + float(negative / positive) * factor)
        rng = np.random.default_rng([random_state, int(np.float64(factor).view(np.uint64)), draw])
        return ShiftedStream(float(factor), draw, _draw(by_class, np.full(n_rows, prior), rng), prior)

    return (stream(factor, draw) for factor in tuple(factors) for draw in range(n_draws))


def rows_at(labels: npt.ArrayLike, priors: FloatArray, *, random_state: int) -> IntArray:
    """Return which labelled rows (m,) arrive, (n,): row t is positive with probability priors[t], drawn with repeats.

    >>> rows_at([0, 1], np.array([1e-9, 1.0 - 1e-9]), random_state=0)
    array([0, 1])
    """
    return _draw(_rows_by_class(labels), priors, np.random.default_rng(random_state))


def thinned_rows(labels: npt.ArrayLike, *, target_ratio: float, random_state: int) -> IntArray:
    """Return the rows left, in order, when one class is thinned until negatives : positives is `target_ratio`.

    The paper's protocol, without replacement: a higher ratio thins the positives, a lower one the negatives,
    an equal one nothing.

    >>> labels = np.array([0, 0, 0, 0, 1, 1])
    >>> [np.bincount(labels[thinned_rows(labels, target_ratio=q, random_state=0)]).tolist() for q in (1, 2, 4)]
    [[2, 2], [4, 2], [4, 1]]
    """
    by_class = _rows_by_class(labels)
    if not (target_ratio > 0.0 and math.isfinite(target_ratio)):
        raise InvalidInputError(f"target_ratio must be positive and finite, got {target_ratio!r}")
    n_negative, n_positive = map(len, by_class)
    thinned = int(target_ratio > n_negative / n_positive)
    wanted = n_negative / target_ratio if thinned else n_positive * target_ratio
    left = min(round(wanted), len(by_class[thinned]))
    if left < 1:
        raise InvalidInputError(
            f"target_ratio must leave a row of each class, got {target_ratio!r} "
            f"for {n_negative} negatives and {n_positive} positives"
        )
    kept = np.random.default_rng(random_state).choice(by_class[thinned], size=left, replace=False)
    return np.sort(np.concatenate([by_class[1 - thinned], kept]))


def _rows_by_class(labels: npt.ArrayLike) -> list[IntArray]:
    numbers = as_labels(labels, n_classes=2)
    by_class = [np.flatnonzero(numbers == k).astype(np.int64) for k in range(2)]
    if not all(rows.size for rows in by_class):
        raise InvalidInputError(f"each class needs a row to draw from, got {by_class[0].size} and {by_class[1].size}")
    return by_class


def _draw(by_class: list[IntArray], priors: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return the row that arrives at each prior of class 1, (n,)."""
    positive = rng.random(len(priors)) < priors
    rows = np.empty(len(priors), dtype=np.int64)
    for k, members in enumerate(by_class):
        chosen = positive == bool(k)
        rows[chosen] = rng.choice(members, size=int(chosen.sum()), replace=True)
    return rows
