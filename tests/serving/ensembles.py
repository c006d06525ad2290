"""Small networks, trees and ensembles of random weights: what serving has to carry, made without training."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.serving.calibrators import LinearCalibrator
from obil.serving.features import FeatureMap
from obil.serving.holdout import Holdout
from obil.serving.networks.dense_network import DenseNetwork, DenseScorer
from obil.serving.ratio_model import RatioModel
from obil.serving.scorers import PROBABILITY
from obil.serving.tree_kernels import NUMERIC
from obil.serving.trees import TreeScorer, pack_nodes

WIDTH = 4  # features of a row: two numbers, a category with three levels, a number with missing values
N_INPUTS = 8  # the first number has two curves


def feature_map(*, straight: bool = False) -> FeatureMap:
    """Return a map of WIDTH columns to N_INPUTS inputs."""
    return FeatureMap.of_columns(
        [
            [
                (np.array([-2.0, 0.0, 1.0, 3.0]), np.array([-1.5, -0.2, 0.4, 1.6])),
                (np.array([0.0, 1.0]), np.array([0.0, 1.0])),
            ],
            [(np.array([-1.0, 1.0]), np.array([-1.0, 1.0]))],
            np.array([0.0, 1.0, 2.0]),
            [(np.array([-3.0, 0.5, 3.0]), np.array([-1.0, 0.1, 2.0]))],
        ],
        straight=straight,
        missing=(3,),
    )


def standard_map() -> FeatureMap:
    """Return a map of WIDTH columns whose numbers continue straight, as standardised ones do."""
    line = [(np.array([0.5, 2.5]), np.array([0.0, 1.0]))]
    return FeatureMap.of_columns([line, line, np.array([0.0, 1.0, 2.0]), line], straight=True, missing=(3,))


def rows(n: int, seed: int = 0) -> FloatArray:
    """Return rows that a `feature_map` takes, with missing values and a code that no level has."""
    rng = np.random.default_rng(seed)
    drawn = rng.normal(0.0, 2.0, (n, WIDTH))
    drawn[:, 2] = rng.integers(0, 4, n)
    drawn[rng.random(n) < 0.3, 3] = np.nan
    return drawn


def network(widths: Sequence[int], seed: int = 0) -> DenseNetwork:
    """Return a network with weights that keep the size of what goes through it."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(0.0, (1.0 / before) ** 0.5, (before, after)) for before, after in pairwise(widths)]
    return DenseNetwork(
        tuple(one.astype(np.float32) for one in weights),
        tuple(rng.normal(0.0, 0.3, width).astype(np.float32) for width in widths[1:]),
    )


def binary(features: FeatureMap, seed: int, *, hidden: Sequence[int] = (6, 5), prior: float = 0.3) -> DenseScorer:
    """Return a binary network on these features."""
    own = network((features.n_inputs, *hidden, 1), seed)
    return DenseScorer(features, own, "tanh", np.array([1.0 - prior, prior]))


def softmax_of_three(features: FeatureMap, seed: int, *, head: str = "softmax") -> DenseScorer:
    """Return a network of three classes on these features."""
    return DenseScorer(features, network((features.n_inputs, 5, 3), seed), head, np.array([0.5, 0.3, 0.2]))


def stump_forest(n_classes: int = 2, seed: int = 0) -> TreeScorer:
    """Return a forest of two trees, one a stump and one three levels deep, on rows of WIDTH features."""
    rng = np.random.default_rng(seed)
    values = rng.random((8, n_classes))
    return TreeScorer(
        nodes=pack_nodes(
            threshold=[0.25, np.inf, np.inf, -0.5, np.inf, 1.0, np.inf, np.inf],
            feature=[0, 0, 0, 1, 0, 3, 0, 0],
            child=[1, 1, 2, 4, 4, 6, 6, 7],
            category_set=[NUMERIC] * 8,
            missing_left=[0, 1, 1, 0, 1, 1, 1, 1],
        ),
        roots=np.array([0, 3], dtype=np.int32),
        outputs=np.zeros(2, dtype=np.int32),
        values=values / values.sum(axis=1, keepdims=True),
        start=np.zeros(n_classes),
        category_sets=np.array([[0b101]], dtype=np.uint8),
        link=PROBABILITY,
        training_prior=np.full(n_classes, 1.0 / n_classes),
        floor=1e-3,
        n_features=WIDTH,
    )


def as_model(scorer: Any, n_classes: int = 2) -> RatioModel:
    """Return the scorer as a model with a plain calibrator and made-up held-out rows."""
    held_out = GaussianClasses.spread(2.0, n_features=1).draw(np.full(20, 0.5), random_state=0)
    ratios = np.tile(held_out.log_ratios[:, 1:], (1, n_classes - 1))
    return RatioModel(
        scorer=scorer,
        calibrator=LinearCalibrator(
            np.linspace(1.0, 0.9, n_classes), np.linspace(0.0, 0.2, n_classes), np.zeros((1, 2, n_classes))
        ),
        classes_=np.arange(n_classes),
        prior_=np.full(n_classes, 1.0 / n_classes),
        holdout_=Holdout.of(np.c_[np.zeros(20), ratios], np.arange(20) % n_classes),
    )


def in_float64(dense: DenseNetwork, inputs: FloatArray) -> FloatArray:
    """The definition of a network, in twice the precision."""
    hidden = inputs.astype(np.float64)
    for layer, (weights, biases) in enumerate(zip(dense.weights, dense.biases, strict=True)):
        hidden = hidden @ weights.astype(np.float64) + biases
        if layer < len(dense.weights) - 1:
            hidden = np.maximum(hidden, 0.0)
    return hidden


def assert_close(ours: FloatArray, exact: FloatArray, tolerance: float = 1e-6) -> None:
    """Equal to `tolerance` relative to max(1, |z|)."""
    assert ours.shape == exact.shape
    assert (abs(ours - exact) / np.maximum(1.0, abs(exact))).max(initial=0.0) < tolerance
