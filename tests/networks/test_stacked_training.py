"""Networks trained together are what each would be alone: outputs, steps of AdamW, early stopping, ratios."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from obil.datasets.gaussian_stream import GaussianClasses
from obil.errors import EstimationError
from obil.networks.settings import PAPER_TRAINING, NetworkKind, Training

torch = pytest.importorskip("torch", reason="needs the torch extra")

from obil.networks.inputs import fit_feature_map
from obil.networks.losses import LOSSES, bregman_loss, named_loss
from obil.networks.members import fit_network, fit_networks_together
from obil.networks.mlp import MLP
from obil.networks.stacked_mlp import StackedMLP
from obil.networks.stacked_training import train_stacked
from obil.networks.training import TrainingRows, reproducible, train
from obil.resampling.associated import associated_problem

ROOT = Path(__file__).parents[2]
BARE = replace(PAPER_TRAINING, epoch_steps=1, refit=False)  # an epoch is one pass


def networks(n: int, *, seed: int = 0, **shape: Any) -> list[MLP]:
    with reproducible(seed):
        return [MLP(2, **({"hidden": (8, 4), "dropout": 0.0} | shape)) for _ in range(n)]


def vectors(some: list[MLP]) -> np.ndarray:
    return np.stack([torch.nn.utils.parameters_to_vector(one.parameters()).detach().numpy() for one in some])


def rows_of(features: np.ndarray, labels: np.ndarray, rows: np.ndarray | None = None) -> TrainingRows:
    picked = np.arange(len(labels)) if rows is None else rows
    return TrainingRows.of(torch.from_numpy(features.astype(np.float32)), labels, picked, np.ones(len(picked)), "cpu")


@pytest.mark.parametrize("shape", [{}, {"skip": True}, {"hidden": ()}, {"n_outputs": 3, "skip": True}])
def test_stacked_outputs_are_those_of_each_network(shape: dict[str, Any]) -> None:
    some = networks(3, **shape)
    for network in some:
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter)  # a skip connection starts at 0, which would hide it
    inputs = torch.randn(3, 11, 2)
    stacked = StackedMLP(some)
    alone = torch.stack([network(own) for network, own in zip(some, inputs, strict=True)])
    torch.testing.assert_close(stacked.outputs(stacked.parameters, inputs), alone)


@pytest.mark.parametrize("settings", [BARE, Training(warmup=5, least_steps=0, most_epochs=60)])
def test_a_step_is_one_of_adamw_with_the_schedule_of_each_network(settings: Training) -> None:
    """A problem of a single row leaves nothing to draw: training alone gives the same weights, but for rounding."""
    features, labels = np.array([[0.5, -1.0], [1.5, 2.0]]), np.array([0, 1])
    settings = replace(settings, epochs=60, patience=0, batch_size=1)
    together, alone = networks(2, skip=True), networks(2, skip=True)
    data = [rows_of(features, labels, np.array([j])) for j in range(2)]
    loss = named_loss("cross_entropy")
    train_stacked(together, data, loss=loss, settings=settings, rng=np.random.default_rng(0))
    for network, own in zip(alone, data, strict=True):
        train(network, own, loss=loss, settings=settings, rng=np.random.default_rng(0))
    np.testing.assert_allclose(vectors(together), vectors(alone), atol=2e-5)
    assert np.abs(vectors(together) - vectors(networks(2, skip=True))).max() > 0.01


def test_each_network_has_its_own_number_of_steps_and_then_stands_still() -> None:
    """The first has one row and the second 40: in ten epochs 10 steps and 400, and each is where it is alone."""
    features = np.tile([[0.5, -1.0]], (40, 1))  # all alike, so that nothing depends on which are drawn
    settings = replace(BARE, epochs=10, patience=0, batch_size=1)
    data = [rows_of(features, np.ones(40, dtype=np.int64), np.arange(n)) for n in (1, 40)]
    together, alone = networks(2), networks(2)
    loss = named_loss("squared_error")
    assert train_stacked(together, data, loss=loss, settings=settings, rng=np.random.default_rng(0)) == [10, 10]
    for network, own in zip(alone, data, strict=True):
        train(network, own, loss=loss, settings=settings, rng=np.random.default_rng(0))
    np.testing.assert_allclose(vectors(together), vectors(alone), atol=2e-5)


def test_each_network_stops_when_its_own_held_out_loss_has_stopped_falling() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400, 2))
    signal, noise = (features[:, 0] > 0.0).astype(np.int64), rng.integers(0, 2, 400)
    labels = np.where(np.arange(400) < 200, signal, noise)
    data = [rows_of(features, labels, np.arange(200)), rows_of(features, labels, np.arange(200, 400))]
    settings = replace(BARE, epochs=60, patience=5, batch_size=32, learning_rate=1e-3)
    with reproducible(0):
        some = networks(2, hidden=(32, 32))
        epochs = train_stacked(some, data, loss=named_loss("logistic"), settings=settings, rng=rng)
    assert epochs[0] > 40  # 53 and 8 when this was written
    assert epochs[1] < 30
    with torch.inference_mode():
        outputs = [network(data[0].inputs)[:, 0].numpy() for network in some]
    assert ((outputs[0] > 0.0) == signal).mean() > 0.95
    assert np.abs(outputs[1]).mean() < 0.5 * np.abs(outputs[0]).mean()
    assert not any(network.training for network in some)


@pytest.mark.parametrize("loss", [*sorted(set(LOSSES) - {"categorical_cross_entropy", "brier"}), "generator"])
def test_together_and_alone_find_the_same_ratios(loss: str) -> None:
    """Two problems of normal classes: the log ratios of both trainings are near each other and near the truth."""
    classes = GaussianClasses.pair(2.0)
    stream = classes.draw(np.full(4_000, 0.2), random_state=0)
    chosen = bregman_loss(lambda o: o**2 / 2.0) if loss == "generator" else named_loss(loss)
    problems = [associated_problem(stream.labels, ratio=r, n_classes=2, random_state=0) for r in (1.0, 4.0)]
    training = Training(epochs=20, learning_rate=0.01, start_at_prior=True)
    kind = NetworkKind(hidden=(16,), dropout=0.0, inputs="standard", training=training)
    features = fit_feature_map(stream.features, inputs="standard")
    shared = {"features": features, "loss": chosen, "n_classes": 2, "device": "cpu"}
    together = fit_networks_together(kind, stream.features, stream.labels, problems, seeds=[1, 2], **shared)
    grid = np.linspace(-1.0, 3.0, 21)[:, None]
    for seed, (problem, fitted) in enumerate(zip(problems, together, strict=True), start=1):
        alone = fit_network(kind, stream.features, stream.labels, problem, seed=seed, **shared)
        own, other = (one.scorer.scores(grid)[:, 1] for one in (fitted, alone))
        assert np.abs(own - other).mean() < 0.4
        assert np.abs(own - classes.log_ratios(grid)[:, 1]).mean() < 0.5


def test_the_same_seed_gives_the_same_bits() -> None:
    stream = GaussianClasses.pair(2.0).draw(np.full(300, 0.3), random_state=0)
    features = np.column_stack([stream.features, stream.features**2])
    found = []
    for _ in range(2):
        some = networks(2, dropout=0.3)
        with reproducible(3):
            train_stacked(
                some, [rows_of(features, stream.labels)] * 2, loss=named_loss("logistic"),
                settings=replace(BARE, epochs=3, refit=True), rng=np.random.default_rng(0),
            )  # fmt: skip
        found.append(vectors(some))
    assert np.array_equal(*found)
    assert not np.array_equal(found[0][0], found[0][1])


def test_a_training_that_diverges_says_so() -> None:
    data = [rows_of(np.full((40, 2), 1e18), np.arange(40) % 2)]
    settings = replace(BARE, epochs=5, learning_rate=1e25)
    with pytest.raises(EstimationError, match=r"diverged.*learning rate"):
        train_stacked(networks(1), data, loss=named_loss("logistic"), settings=settings, rng=np.random.default_rng(0))


def test_the_benchmark_runs_with_torch_and_numpy_alone() -> None:
    """Everything else that is installed is hidden: the same command runs on a machine that has only these."""
    hide = (
        "import runpy, sys\n"
        "names = ('scipy', 'sklearn', 'numba', 'pandas', 'narwhals', 'lazy_loader', 'safetensors', 'skops', 'typer', "
        "'rich', 'matplotlib', 'joblib', 'threadpoolctl', 'onnxruntime', 'onnxscript')\n"
        "sys.modules.update(dict.fromkeys(names))\n"
        "sys.argv = ['gpu_training.py', '--quick']\n"
        "runpy.run_path('benchmarks/gpu_training.py', run_name='__main__')\n"
    )
    environment = {**os.environ, "PYTHONPATH": "src"}
    command = [sys.executable, "-c", hide]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "seconds per epoch" in done.stdout
    assert "AUPRC" in done.stdout
