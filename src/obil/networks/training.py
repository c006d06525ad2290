"""Train a network on an associated problem: minibatches, early stopping, averaged weights, reproducible."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from obil.arrays import FloatArray, IntArray
from obil.errors import EstimationError, InvalidInputError
from obil.networks.losses import BinaryLoss, CategoricalLoss
from obil.networks.settings import Training

Loss = BinaryLoss | CategoricalLoss
EVALUATION_ROWS = 4_096  # at once


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRows:
    """The rows of a problem as tensors on one device."""

    inputs: Tensor  # (N, ...) of all training rows
    labels: Tensor  # (N,) class numbers
    rows: Tensor  # (m,) which of them the problem has, with repeats where it oversamples
    weights: Tensor  # (m,) of mean 1

    @classmethod
    def of(cls, inputs: Tensor, labels: IntArray, rows: IntArray, weights: FloatArray, device: str) -> "TrainingRows":
        """Return them on `device`."""
        relative = torch.from_numpy((weights / weights.mean()).astype(np.float32))
        tensors = (inputs, torch.from_numpy(labels), torch.from_numpy(rows), relative)
        return cls(*(tensor.to(device) for tensor in tensors))

    def mean_loss(self, network: nn.Module, loss: Loss, places: Tensor) -> Tensor:
        """Return the mean weighted loss of the rows at these places of the problem."""
        picked = self.rows[places]
        return (loss_of(loss, network(self.inputs[picked]), self.labels[picked]) * self.weights[places]).mean()


def train(
    network: nn.Module,
    data: TrainingRows,
    *,
    loss: Loss,
    settings: Training,
    rng: np.random.Generator,
    after_epoch: Callable[[int], None] | None = None,
) -> int:
    """Train `network` in place; return the number of epochs it took.

    Dropout draws from torch's own generator: see `reproducible`.
    """
    learn, validate = split_places(data, settings.validation_fraction if settings.patience else 0.0, rng)
    start = _copied(network) if settings.refit and len(validate) else None
    best, epoch = _train(network, data, learn, validate, loss, settings, rng, after_epoch)
    if start is not None:  # every row of the problem trains: few can be spared to say when to stop
        _restore(network, start)
        everything = torch.cat([learn, validate])
        _train(network, data, everything, validate[:0], loss, settings.for_epochs(best), rng, after_epoch)
    network.eval()
    if not all(bool(torch.isfinite(parameter).all()) for parameter in network.parameters()):
        raise EstimationError("training diverged: the weights are not finite; lower the learning rate")
    return epoch


def _train(
    network: nn.Module,
    data: TrainingRows,
    learn: Tensor,
    validate: Tensor,
    loss: Loss,
    settings: Training,
    rng: np.random.Generator,
    after_epoch: Callable[[int], None] | None,
) -> tuple[int, int]:
    """Train on these places of the problem; return the epoch whose weights are kept, and the last."""
    optimizer = _optimizer(network, settings)
    average = _MovingAverage(network, settings.averaging)
    steps, passes, epochs = settings.schedule(len(learn))
    n_steps = steps * passes * epochs
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, partial(settings.relative_rate, n_steps=n_steps))
    best, best_state, best_epoch, epoch = np.inf, None, 0, 0
    for epoch in range(1, epochs + 1):
        network.train()
        for _ in range(passes):
            shuffled = learn[torch.from_numpy(rng.permutation(len(learn)))]
            for places in shuffled.tensor_split(steps):
                optimizer.zero_grad(set_to_none=True)
                data.mean_loss(network, loss, places).backward()
                optimizer.step()
                rates.step()
                average.update()
        if after_epoch is not None:
            after_epoch(epoch)
        if not len(validate):
            continue
        with average.applied():
            held_out = _held_out_loss(network, data, loss, validate)
            if held_out < best:
                best, best_epoch, best_state = held_out, epoch, _copied(network)
        if epoch - best_epoch >= settings.patience:
            break
    _restore(network, average.state() if best_state is None else best_state)
    return best_epoch or epoch, epoch


def loss_of(loss: Loss, outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the loss of each row, (n,), of pre-activations (n,), (n, 1) or (n, K) and class numbers (n,)."""
    if isinstance(loss, CategoricalLoss):
        return loss.of_logits(outputs, labels)
    columns = outputs[:, None] if outputs.ndim == 1 else outputs
    if columns.shape[1] == 1:
        return loss.of_logit(columns[:, 0], 2.0 * labels.to(columns.dtype) - 1.0)
    targets = 2.0 * one_hot(labels, columns.shape[1]).to(columns.dtype) - 1.0  # one against the rest
    return loss.of_logit(columns, targets).sum(dim=1)


