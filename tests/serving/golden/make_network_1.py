"""Write the golden ensembles of format 1: run again only when the format changes before a release."""

import json
from pathlib import Path

import numpy as np

from obil.serving.calibrators import LinearCalibrator
from obil.serving.ensemble import EnsembleScorer, GatingNetwork
from obil.serving.features import FeatureMap
from obil.serving.files import load, save
from obil.serving.holdout import Holdout
from obil.serving.networks.dense_network import DenseNetwork, DenseScorer
from obil.serving.ratio_model import RatioModel
from obil.serving.scorers import LOGIT, PROBABILITY
from obil.serving.tree_kernels import NUMERIC
from obil.serving.trees import TreeScorer, pack_nodes

HERE = Path(__file__).parent
TRAINING_PRIOR = np.array([0.75, 0.25])


def network(rng: np.random.Generator, n_outputs: int) -> DenseNetwork:
    """Return four inputs, four hidden units, with weights of two digits."""
    shapes = [(4, 4), (4, n_outputs)]
    return DenseNetwork(
        tuple(rng.normal(size=shape).round(2).astype(np.float32) for shape in shapes),
        tuple(rng.normal(size=shape[1]).round(2).astype(np.float32) for shape in shapes),
    )


def stump(link: str, values: list[list[float]], start: list[float]) -> TreeScorer:
    """Return one split, on the second column, with missing values to the left."""
    return TreeScorer(
        nodes=pack_nodes(
            threshold=[0.5, np.inf, np.inf],
            feature=[1, 0, 0],
            child=[1, 1, 2],
            category_set=[NUMERIC] * 3,
            missing_left=[1, 1, 1],
        ),
        roots=np.zeros(1, dtype=np.int32),
        outputs=np.zeros(1, dtype=np.int32),
        values=np.array(values),
        start=np.array(start),
        category_sets=np.zeros((0, 1), dtype=np.uint8),
        link=link,
        training_prior=TRAINING_PRIOR,
        floor=0.01,
        n_features=2,
    )


def model(scorer: EnsembleScorer) -> RatioModel:
    """Return the scorer with a calibrator and four held-out rows."""
    calibrator = LinearCalibrator(np.array([1.0, 0.8]), np.array([0.0, -0.25]), np.zeros((1, 2, 2)))
    held_out = Holdout.of([[0.0, -1.0], [0.0, -0.5], [0.0, 1.0], [0.0, 2.0]], [0, 0, 1, 1])
    return RatioModel(scorer, calibrator, np.array(["ill", "well"]), TRAINING_PRIOR, held_out)


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    curve = np.array([-1.0, 0.0, 2.0]), np.array([-1.5, 0.0, 1.0])
    features = FeatureMap.of_columns([[curve], np.array([0.0, 1.0])], straight=False, missing=(0,))
    networks = [DenseScorer(features, network(rng, 1), "tanh", TRAINING_PRIOR) for _ in range(2)]
    forest = stump(PROBABILITY, [[0.5, 0.5], [1.0, 0.0], [0.25, 0.75]], [0.0, 0.0])
    booster = stump(LOGIT, [[0.0], [-0.5], [1.25]], [-1.0])
    mixed = EnsembleScorer((networks[0], forest, networks[1], booster), np.array([0.4, 0.1, 0.3, 0.2]))
    gated = EnsembleScorer(tuple(networks), np.array([0.5, 0.5]), GatingNetwork(features, network(rng, 2)))
    rows = [[-0.5, 0.0], [0.75, 1.0], [None, 1.0], [3.0, 2.0], [-4.0, None]]
    matrix = np.array(rows, dtype=np.float64)
    save(model(mixed), HERE / "network_1")
    save(model(gated), HERE / "network_1_gated")
    expected = {
        "rows": rows,
        "log_ratios": load(HERE / "network_1").log_ratios(matrix)[:, 1].tolist(),
        "gated_log_ratios": load(HERE / "network_1_gated").log_ratios(matrix)[:, 1].tolist(),
    }
    (HERE / "network_1_expected.json").write_text(json.dumps(expected, indent=1) + "\n")
