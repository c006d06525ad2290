"""Record what was decided and why: one decision, or many as columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray
from obil.bayes.posterior import posteriors_at


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """One row's decision with everything it was made from: plain Python values, and an array for each class.

    Attributes
    ----------
    id
        The name that a later label refers to.
    label
        The class decided, as a plain Python value.
    log_ratios
        The calibrated log-likelihood ratios of the row, (K,).
    effective_prior
        The class prior decided with, from before the row, (K,). Without labels it is the estimated prevalence; what
        labels have taught of the log ratios is in it too, and then it differs from row to row.
    threshold
        On the log ratio of the positive class; None where a cost matrix of many classes decided.
    trusted
        False after the monitor's alarm; True where nothing is monitored.
    reachable
        False where no threshold meets the policy at this prior: then nothing is alerted.
    evidence
        The log ratios that the prior was updated with, by one fold's model, then by its views, and behind them the
        inputs of the row, (1 + V + D, K).

    >>> from obil import OnlineClassifier, RatioClassifier
    >>> model = RatioClassifier.from_scores([-2.0, -1.0, 1.0, -1.0, 1.0, 2.0] * 10, [0, 0, 0, 1, 1, 1] * 10)
    >>> decision = OnlineClassifier(model).decide([2.0], id="order 10")
    >>> print(decision.id, decision.label, decision.effective_prior)
    order 10 1 [0.5 0.5]
    """

    id: Any
    label: Any
    log_ratios: FloatArray
    effective_prior: FloatArray
    threshold: float | None
    trusted: bool
    reachable: bool
    evidence: FloatArray

    @property
    def posterior(self) -> FloatArray:
        """P(class | row) at that prior, (K,)."""
        posterior: FloatArray = posteriors_at(self.log_ratios[None], self.effective_prior[None])[0]
        return posterior


@dataclass(frozen=True, slots=True, eq=False)
class Decisions(Sequence[Decision]):
    """Many decisions as columns; `[i]` gives one of them, and a slice those rows.

    >>> from obil import OnlineClassifier, RatioClassifier
    >>> model = RatioClassifier.from_scores([-2.0, -1.0, 1.0, -1.0, 1.0, 2.0] * 10, [0, 0, 0, 1, 1, 1] * 10)
    >>> decisions = OnlineClassifier(model).decide_many([[-2.0], [2.0]])
    >>> print(decisions.labels, decisions[1].label)
    [0 1] 1
    """

    ids: Sequence[Any]
    classes: npt.NDArray[Any]  # (K,) the user's own
    numbers: IntArray  # (n,) of the classes decided
    positive: int | None  # the number of the class that is alerted on; None where a cost matrix of many decides
    log_ratios: FloatArray  # (n, K)
    effective_priors: FloatArray  # (n, K) decided with
    posteriors: FloatArray  # (n, K) P(class | row) at each row's prior
    thresholds: FloatArray | None  # (n,)
    reachable: npt.NDArray[np.bool_]  # (n,)
    trusted: npt.NDArray[np.bool_]  # (n,)
    evidence: FloatArray  # (n, 1 + V + D, K) what the prior was updated with, then the inputs of the rows

    @property
    def labels(self) -> npt.NDArray[Any]:
        """The classes decided, (n,)."""
        labels: npt.NDArray[Any] = self.classes[self.numbers]
        return labels

    @property
    def alerts(self) -> npt.NDArray[np.bool_]:
        """Whether the positive class was decided, (n,)."""
        return np.equal(self.numbers, -1 if self.positive is None else self.positive)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return log ratios, posteriors and decisions as the columns of a table; of two classes, those of the second.

        With more classes there is a `log_ratio_NAME` of each but the first, and a `posterior_NAME` of each.
        """
        if len(self.classes) == 2:
            found = {"log_ratio": self.log_ratios[:, 1], "posterior": self.posteriors[:, 1]}
        else:
            names = self.classes.tolist()
            found = {f"log_ratio_{name}": self.log_ratios[:, k] for k, name in enumerate(names) if k}
            found |= {f"posterior_{name}": self.posteriors[:, k] for k, name in enumerate(names)}
        return {**found, "decision": self.labels}

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Decisions(
                ids=self.ids[index],
                classes=self.classes,
                numbers=self.numbers[index],
                positive=self.positive,
                log_ratios=self.log_ratios[index],
                effective_priors=self.effective_priors[index],
                posteriors=self.posteriors[index],
                thresholds=None if self.thresholds is None else self.thresholds[index],
                reachable=self.reachable[index],
                trusted=self.trusted[index],
                evidence=self.evidence[index],
            )
        i = range(len(self))[index]
        return Decision(
            id=self.ids[i],
            label=self.classes.item(self.numbers[i]),
            log_ratios=self.log_ratios[i],
            effective_prior=self.effective_priors[i],
            threshold=None if self.thresholds is None else self.thresholds.item(i),
            trusted=self.trusted.item(i),
            reachable=self.reachable.item(i),
            evidence=self.evidence[i],
        )

    def __iter__(self) -> Iterator[Decision]:
        return (self[i] for i in range(len(self)))