@contextmanager
def reproducible(seed: int) -> Iterator[None]:
    """Seed torch for the block, on one thread so that the order of adding is fixed; then leave it as it was."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def _optimizer(network: nn.Module, settings: Training) -> torch.optim.Optimizer:
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    if not trained:
        raise InvalidInputError("the network has no parameter to train")
    groups = [
        {"params": [parameter for parameter in trained if parameter.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [parameter for parameter in trained if parameter.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=settings.learning_rate, betas=settings.momentum, fused=True
    )


class _MovingAverage:
    """The exponential moving average of a network's weights; with a decay of 0, the weights themselves."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        self._network, self._decay, self._steps = network, decay, 0
        self._averages = _copied(network) if decay else {}

    def update(self) -> None:
        if not self._averages:
            return
        self._steps += 1
        decay = min(self._decay, self._steps / (self._steps + 9.0))  # the first steps are soon forgotten
        with torch.no_grad():
            now = self._network.state_dict()
            floats = [name for name, values in now.items() if values.is_floating_point()]
            torch._foreach_lerp_([self._averages[name] for name in floats], [now[name] for name in floats], 1.0 - decay)

    def state(self) -> dict[str, Tensor]:
        return self._averages or _copied(self._network)

    @contextmanager
    def applied(self) -> Iterator[None]:
        if not self._averages:
            yield
            return
        own = _copied(self._network)
        _restore(self._network, self._averages)
        try:
            yield
        finally:
            _restore(self._network, own)


def split_places(data: TrainingRows, fraction: float, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Return places in the problem to learn from and to validate on, each class in both; repeats stay together."""
    rows, labels = data.rows.cpu().numpy(), data.labels.cpu().numpy()
    everything = torch.arange(len(rows), device=data.rows.device)
    chosen: list[IntArray] = []
    for k in np.unique(labels[rows]) if fraction else ():
        distinct = np.unique(rows[labels[rows] == k])
        n_chosen = round(fraction * len(distinct))
        if n_chosen == 0 or n_chosen == len(distinct):
            return everything, everything[:0]  # too few rows to spare one
        chosen.append(rng.choice(distinct, n_chosen, replace=False))
    if not chosen:
        return everything, everything[:0]
    mask = torch.from_numpy(np.isin(rows, np.concatenate(chosen))).to(everything.device)
    return everything[~mask], everything[mask]


def _held_out_loss(network: nn.Module, data: TrainingRows, loss: Loss, places: Tensor) -> float:
    network.eval()
    with torch.inference_mode():
        chunks = places.split(EVALUATION_ROWS)
        parts = [(len(part), float(data.mean_loss(network, loss, part))) for part in chunks]
    value = sum(n * mean for n, mean in parts) / len(places)
    if not np.isfinite(value):
        raise EstimationError(f"training diverged: the held-out loss is {value}; lower the learning rate")
    return value


def _copied(network: nn.Module) -> dict[str, Tensor]:
    return {name: values.detach().clone() for name, values in network.state_dict().items()}


def _restore(network: nn.Module, state: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, values in network.state_dict().items():
            values.copy_(state[name])
