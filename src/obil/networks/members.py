"""Fit networks on associated problems, one by one or together: arrays or an ONNX graph serve them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import logit
from torch import Tensor, nn

from obil.arrays import FloatArray, IntArray
from obil.errors import InvalidInputError
from obil.networks.losses import BinaryLoss, CategoricalLoss, named_loss
from obil.networks.mc_dropout import dropout_variance, has_dropout
from obil.networks.mlp import MLP
from obil.networks.onnx_export import export_onnx
from obil.networks.settings import ModuleKind, NetworkKind
from obil.networks.stacked_training import train_stacked
from obil.networks.training import Loss, TrainingRows, reproducible, train
from obil.resampling.associated import AssociatedProblem
from obil.serving.features import FeatureMap
from obil.serving.networks.dense_network import DenseScorer
from obil.serving.networks.heads import scores_of_outputs
from obil.serving.networks.onnx_scorer import OnnxScorer
from obil.serving.scorers import as_matrix


@dataclass(frozen=True, slots=True, eq=False)
class FittedNetwork:
    """What serves, and the module it was made from."""

    scorer: DenseScorer | OnnxScorer
    network: nn.Module
    n_epochs: int
    log_odds_scale: float  # of the module's outputs against a tanh unit's

    def variance(self, X: Any, *, n_passes: int, seed: int) -> FloatArray:
        """Return the variance of the log ratio of rows over passes with dropout, (n,)."""
        if not has_dropout(self.network):
            raise InvalidInputError(
                "fusion='dropout' needs networks with dropout; use fusion='mean' or 'stacked', or give them some"
            )
        scorer, scale = self.scorer, self.log_odds_scale
        with reproducible(seed):
            return dropout_variance(
                self.network,
                inputs_of(X, scorer.features if isinstance(scorer, DenseScorer) else None),
                scores_of=lambda outputs: scores_of_outputs(
                    scale * outputs, head=scorer.head, training_prior=scorer.training_prior
                ),
                n_passes=n_passes,
            )


def fit_network(
    kind: NetworkKind | ModuleKind,
    X: Any,
    labels: IntArray,
    problem: AssociatedProblem,
    *,
    features: FeatureMap | None,
    loss: Loss,
    n_classes: int,
    device: str,
    seed: int,
    after_epoch: Callable[[int], None] | None = None,
) -> FittedNetwork:
    """Train a network of this kind on the problem's rows of X, (N, ...), and make it ready to serve."""
    rng = np.random.default_rng(seed)
    with reproducible(seed):
        inputs = inputs_of(X, features)
        network, loss = _untrained(kind, inputs, problem, loss, n_classes)
        data = TrainingRows.of(inputs, labels, problem.rows, problem.weights, device)
        n_epochs = train(network.to(device), data, loss=loss, settings=kind.training, rng=rng, after_epoch=after_epoch)
        return _served(network, inputs, problem, features, loss, n_classes, n_epochs)


def fit_networks_together(
    kind: NetworkKind,
    X: Any,
    labels: IntArray,
    problems: Sequence[AssociatedProblem],
    *,
    features: FeatureMap | None,
    loss: Loss,
    n_classes: int,
    device: str,
    seeds: Sequence[int],
) -> list[FittedNetwork]:
    """Train a network on each of the problems, all of them in the same steps: what a GPU is fast at."""
    inputs, networks = inputs_of(X, features), []
    for problem, seed in zip(problems, seeds, strict=True):
        with reproducible(seed):
            network, chosen = _untrained(kind, inputs, problem, loss, n_classes)
            networks.append(network)
    with reproducible(seeds[0]):
        on_device = inputs.to(device)
        data = [TrainingRows.of(on_device, labels, one.rows, one.weights, device) for one in problems]
        rng = np.random.default_rng(seeds[0])
        epochs = train_stacked(networks, data, loss=chosen, settings=kind.training, rng=rng)
    return [
        _served(network, inputs, problem, features, chosen, n_classes, n_epochs)
        for network, problem, n_epochs in zip(networks, problems, epochs, strict=True)
    ]


def train_together(kind: NetworkKind | ModuleKind, device: str) -> bool:
    """Return whether networks of this kind are trained in the same steps: on a GPU, where a step's size is free.

    >>> train_together(NetworkKind(), "cuda"), train_together(NetworkKind(), "cpu")
    (True, False)
    """
    return isinstance(kind, NetworkKind) and device.startswith("cuda") and not kind.training.averaging


def _untrained(
    kind: NetworkKind | ModuleKind, inputs: Tensor, problem: AssociatedProblem, loss: Loss, n_classes: int
) -> tuple[nn.Module, Loss]:
    """Return a new network, and the loss in the form that its outputs take."""
    if isinstance(kind, NetworkKind):
        n_outputs = 1 if n_classes == 2 and isinstance(loss, BinaryLoss) else n_classes
        network: nn.Module = MLP(inputs.shape[1], n_outputs, hidden=kind.hidden, dropout=kind.dropout, skip=kind.skip)
    else:
        network = kind.build()
    width = _output_width(network, inputs[problem.rows[:2]])
    if width == n_classes == 2 and isinstance(loss, BinaryLoss) and loss.name == "cross_entropy":
        loss = as_loss("categorical_cross_entropy", n_classes)  # the same loss for a network with two outputs
    head_of(loss, width, n_classes)
    if isinstance(network, MLP) and kind.training.start_at_prior:
        network.start_at(starting_outputs(loss, problem))
    return network, loss


