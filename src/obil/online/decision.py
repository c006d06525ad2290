"""Record what was decided and why: one decision, or many as columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.bayes.posterior import posterior, posteriors_at


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """One row's decision with everything it was made from."""

    id: Any
    label: Any
    log_ratios: FloatArray  # (K,)
    prior: FloatArray  # (K,) the one decided with, from before the row
    threshold: float | None  # on the positive class's log ratio; None where a cost matrix of many classes decided
    trusted: bool  # False where a monitor objects to the stream; True where none watches it
    reachable: bool = True  # False: no threshold meets the policy at this prior, so nothing is alerted

    @property
    def posterior(self) -> FloatArray:
        """P(class | row) at that prior, (K,)."""
        return np.asarray(posterior(self.log_ratios[None], self.prior)[0])


@dataclass(frozen=True, slots=True, eq=False)
class Decisions(Sequence[Decision]):
    """Many decisions as columns; `[i]` gives one of them."""

    ids: Sequence[Any]
    labels: npt.NDArray[Any]  # (n,)
    log_ratios: FloatArray  # (n, K)
    priors: FloatArray  # (n, K)
    thresholds: FloatArray | None  # (n,)
    reachable: npt.NDArray[np.bool_]  # (n,)
    trusted: npt.NDArray[np.bool_]  # (n,)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = range(len(self))[index]
        return Decision(
            id=self.ids[i],
            label=self.labels[i],
            log_ratios=self.log_ratios[i],
            prior=self.priors[i],
            threshold=None if self.thresholds is None else float(self.thresholds[i]),
            trusted=bool(self.trusted[i]),
            reachable=bool(self.reachable[i]),
        )

    def __iter__(self) -> Iterator[Decision]:
        return (self[i] for i in range(len(self)))

    @property
    def posteriors(self) -> FloatArray:
        """P(class | row) at each row's prior, (n, K)."""
        return posteriors_at(self.log_ratios, self.priors)
