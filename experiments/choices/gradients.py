"""Train one network on rows as imbalanced as they come, from a usual and a hopeless start, and record its learning."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from experiments.choices.measures import FRESH_SEED, Measures, draw_fresh, draw_training, prior_at
from obil.arrays import FloatArray
from obil.calibration.diagnose import calibration_figures
from obil.datasets.gaussian_stream import GaussianClasses
from obil.networks.losses import BinaryLoss, named_loss
from obil.networks.mlp import MLP
from obil.networks.training import loss_of, reproducible
from obil.serving.holdout import Holdout

SATURATED = -6.0  # z of every row: a posterior of sigmoid(-12), 6 in a million
WORST = -1.0  # as much lost as there was to gain; what is worse, or not finite any more, counts as that
PAPER_HIDDEN = (128, 64, 32)
BATCH = 128
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
    "plain SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
}


def run(cell: dict[str, Any], settings: dict[str, Any]) -> dict[str, Measures]:
    """Return the slopes of every loss, or how one network learned."""
    if cell["question"] == "slopes":
        return {loss: _slopes(named_loss(loss)) for loss in settings["slope_losses"]}
    return {cell["loss"]: _learned(cell, settings)}


def _slopes(loss: Any) -> Measures:
    """Return -dC/dz of a positive row whose output is z: how hard the loss pulls it up."""
    z = torch.tensor([0.0, -2.0, -4.0, -6.0], dtype=torch.float64, requires_grad=True)
    (slopes,) = torch.autograd.grad(loss.of_logit(z, torch.ones_like(z)).sum(), z)
    return {f"z={at:g}": -float(slope) for at, slope in zip(z.tolist(), slopes, strict=True)}


def _learned(cell: dict[str, Any], settings: dict[str, Any]) -> Measures:
    """Train for some epochs; return how much of what there is to learn was learned, and how soon."""
    seed, ratio = cell["seed"], cell["ratio"]
    classes = GaussianClasses.spread(settings["separation"], n_features=settings["features"])
    rows, fresh = draw_training(classes, settings["n_rows"], ratio, seed), draw_fresh(classes, 10_000, seed)
    prior = prior_at(ratio)
    exact = _log_loss(fresh.log_ratios, fresh.labels, prior)
    nothing = _log_loss(np.zeros_like(fresh.log_ratios), fresh.labels, prior)
    loss = named_loss(cell["loss"])
    assert isinstance(loss, BinaryLoss)
    inputs, labels = torch.from_numpy(rows.features).float(), torch.from_numpy(rows.labels)
    unseen = torch.from_numpy(fresh.features).float()
    rng = np.random.default_rng([FRESH_SEED, seed])
    epochs = settings["gradient_epochs"]
    fractions, norms, z, diverged = [], [], unseen[:, 0], False
    with reproducible(seed):
        network = MLP(inputs.shape[1], hidden=PAPER_HIDDEN, dropout=0.2)
        _start(network, cell["start"], prior)
        optimizer = OPTIMIZERS[cell["optimizer"]](network.parameters())
        for _ in range(epochs):
            network.train()
            for places in torch.from_numpy(rng.permutation(len(inputs))).split(BATCH):
                optimizer.zero_grad()
                loss_of(loss, network(inputs[places]), labels[places]).mean().backward()
                norms.append(_norm(network))
                optimizer.step()
            z = _outputs(network, unseen)
            log_odds = loss.log_odds(z).double().numpy()
            ratios = np.stack([np.zeros_like(log_odds), log_odds - np.log(prior[1] / prior[0])], axis=1)
            diverged = not np.isfinite(ratios).all()
            if diverged:
                break
            fractions.append(max(WORST, (nothing - _log_loss(ratios, fresh.labels, prior)) / (nothing - exact)))
    enough = np.flatnonzero(np.array(fractions) >= settings["enough"])
    return {
        "learned": WORST if diverged else fractions[-1],
        "epochs": float(enough[0] + 1) if len(enough) else float(epochs),  # those that never got there count as late
        "reached": float(len(enough) > 0),
        "one_side": float(bool((z < 0).all() or (z > 0).all()) and not diverged),
        "diverged": float(diverged),
        "first_gradient": norms[0],
    }


def _start(network: MLP, where: str, prior: FloatArray) -> None:
    """Move the start of the output layer: every output near z = -6, or at the prior."""
    output = network.layers[-1]
    assert isinstance(output, torch.nn.Linear)
    if where == "saturated":
        torch.nn.init.constant_(output.bias, SATURATED)
    elif where == "at the prior":
        torch.nn.init.zeros_(output.weight)
        torch.nn.init.constant_(output.bias, float(np.log(prior[1] / prior[0])) / 2.0)


def _outputs(network: MLP, rows: Tensor) -> Tensor:
    network.eval()
    with torch.no_grad():
        outputs: Tensor = network(rows)[:, 0]
    return outputs


def _norm(network: MLP) -> float:
    return float(torch.stack([p.grad.norm() for p in network.parameters() if p.grad is not None]).norm())


def _log_loss(log_ratios: FloatArray, labels: Any, prior: FloatArray) -> float:
    return calibration_figures(Holdout.of(log_ratios, labels), prior).log_loss