def _served(
    network: nn.Module,
    inputs: Tensor,
    problem: AssociatedProblem,
    features: FeatureMap | None,
    loss: Loss,
    n_classes: int,
    n_epochs: int,
) -> FittedNetwork:
    """Return a trained network with what serves it."""
    network = network.cpu().eval()
    example = inputs[problem.rows[:2]]
    head = head_of(loss, _output_width(network, example), n_classes)
    scale, training_prior = 1.0, problem.training_prior
    if isinstance(loss, BinaryLoss):
        scale, training_prior = loss.log_odds_slope / 2.0, problem.training_prior_at(loss.negative_weight)
    if features is not None and isinstance(network, MLP):
        scorer: DenseScorer | OnnxScorer = DenseScorer(features, network.frozen(scale=scale), head, training_prior)
    else:
        scaled = _Scaled(network, scale) if scale != 1.0 else network
        scorer = OnnxScorer(export_onnx(scaled, example), head, training_prior)
    return FittedNetwork(scorer, network, n_epochs, scale)


def starting_outputs(loss: Loss, problem: AssociatedProblem) -> FloatArray:
    """Return the outputs (n_outputs,) that stand for the problem's class prior, whatever the row."""
    if isinstance(loss, CategoricalLoss):
        return np.asarray(np.log(problem.training_prior))
    log_odds: FloatArray = logit(problem.training_prior_at(loss.negative_weight)) / loss.log_odds_slope
    return log_odds[1:] if len(log_odds) == 2 else log_odds


def as_loss(loss: Any, n_classes: int) -> Loss:
    """Return the loss that a name or a loss means for so many classes.

    Cross-entropy of more than two classes is that of a softmax; every other binary loss trains one against the rest.
    """
    chosen = named_loss(loss) if isinstance(loss, str) else loss
    if not isinstance(chosen, BinaryLoss | CategoricalLoss):
        raise InvalidInputError(f"loss must be a name, a BinaryLoss or a CategoricalLoss, got {loss!r:.60}")
    if n_classes > 2 and isinstance(chosen, BinaryLoss):
        if chosen.negative_weight != 1.0:
            raise InvalidInputError("a cost weight on negatives is for two classes: give costs to OnlineClassifier")
        if chosen.name == "cross_entropy":
            return as_loss("categorical_cross_entropy", n_classes)
    return chosen


def head_of(loss: Loss, width: int, n_classes: int) -> str:
    """Return how outputs of this width are read under this loss, or refuse them."""
    wanted = n_classes if isinstance(loss, CategoricalLoss) or n_classes > 2 else 1
    if width != wanted:
        raise InvalidInputError(
            f"a network for {n_classes} classes and the loss {loss.name} gives {wanted} outputs per row, got {width}"
        )
    if isinstance(loss, CategoricalLoss):
        return "softmax"
    return "tanh" if n_classes == 2 else "one_vs_rest"


def as_device(device: str) -> str:
    """Return the device to train on; "auto" takes a GPU where there is one.

    >>> as_device("cpu")
    'cpu'
    """
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise InvalidInputError(
            f"device must be 'cpu', 'cuda' or 'auto' and be there, got {device!r}: {reason:.100}"
        ) from None
    return device


def inputs_of(X: Any, features: FeatureMap | None) -> Tensor:
    """Return rows as what a network takes: its features' inputs, or the rows as they are."""
    if features is not None:
        return torch.from_numpy(features.encode(as_matrix(X)))
    rows = np.asarray(X)
    if rows.dtype.kind not in "fiub":
        raise InvalidInputError(f"a torch module takes arrays of numbers, got the type {rows.dtype}")
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        raise InvalidInputError("the rows of a torch module must be finite: fill what is missing first")
    return torch.from_numpy(rows.astype(np.float32 if rows.dtype.kind == "f" else np.int64))


def _output_width(network: nn.Module, example: Tensor) -> int:
    try:
        with torch.inference_mode():
            outputs = network.eval()(example)
    except Exception as error:  # a foreign module raises what it likes
        reason = (str(error).splitlines() or [""])[0]
        raise InvalidInputError(f"the module cannot take these rows: {type(error).__name__}: {reason:.200}") from error
    if not isinstance(outputs, Tensor) or outputs.ndim not in (1, 2) or len(outputs) != len(example):
        raise InvalidInputError("a module must give pre-activations (n,), (n, 1) or (n, K) for n rows")
    return 1 if outputs.ndim == 1 else outputs.shape[1]


class _Scaled(nn.Module):
    """A network whose outputs are multiplied, so that a tanh unit reads them."""

    def __init__(self, network: nn.Module, scale: float) -> None:
        super().__init__()
        self.network, self.scale = network, scale

    def forward(self, rows: Tensor) -> Tensor:
        outputs: Tensor = self.scale * self.network(rows)
        return outputs
