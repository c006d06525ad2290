"""Draw how the positive prior moves: one array (n,) of P1 per path."""

import numpy as np

from obil.arrays import FloatArray, require_in
from obil.errors import InvalidInputError


def constant(n_rows: int, level: float) -> FloatArray:
    """Return a prior that never moves.

    >>> constant(3, 0.1)
    array([0.1, 0.1, 0.1])
    """
    return np.full(n_rows, _probability("level", level))


def step(n_rows: int, before: float, after: float, *, at: int) -> FloatArray:
    """Return a prior that changes once, at row `at`.

    >>> step(4, 0.1, 0.3, at=2)
    array([0.1, 0.1, 0.3, 0.3])
    """
    return np.where(np.arange(n_rows) < at, _probability("before", before), _probability("after", after))


def ramp(n_rows: int, first: float, last: float) -> FloatArray:
    """Return a prior that moves evenly from `first` to `last`.

    >>> ramp(3, 0.1, 0.3)
    array([0.1, 0.2, 0.3])
    """
    return np.linspace(_probability("first", first), _probability("last", last), n_rows)


def sine(n_rows: int, *, middle: float, amplitude: float, period: float) -> FloatArray:
    """Return a prior that swings by `amplitude` around `middle` every `period` rows.

    >>> sine(3, middle=0.3, amplitude=0.1, period=4).round(6)
    array([0.3, 0.4, 0.3])
    """
    _probability("middle - amplitude", middle - abs(amplitude))
    _probability("middle + amplitude", middle + abs(amplitude))
    _positive("period", period)
    return np.asarray(middle + amplitude * np.sin(2.0 * np.pi * np.arange(n_rows) / period))


def square(n_rows: int, low: float, high: float, *, half_period: int) -> FloatArray:
    """Return a prior that is `low` and `high` by turns, `half_period` rows each.

    >>> square(4, 0.1, 0.3, half_period=1)
    array([0.1, 0.3, 0.1, 0.3])
    """
    turn = np.arange(n_rows) // _positive("half_period", half_period) % 2
    return np.where(turn == 0, _probability("low", low), _probability("high", high))


def jump_and_decay(n_rows: int, *, base: float, height: float, at: int, decay: float) -> FloatArray:
    """Return `base` until row `at`, then an outbreak of `height` on top that decays over `decay` rows.

    >>> jump_and_decay(3, base=0.1, height=0.2, at=1, decay=1000.0).round(3)
    array([0.1, 0.3, 0.3])
    """
    _probability("base", base)
    _probability("base + height", base + height)
    since = np.arange(n_rows) - at
    return np.where(since < 0, base, base + height * np.exp(-np.maximum(since, 0) / _positive("decay", decay)))


def bounded_walk(
    n_rows: int,
    *,
    start: float,
    step_size: float,
    flip_probability: float,
    low: float,
    high: float,
    random_state: int | np.random.Generator,
) -> FloatArray:
    """Return a prior that moves `step_size` every row and turns round at random and at `low` and `high`.

    >>> bounded_walk(4, start=0.1, step_size=0.1, flip_probability=0.0, low=0.05, high=0.3, random_state=0)
    array([0.1, 0.2, 0.3, 0.2])
    """
    _probability("low", low)
    _probability("high", high)
    require_in("flip_probability", flip_probability, 0.0, 1.0)
    require_in("step_size", step_size, 0.0, 1.0)
    flips = np.random.default_rng(random_state).random(n_rows) < flip_probability
    path = np.empty(n_rows)
    level, direction = require_in("start", start, low, high), 1.0
    for t in range(n_rows):
        path[t] = level
        if flips[t]:
            direction = -direction
        level += direction * step_size
        if level <= low or level >= high:
            level, direction = (low, 1.0) if level <= low else (high, -1.0)
    return path


def two_regimes(
    n_rows: int, low: float, high: float, *, switch_probability: float, random_state: int | np.random.Generator
) -> FloatArray:
    """Return a prior that is `low` or `high` and changes to the other with a fixed probability per row.

    >>> two_regimes(3, 0.1, 0.3, switch_probability=1.0, random_state=0)
    array([0.1, 0.3, 0.1])
    """
    require_in("switch_probability", switch_probability, 0.0, 1.0)
    switches = np.random.default_rng(random_state).random(n_rows) < switch_probability
    turn = np.concatenate([[0], np.cumsum(switches)[:-1]]) % 2 if n_rows else np.zeros(0)
    return np.where(turn == 0, _probability("low", low), _probability("high", high))


def _positive(name: str, value: float) -> float:
    if not value > 0.0:
        raise InvalidInputError(f"{name} must be positive, got {value!r}")
    return value


def _probability(name: str, value: float) -> float:
    if not 0.0 < value < 1.0:
        raise InvalidInputError(f"{name} must lie strictly between 0 and 1, got {value!r}")
    return float(value)
