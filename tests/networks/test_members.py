"""A network starts at its problem's class prior, whatever the loss and the form of its outputs, and then learns."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from obil.datasets.gaussian_stream import GaussianClasses
from obil.estimators.recipes import PAPER
from obil.networks.settings import NetworkKind, Training

torch = pytest.importorskip("torch", reason="needs the torch extra")

from obil.networks.inputs import fit_feature_map
from obil.networks.losses import LOSSES, CategoricalLoss, cost_weighted, named_loss, squared_error
from obil.networks.members import as_loss, fit_network, starting_outputs
from obil.networks.training import loss_of
from obil.resampling.associated import associated_problem


@pytest.mark.parametrize("name", [*LOSSES, "cost weight 4"])
@pytest.mark.parametrize("counts", [(90, 10), (70, 20, 10)])
def test_no_other_constant_output_has_a_lower_loss(name: str, counts: tuple[int, ...]) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    if name == "cost weight 4" and len(counts) > 2:
        pytest.skip("a cost weight is for two classes")
    loss = cost_weighted(squared_error(), 4.0) if name == "cost weight 4" else as_loss(name, len(counts))
    problem = associated_problem(labels, ratio=counts[0] / counts[-1], n_classes=len(counts))
    outputs = starting_outputs(loss, problem)
    assert outputs.shape == (1 if len(counts) == 2 and not isinstance(loss, CategoricalLoss) else len(counts),)

    def mean_loss(constant: np.ndarray) -> float:
        rows = torch.from_numpy(np.tile(constant, (len(labels), 1)))
        return float(loss_of(loss, rows, torch.from_numpy(labels)).mean())

    lowest = mean_loss(outputs)
    for j in range(len(outputs)):
        for step in (-0.05, 0.05):
            assert mean_loss(outputs + step * np.eye(len(outputs))[j]) > lowest


def test_a_network_gives_the_log_ratio_0_before_it_has_learned_anything() -> None:
    """With a learning rate of next to nothing; and around 0, where outputs start otherwise, it gives log 9."""
    stream = GaussianClasses.pair(2.0).draw(np.full(400, 0.1), random_state=0)
    problem = associated_problem(stream.labels, ratio=9.0, n_classes=2, random_state=0)
    features = fit_feature_map(stream.features, inputs="standard")
    first = {}
    for start_at_prior in (True, False):
        kind = NetworkKind(
            dropout=0.0, inputs="standard",
            training=Training(epochs=1, learning_rate=1e-12, start_at_prior=start_at_prior),
        )  # fmt: skip
        fitted = fit_network(
            kind, stream.features, stream.labels, problem, features=features, loss=named_loss("squared_error"),
            n_classes=2, device="cpu", seed=0,
        )  # fmt: skip
        first[start_at_prior] = fitted.scorer.scores(stream.features)[:, 1]
    assert np.abs(first[True]).max() < 1e-4
    assert abs(first[False].mean() - np.log(9.0)) < 0.5


def test_the_papers_network_does_not_die_at_a_high_imbalance() -> None:
    """42 negatives per positive and squared error: from an output around 0 every row ends on the negative side."""
    stream = GaussianClasses.spread(2.5, n_features=6).draw(np.full(4_000, 1.0 / 43.0), random_state=0)
    problem = associated_problem(stream.labels, ratio=(1.0 / stream.labels.mean()) - 1.0, n_classes=2, random_state=0)
    features = fit_feature_map(stream.features, inputs="standard")
    kind = replace(PAPER, training=replace(PAPER.training, epochs=20, refit=False))
    for seed in range(3):
        fitted = fit_network(
            kind, stream.features, stream.labels, problem, features=features, loss=named_loss("squared_error"),
            n_classes=2, device="cpu", seed=seed,
        )  # fmt: skip
        assert roc_auc_score(stream.labels, fitted.scorer.scores(stream.features)[:, 1]) > 0.9
