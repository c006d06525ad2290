"""Train networks of one shape together: one step moves all of them, and on a GPU the step is one CUDA graph.

Each network has its own problem, shuffled rows, schedule and early stopping: it is `training.train`, but that every
batch is full, the last one of a pass with rows that the pass began with. It needs torch and numpy alone.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from obil.errors import EstimationError
from obil.networks.settings import Training
from obil.networks.stacked_mlp import StackedMLP
from obil.networks.training import Loss, TrainingRows, loss_of, split_places

EPSILON = 1e-8  # of Adam
EVALUATION_ROWS = 65_536  # at once
SHUFFLED_STEPS = 64  # a network's rows are shuffled for so many steps at once, or for one pass
WARM_UP_STEPS = 3  # before a graph is captured, so that libraries have their workspaces


def train_stacked(
    networks: Sequence[nn.Module],
    data: Sequence[TrainingRows],
    *,
    loss: Loss,
    settings: Training,
    rng: np.random.Generator,
) -> list[int]:
    """Train the networks in place, each on its own rows of the same inputs; return the epochs that each took.

    Shuffles and dropout are drawn from torch's own generator: see `reproducible`.
    """
    fraction = settings.validation_fraction if settings.patience else 0.0
    learn, validate = zip(*(split_places(one, fraction, rng) for one in data), strict=True)
    stacked = StackedMLP(networks, data[0].inputs.device)
    start = stacked.parameters.detach().clone()
    run = _Run(stacked, data, learn, loss, [settings] * len(data))
    run.train(validate)
    if settings.refit and any(len(places) for places in validate):
        with torch.no_grad():
            stacked.parameters.copy_(start)
        everything = [torch.cat(both) for both in zip(learn, validate, strict=True)]
        again = _Run(stacked, data, everything, loss, [settings.for_epochs(best) for best in run.best_epochs])
        again.train([places[:0] for places in validate])
        run.kept = again.kept
    if not bool(torch.isfinite(run.kept).all()):
        raise EstimationError("training diverged: the weights are not finite; lower the learning rate")
    stacked.copy_to(networks, run.kept)
    for network in networks:
        network.eval()
    return run.epochs


class _Run:
    """The state of one training: Adam's moments, what each network may still learn, and the best so far."""

    def __init__(
        self,
        stacked: StackedMLP,
        data: Sequence[TrainingRows],
        learn: Sequence[Tensor],
        loss: Loss,
        settings: Sequence[Training],
    ) -> None:
        device, n = stacked.parameters.device, len(data)
        self._stacked, self._data, self._loss, self._settings = stacked, data, loss, settings[0]
        self._rows = torch.cat([one.rows[places] for one, places in zip(data, learn, strict=True)])
        self._weights = torch.cat([one.weights[places] for one, places in zip(data, learn, strict=True)])
        self._counts, self._batch_size = [len(places) for places in learn], settings[0].batch_size
        schedules = [own.schedule(count) for own, count in zip(settings, self._counts, strict=True)]
        self._pass_steps = [steps for steps, _, _ in schedules]
        longest = max(SHUFFLED_STEPS, *self._pass_steps)
        self._shuffled = [longest // steps * steps for steps in self._pass_steps]  # steps, a whole number of passes
        self._order = torch.zeros((n, longest * self._batch_size), dtype=torch.int64, device=device)
        self._periods = torch.tensor(self._shuffled, device=device)[:, None]
        self._in_batch = torch.arange(self._batch_size, device=device)
        self.epoch_steps = [steps * passes for steps, passes, _ in schedules]
        self._last = [steps * passes * epochs for steps, passes, epochs in schedules]
        self._rates = torch.from_numpy(_rates(settings, self._last)).to(device)  # (n_steps, 2, M, 1)
        self._step = torch.zeros(1, dtype=torch.int64, device=device)
        self._learning = torch.ones(n, 1, device=device)
        self._moments = [torch.zeros_like(stacked.parameters) for _ in range(2)]
        self.kept = stacked.parameters.detach().clone()
        self.best_epochs, self.epochs = [0] * n, [epochs for *_, epochs in schedules]

    def train(self, validate: Sequence[Tensor]) -> None:
        """Step until every network has had its steps or its held-out loss has not fallen for long enough."""
        losses = [np.inf] * len(validate)
        left = set(range(len(validate)))
        advance, now = self._advance(), 0
        while left:
            for j in left:
                if now % self._shuffled[j] == 0:
                    self._shuffle(j)
            due = {j: self._next_stop(j, now, bool(len(validate[j]))) for j in left}
            then = min(*due.values(), *((now // self._shuffled[j] + 1) * self._shuffled[j] for j in left))
            for _ in range(then - now):
                advance()
            now = then
            for j in [j for j in sorted(left) if due[j] == now]:
                epoch = now // self.epoch_steps[j]
                held_out = self._held_out_loss(j, validate[j]) if len(validate[j]) else -np.inf
                if held_out < losses[j]:
                    losses[j], self.best_epochs[j] = held_out, epoch
                    self.kept[j] = self._stacked.parameters.detach()[j]
                if now == self._last[j] or epoch - self.best_epochs[j] >= self._settings.patience > 0:
                    left.remove(j)
                    self._learning[j] = 0.0
                    self.epochs[j] = epoch

    def _next_stop(self, j: int, now: int, judged: bool) -> int:
        """Return the step after which a network is looked at next: the end of its epoch, or of its training."""
        return (now // self.epoch_steps[j] + 1) * self.epoch_steps[j] if judged else self._last[j]

    def _shuffle(self, j: int) -> None:
        """Put the places of a network's rows in a new order, pass by pass."""
        count, in_pass = self._counts[j], self._pass_steps[j] * self._batch_size
        passes = self._shuffled[j] // self._pass_steps[j]
        order = torch.rand((passes, count), device=self._order.device).argsort(dim=1)
        filled = order.repeat(1, -(-in_pass // count))[:, :in_pass]
        self._order[j, : passes * in_pass] = sum(self._counts[:j]) + filled.flatten()

    def _advance(self) -> Callable[[], None]:
        """Return what takes one step: a function, or on a GPU the replay of a graph that was captured from it."""
        if self._stacked.parameters.device.type != "cuda":
            return self._take_step
        state = [self._stacked.parameters.detach(), self._step, *self._moments]
        before = [values.clone() for values in state]
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP_STEPS):
                self._take_step()
        torch.cuda.current_stream().wait_stream(aside)
        for values, own in zip(state, before, strict=True):
            values.copy_(own)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._take_step()
        return graph.replay

    def _take_step(self) -> None:
        """Take the next batch of each network and one step of AdamW; what has stopped is multiplied by 0."""
        parameters, (first, second) = self._stacked.parameters, self._moments
        batch = (len(self._data), self._batch_size)
        places = self._order.gather(1, self._step % self._periods * self._batch_size + self._in_batch)  # (M, B)
        rows = self._rows[places]
        outputs = self._stacked.outputs(parameters, self._data[0].inputs[rows], training=True)
        losses = loss_of(self._loss, outputs.flatten(0, 1), self._data[0].labels[rows.flatten()]).view(batch)
        (gradient,) = torch.autograd.grad((losses * self._weights[places]).mean(dim=1).sum(), parameters)
        with torch.no_grad():
            step_size, decay = self._rates.index_select(0, self._step)[0] * self._learning  # (M, 1) each
            self._step += 1
            beta, beta_of_squares = self._settings.momentum
            first.lerp_(gradient, 1.0 - beta)
            second.mul_(beta_of_squares).addcmul_(gradient, gradient, value=1.0 - beta_of_squares)
            if self._settings.weight_decay:
                parameters.addcmul_(parameters * self._stacked.is_weight, decay, value=-1.0)
            parameters.addcmul_(first / (second.sqrt() + EPSILON), step_size, value=-1.0)

    def _held_out_loss(self, j: int, places: Tensor) -> float:
        total, own = 0.0, self._data[j]
        with torch.inference_mode():
            for part in places.split(EVALUATION_ROWS):
                rows = own.rows[part]
                outputs = self._stacked.outputs(self._stacked.parameters[j : j + 1], own.inputs[rows][None])[0]
                total += float((loss_of(self._loss, outputs, own.labels[rows]) * own.weights[part]).sum())
        if not np.isfinite(total):
            raise EstimationError(f"training diverged: the held-out loss is {total}; lower the learning rate")
        return total / len(places)


def _rates(settings: Sequence[Training], last: Sequence[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Return for every step Adam's step size, its bias corrections included, and the decay: (n_steps, 2, M, 1).

    Both are 0 after a network's last step.
    """
    rates = np.zeros((max(WARM_UP_STEPS, *last), 2, len(last), 1), dtype=np.float32)
    for j, (own, n_steps) in enumerate(zip(settings, last, strict=True)):
        (beta, beta_of_squares), taken = own.momentum, np.arange(1.0, n_steps + 1.0)
        rate = own.learning_rate * np.array([own.relative_rate(step, n_steps=n_steps) for step in range(n_steps)])
        corrected = np.sqrt(1.0 - beta_of_squares**taken) / (1.0 - beta**taken)
        rates[:n_steps, 0, j, 0], rates[:n_steps, 1, j, 0] = rate * corrected, rate * own.weight_decay
    return rates
