"""Held-out rows and streams of normal classes, under label shift and not."""

import numpy as np

from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.datasets.prior_paths import bounded_walk, constant, jump_and_decay, sine, square
from obil.serving.holdout import Holdout

PAIR = GaussianClasses.pair(separation=2.0)
THREE = GaussianClasses(np.array([[0.0, 0.0], [2.5, 0.0], [1.25, 2.2]]), np.eye(2))
THREE_PRIOR = (0.85, 0.1, 0.05)


def six_paths(n_rows: int) -> dict[str, FloatArray]:
    """Return the prior paths of the trackers' scenarios, (n,) of P1 each."""
    return {
        "constant .01": constant(n_rows, 0.01),
        "constant .1": constant(n_rows, 0.1),
        "jump": jump_and_decay(n_rows, base=0.03, height=0.09, at=500, decay=1000.0),
        "drift": bounded_walk(
            n_rows, start=0.1, step_size=0.002, flip_probability=0.005, low=0.02, high=0.5, random_state=5
        ),
        "sine": sine(n_rows, middle=0.1, amplitude=0.09, period=2000),
        "square": square(n_rows, 0.02, 0.2, half_period=1000),
    }


def held_out(rng: np.random.Generator, counts: tuple[int, ...] = (2000, 200)) -> Holdout:
    """Return held-out rows of two classes, or of three where three counts are given."""
    classes = PAIR if len(counts) == 2 else THREE
    labels = np.repeat(np.arange(len(counts)), counts)
    features = classes.means[labels] + rng.standard_normal((len(labels), classes.means.shape[1]))
    return Holdout.of(classes.log_ratios(features), labels)


def stream(
    rng: np.random.Generator, prior: FloatArray, *, shift: float | FloatArray = 0.0, noise: float = 0.0
) -> FloatArray:
    """Return log ratios of rows at these priors, with the features of all classes shifted or noisier."""
    classes = PAIR if prior.ndim == 1 else THREE
    drawn = classes.draw(prior, random_state=rng)
    return classes.log_ratios(drawn.features + shift + noise * rng.standard_normal(drawn.features.shape))


def three_path(rng: np.random.Generator, n_rows: int) -> FloatArray:
    """Return a prior of three classes that jumps every 500 rows, (n, 3)."""
    levels = rng.dirichlet(20.0 * np.array(THREE_PRIOR), size=n_rows // 500 + 1)
    return np.asarray(levels.repeat(500, axis=0)[:n_rows])
