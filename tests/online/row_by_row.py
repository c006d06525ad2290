"""Add decided rows to a history and a tally one after the other: the oracle of every route that takes many."""

import math
from collections.abc import Sequence

import numpy as np

from obil.bayes.posterior import posteriors_at
from obil.online.state.history import (
    ALERTS,
    IN_OPEN,
    LARGEST_THRESHOLD,
    LENGTH,
    N_FULL,
    N_THRESHOLDS,
    HistoryMemory,
    StreamHistory,
)
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
    memory, counts = history.memory, history.memory.counts
    memory.open_sums[:] = [total + one for total, one in zip(memory.open_sums.tolist(), posterior, strict=True)]
    if threshold is not None and abs(threshold) <= LARGEST_THRESHOLD:
        memory.open_threshold[0] += threshold
        counts[N_THRESHOLDS] += 1
    counts[ALERTS] += alert
    counts[IN_OPEN] += 1
    memory.open_evidence[0] = math.nan if log_evidence is None else log_evidence
    if counts[IN_OPEN] == counts[LENGTH]:
        close_bucket(memory)


def close_bucket(memory: HistoryMemory) -> None:
    """Make the open bucket a full one, and merge neighbours where there are too many."""
    counts, place = memory.counts, memory.counts[N_FULL]
    memory.prevalence[place] = memory.open_sums / counts[IN_OPEN]
    memory.thresholds[place] = memory.open_threshold[0] / counts[N_THRESHOLDS] if counts[N_THRESHOLDS] else math.nan
    memory.log_evidence[place], memory.alerts[place] = memory.open_evidence[0], counts[ALERTS]
    memory.open_sums[:] = memory.open_threshold[0] = 0.0
    memory.open_evidence[0] = math.nan
    counts[N_FULL] += 1
    counts[[IN_OPEN, N_THRESHOLDS, ALERTS]] = 0
    most = memory.alerts.size
    if counts[N_FULL] < most:
        return
    one, two = memory.thresholds[::2].copy(), memory.thresholds[1::2].copy()
    both = (one + two) / np.float32(2.0)
    merged = (
        (memory.prevalence, (memory.prevalence[::2] + memory.prevalence[1::2]) / np.float32(2.0)),
        (memory.thresholds, np.where(np.isnan(one), two, np.where(np.isnan(two), one, both))),
        (memory.log_evidence, memory.log_evidence[1::2].copy()),
        (memory.alerts, memory.alerts[::2] + memory.alerts[1::2]),
    )
    for column, values in merged:
        column[: most // 2], column[most // 2 :] = values, 0
    counts[N_FULL], counts[LENGTH] = most // 2, 2 * counts[LENGTH]


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
