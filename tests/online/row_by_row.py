"""Add decided rows to a history and a tally one after the other: the oracle of every route that takes many."""

import math
from collections.abc import Sequence

import numpy as np

from obil.bayes.posterior import posteriors_at
from obil.online.state.history import StreamHistory
from obil.online.state.outcome_tally import OutcomeTally


def add_row(
    history: StreamHistory,
    posterior: Sequence[float],
    threshold: float | None,
    alert: bool,
    *,
    log_evidence: float | None = None,
) -> None:
    """Add one row to a history in plain Python, sum by sum."""
    history._sums = [total + one for total, one in zip(history._sums, posterior, strict=True)]
    if threshold is not None and -math.inf < threshold < math.inf:
        history._threshold_sum += threshold
        history._n_thresholds += 1
    if alert:
        history._alerts += 1
    history._evidence = log_evidence
    history._in_open += 1
    if history._in_open == history._length:
        history._close()


class RowByRow:
    """A record that adds each row and each label at once."""

    def __init__(self, n_classes: int, *, positive: int | None) -> None:
        self.tally, self.history, self.positive = OutcomeTally(), StreamHistory(n_classes), positive

    def add_one(
        self,
        log_ratios: np.ndarray,
        prior: np.ndarray,
        threshold: float | None,
        alert: bool,
        log_evidence: float | None = None,
    ) -> None:
        posterior = posteriors_at(log_ratios[None], prior[None])[0]
        if self.positive is not None:
            self.tally.add(posterior[[self.positive]], [alert], priors=prior[[self.positive]])
        add_row(self.history, posterior.tolist(), threshold, alert, log_evidence=log_evidence)
