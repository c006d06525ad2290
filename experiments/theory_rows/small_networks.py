"""Small networks, for the rows that need torch: their ratios, their best fit, and the work to be timed."""

from collections.abc import Callable

import numpy as np
import torch

from obil.arrays import FloatArray, IntArray
from obil.networks.losses import BinaryLoss, named_loss
from obil.networks.mlp import MLP
from obil.networks.settings import Training
from obil.networks.training import TrainingRows, reproducible, train
from obil.resampling.associated import AssociatedProblem

ONE_EPOCH = Training(epochs=1, least_steps=0, most_epochs=1)
INFERENCE_ROWS = 512


def fitted_log_ratios(
    loss_name: str, features: FloatArray, labels: IntArray, problem: AssociatedProblem, fresh: FloatArray, seed: int
) -> FloatArray:
    """Train a network on a problem and divide its training prior out of the log odds of fresh rows, (n,)."""
    loss = named_loss(loss_name)
    if not isinstance(loss, BinaryLoss):
        raise TypeError(f"a loss of two classes is wanted, got {loss_name}")
    inputs = torch.from_numpy(features.astype(np.float32))
    with reproducible(seed):
        network = MLP(features.shape[1], hidden=(16, 16), dropout=0.0)
        data = TrainingRows.of(inputs, labels, problem.rows, problem.weights, "cpu")
        train(network, data, loss=loss, settings=Training(epochs=15), rng=np.random.default_rng(seed))
        with torch.inference_mode():
            log_odds = loss.log_odds(network(torch.from_numpy(fresh.astype(np.float32)))[:, 0].double()).numpy()
    ratios: FloatArray = log_odds - np.log(problem.training_prior[1] / problem.training_prior[0])
    return ratios


def largest_error(x: FloatArray, posterior: FloatArray, *, width: int, n_steps: int, n_restarts: int) -> float:
    """Return the largest error of the best of a few networks trained on a posterior itself, without noise."""
    inputs = torch.from_numpy((x / np.abs(x).max()).astype(np.float32))[:, None]
    targets = torch.from_numpy(posterior.astype(np.float32))
    found = []
    for seed in range(n_restarts):
        with reproducible(seed):
            network = MLP(1, hidden=(width,), dropout=0.0)
            first = next(layer for layer in network.layers if isinstance(layer, torch.nn.Linear))
            torch.nn.init.uniform_(first.bias, -1.0, 1.0)  # kinks all over the range, and not only at 0
            optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
            rates = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
            for _ in range(n_steps):
                optimizer.zero_grad()
                loss = torch.nn.functional.binary_cross_entropy_with_logits(network(inputs)[:, 0], targets)
                loss.backward()
                optimizer.step()
                rates.step()
            with torch.inference_mode():
                found.append(float((torch.sigmoid(network(inputs)[:, 0]) - targets).abs().max()))
    return min(found)


def training_work(*, n_rows: int, width: int, n_members: int) -> Callable[[], None]:
    """Return one epoch of a few networks with two hidden layers of `width` units, to be timed."""
    inputs = torch.from_numpy(np.random.default_rng(0).standard_normal((n_rows, 16), dtype=np.float32))
    labels = (np.arange(n_rows) % 2).astype(np.int64)
    data = TrainingRows.of(inputs, labels, np.arange(n_rows), np.ones(n_rows), "cpu")
    loss = named_loss("squared_error")

    def work() -> None:
        with reproducible(0):
            for _ in range(n_members):
                network = MLP(16, hidden=(width, width), dropout=0.0)
                train(network, data, loss=loss, settings=ONE_EPOCH, rng=np.random.default_rng(0))

    return work


def inference_work(*, n_inputs: int, width: int, n_members: int) -> Callable[[], None]:
    """Return the scoring of a batch by frozen networks, which run without torch, to be timed."""
    networks = [MLP(n_inputs, hidden=(width, width), dropout=0.0).frozen() for _ in range(n_members)]
    rows = np.random.default_rng(0).standard_normal((INFERENCE_ROWS, n_inputs)).astype(np.float32)

    def work() -> None:
        for network in networks:
            network.outputs(rows)

    return work
