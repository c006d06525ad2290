"""Models and streams for the tests of this folder."""

import numpy as np

from obil.datasets.gaussian_stream import GaussianClasses, Stream
from obil.estimators.ratio_classifier import RatioClassifier
from obil.serving.ratio_model import RatioModel

SEPARATION = 2.0
TRIANGLE = GaussianClasses(np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5]]), np.eye(2))


def pair_stream(n: int, prior: float, seed: int) -> Stream:
    return GaussianClasses.pair(SEPARATION).draw(np.full(n, prior), random_state=seed)


def pair_model(n: int = 2_000, *, names: tuple[object, object] = ("fine", "fraud"), seed: int = 0) -> RatioModel:
    """Return a model of scores: a row is the exact log ratio, on a scale of its own."""
    stream = pair_stream(n, 0.2, seed)
    scores = 2.0 * stream.log_ratios[:, 1] + 1.0
    return RatioClassifier.from_scores(scores, np.array(names)[stream.labels], kind="margin").model_


def pair_scores(n: int, prior: float, seed: int) -> np.ndarray:
    return 2.0 * pair_stream(n, prior, seed).log_ratios[:, 1] + 1.0


def triangle_model(n: int = 2_000, *, names: tuple[str, str, str] = ("a", "b", "c"), seed: int = 0) -> RatioModel:
    stream = TRIANGLE.draw(np.tile([0.6, 0.3, 0.1], (n, 1)), random_state=seed)
    return RatioClassifier.from_scores(stream.log_ratios, np.array(names)[stream.labels], kind="margin").model_


def triangle_scores(n: int, prior: list[float], seed: int) -> np.ndarray:
    return TRIANGLE.draw(np.tile(prior, (n, 1)), random_state=seed).log_ratios
