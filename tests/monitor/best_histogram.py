"""Find the worst histogram of a set by the textbook formula: an oracle for the hull's dual."""

import numpy as np

from obil.arrays import FloatArray


def divergence(left: FloatArray, right: FloatArray) -> float:
    """Return KL(left || right)."""
    held = left > 0.0
    return float((left[held] * np.log(left[held] / right[held])).sum())


def corner(centre: FloatArray, radius: float, payoff: FloatArray) -> FloatArray:
    """Return the histogram of one set with the largest mean payoff: f_b ~ f^_b / (v - c_b), by plain bisection."""
    held, best = centre > 0.0, int(payoff.argmax())

    def shaped(above: float) -> FloatArray:
        shape = np.zeros_like(centre)
        shape[held] = centre[held] / (above + payoff[best] - payoff[held])
        return shape

    if not held[best]:
        shape = shaped(0.0)
        if divergence(centre, shape / shape.sum()) < radius:  # the empty bin takes all that the set allows
            shape *= np.exp(divergence(centre, shape) - radius)
            shape[best] = 1.0 - shape.sum()
            return shape
    low, high = np.log(np.ptp(payoff)) - 25.0, np.log(np.ptp(payoff)) + 25.0
    for _ in range(100):
        middle = (low + high) / 2.0
        shape = shaped(np.exp(middle))
        low, high = (middle, high) if divergence(centre, shape / shape.sum()) > radius else (low, middle)
    shape = shaped(np.exp(high))
    return np.asarray(shape / shape.sum())
