"""Settings of networks and of their training; importing them needs no torch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from obil.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Training:
    """How a network is trained; the defaults did best in our measurements, `PAPER_TRAINING` is the paper's.

    >>> Training(epochs=5).epochs
    5
    """

    epochs: int = 40
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
    averaging: float = 0.0  # decay of the moving average of the weights, per step; 0 keeps the weights themselves

    def __post_init__(self) -> None:
        counts = (self.least_steps, self.warmup, self.patience)
        if not 1 <= self.epochs <= self.most_epochs or min(self.batch_size, self.most_steps) < 1 or min(counts) < 0:
            raise InvalidInputError(
                f"epochs must be 1 to most_epochs, batch_size and most_steps 1 or more, no count negative, got {self!r}"
            )
        if not (0.0 < self.validation_fraction < 1.0 and 0.0 <= self.averaging < 1.0 and self.learning_rate > 0.0):
            raise InvalidInputError(
                f"validation_fraction and averaging must be below 1, learning_rate above 0, got {self!r}"
            )


PAPER_TRAINING = Training(
    epochs=100, least_steps=0, most_steps=10**9, batch_size=128, learning_rate=1e-3, warmup=0, cosine=False,
    momentum=(0.9, 0.999), weight_decay=0.0, patience=10,
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
