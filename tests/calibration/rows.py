"""Held-out rows of normal classes, whose exact log ratios are known, with faults planted on request."""

import numpy as np

from obil.datasets.gaussian_stream import GaussianClasses
from obil.serving.holdout import Holdout

TRIANGLE = GaussianClasses(np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]), np.eye(2))


def held_out(
    n: int, prior: float, seed: int, *, bias: float = 0.0, slope: float = 1.0, separation: float = 2.5
) -> Holdout:
    """Return rows whose log ratios are `slope * exact + bias`."""
    stream = GaussianClasses.pair(separation).draw(np.full(n, prior), random_state=seed)
    return Holdout.of(stream.log_ratios * slope + np.array([0.0, bias]), stream.labels)


def with_counts(negatives: int, positives: int, seed: int, *, bias: float = 0.0, separation: float = 2.5) -> Holdout:
    """Return rows with exactly so many of each class."""
    labels = np.repeat([0, 1], [negatives, positives])
    features = np.random.default_rng(seed).standard_normal(len(labels)) + separation * labels
    log_ratios = GaussianClasses.pair(separation).log_ratios(features[:, None])
    return Holdout.of(log_ratios + np.array([0.0, bias]), labels)


def three_classes(n: int, seed: int, *, bias: float = 0.0) -> Holdout:
    """Return rows of three classes with priors .6, .3, .1; the bias is on class 2."""
    stream = TRIANGLE.draw(np.tile([0.6, 0.3, 0.1], (n, 1)), random_state=seed)
    return Holdout.of(stream.log_ratios + np.array([0.0, 0.0, bias]), stream.labels)
