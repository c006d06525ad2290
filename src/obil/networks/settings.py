"""Settings of networks and of their training; importing them needs no torch."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from obil.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Training:
    """How a network is trained; the defaults did best in our measurements, `PAPER_TRAINING` is the paper's.

    >>> Training(epochs=5).epochs
    5
    """

    epochs: int = 40
    epoch_steps: int = 1  # an epoch is a pass over the rows, and of a small problem so many passes that it has these
    least_steps: int = 300  # a small problem is trained for more epochs, until it has taken so many steps,
    most_epochs: int = 100  # but for no more epochs than this
    most_steps: int = 6_000  # and a large one for fewer, so that it takes no more steps than these
    batch_size: int = 256
    learning_rate: float = 5e-3
    warmup: int = 50  # steps in which the rate rises
    cosine: bool = True  # then it falls to 0 along a cosine; False keeps it
    momentum: tuple[float, float] = (0.9, 0.99)  # Adam's betas
    weight_decay: float = 0.01  # decoupled, on weights and not on biases
    patience: int = 0  # epochs without improvement before it stops; 0 trains to the end
    validation_fraction: float = 0.15  # of the problem's rows, for early stopping
    refit: bool = False  # whether it is then trained afresh, on all rows of the problem, for the epochs found best
    start_at_prior: bool = False  # whether outputs start at the problem's log odds, and not around 0
    averaging: float = 0.0  # decay of the moving average of the weights, per step; 0 keeps the weights themselves

    def __post_init__(self) -> None:
        counts, sizes = (self.least_steps, self.warmup, self.patience), (self.batch_size, self.epoch_steps)
        if not 1 <= self.epochs <= self.most_epochs or min(*sizes, self.most_steps) < 1 or min(counts) < 0:
            raise InvalidInputError(
                "epochs must be 1 to most_epochs, batch_size, epoch_steps and most_steps 1 or more, no count negative, "
                f"got {self!r}"
            )
        if not (0.0 < self.validation_fraction < 1.0 and 0.0 <= self.averaging < 1.0 and self.learning_rate > 0.0):
            raise InvalidInputError(
                f"validation_fraction and averaging must be below 1, learning_rate above 0, got {self!r}"
            )

    def schedule(self, n_rows: int) -> tuple[int, int, int]:
        """Return the steps of a pass over so many rows, the passes of an epoch, and the most epochs.

        >>> Training(epochs=10, epoch_steps=20, batch_size=50, least_steps=0).schedule(350)
        (7, 3, 10)
        """
        steps = -(-n_rows // self.batch_size)
        passes = -(-self.epoch_steps // steps)
        in_epoch = steps * passes
        epochs = max(self.epochs, min(self.most_epochs, -(-self.least_steps // in_epoch)))
        return steps, passes, min(epochs, -(-self.most_steps // in_epoch))

    def relative_rate(self, step: int, *, n_steps: int) -> float:
        """Return the learning rate of a step over the highest: up in a line, then down along a cosine."""
        rising = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        return rising * (0.5 + 0.5 * math.cos(math.pi * step / n_steps) if self.cosine else 1.0)

    def for_epochs(self, epochs: int) -> "Training":
        """Return the same with exactly so many epochs."""
        return replace(self, epochs=epochs, least_steps=0, patience=0)


# The paper states Adam at 1e-3 and 100 epochs with early stopping. The rest is our reading: `python -m experiments
# decomposition` measures what each choice is worth.
PAPER_TRAINING = Training(
    epochs=100, epoch_steps=50, least_steps=0, most_steps=10**9, batch_size=128, learning_rate=1e-3, warmup=0,
    cosine=False, momentum=(0.9, 0.999), weight_decay=0.0, patience=10, refit=True, start_at_prior=True,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NetworkKind:
    """A fully connected network on the columns of a table.

    >>> NetworkKind(hidden=(16,)).hidden
    (16,)
    """

    hidden: tuple[int, ...] = (64, 32)
    dropout: float = 0.2
    inputs: str = "rich"  # or "smooth", "quantile", "standard"
    skip: bool = True  # whether a linear layer also connects inputs and outputs directly
    training: Training = Training()

    def __post_init__(self) -> None:
        if not all(width >= 1 for width in self.hidden) or not 0.0 <= self.dropout < 1.0:
            raise InvalidInputError(f"hidden layers have units and dropout is in [0, 1), got {self!r}")


@dataclass(frozen=True, slots=True, eq=False)
class ModuleKind:
    """Any torch module that gives pre-activations (n,), (n, 1) or (n, K) of rows, trained further from where it is.

    `build` makes a fresh one for each member; a pre-trained backbone is built with its weights.

    >>> from torch import nn
    >>> ModuleKind(lambda: nn.Linear(7, 1), Training(epochs=5)).build()
    Linear(in_features=7, out_features=1, bias=True)
    """

    build: Callable[[], Any]
    training: Training = Training()
