"""Mix further experts into the default's on late labels: recalibrations that also see inputs of the row.

A second writing of the default with two classes, kept plain: each expert is judged by the very posterior it gave a row,
where the tracker compares with the advice it stored last before that row.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import logit

from obil.arrays import BoolArray, FloatArray, IntArray
from obil.compiled import compiled
from obil.trackers.label_experts import LABEL_MEMORIES, OFFSET_SD, SLOPE_SD, START_LABELS, start_weights
from obil.trackers.label_learning import (
    DELAY_POWER,
    LARGEST_LOGIT,
    LARGEST_OFFSET,
    LARGEST_SLOPE,
    LEAST_DEALT,
    SMALLEST_SLOPE,
)

N_MEMORIES = len(LABEL_MEMORIES)


class Unlabelled(NamedTuple):
    """What the experts without labels make of n rows of two classes."""

    log_ratios: FloatArray  # (n,)
    guarded: FloatArray  # (n,) P(positive) of a row without information
    fast: FloatArray  # (n,)
    start: float

    @property
    def base(self) -> FloatArray:
        """The logits of the guarded posterior, (n,), which recalibrations map."""
        logits: FloatArray = np.clip(self.log_ratios + logit(self.guarded), -LARGEST_LOGIT, LARGEST_LOGIT)
        return logits


def posteriors_with(
    rows: Unlabelled,
    inputs: FloatArray,
    labels: IntArray,
    asked: IntArray,
    delay: int,
    *,
    memories: list[float],
    weight: float,
    input_sd: float,
) -> FloatArray:
    """Return P(positive) as it is decided, (n,), where the labels of rows `asked` for come `delay` rows later.

    To the default's experts come recalibrations with inputs (n, d), one for each of their memories in labels, that
    start with this weight each.
    """
    n_inputs, more = inputs.shape[1], len(memories)
    weights = np.concatenate([start_weights() * (1.0 - weight * more), np.full(more, weight)])
    precision = np.diag([1.0 / SLOPE_SD**2, 1.0 / OFFSET_SD**2, *[1.0 / input_sd**2] * n_inputs])
    kept = 1.0 - 1.0 / np.array([*LABEL_MEMORIES, *memories])
    posteriors = np.empty(len(labels))
    sees = np.arange(len(kept)) >= N_MEMORIES
    _replay(
        rows.log_ratios, rows.base, rows.guarded, rows.fast, rows.start, np.ascontiguousarray(inputs), labels, asked,
        delay, weights, precision, kept, sees, posteriors,
    )  # fmt: skip
    return posteriors


@compiled
def _replay(
    log_ratios: FloatArray,
    base: FloatArray,
    guarded: FloatArray,
    fast: FloatArray,
    start: float,
    inputs: FloatArray,
    labels: IntArray,
    asked: IntArray,
    delay: int,
    start_weights: FloatArray,
    start_precision: FloatArray,
    kept: FloatArray,
    sees: BoolArray,
    posteriors: FloatArray,
) -> None:
    """Decide each row, after the labels that are due by then were learned."""
    n_maps, n_experts, size = kept.size, start_weights.size, start_precision.shape[0]
    weights, counts = start_weights.copy(), np.zeros((N_MEMORIES, 2))
    maps, precisions = np.zeros((n_maps, size)), np.zeros((n_maps, size, size))
    maps[:, 0] = 1.0
    for a in range(n_maps):
        precisions[a] = start_precision
    at_decision = np.empty((asked.size, n_experts))  # logits of the rows whose label was asked for
    logits, x = np.empty(n_experts), np.ones(size)
    n_labels, n_asked, since_first = 0, 0, 0
    for t in range(labels.size):
        while n_labels < n_asked and asked[n_labels] + delay < t:
            row, label = asked[n_labels], labels[asked[n_labels]]
            while asked[since_first] + delay < row:
                since_first += 1
            rate = (1.0 + n_labels - since_first) ** -DELAY_POWER
            losses = np.log1p(np.exp(-np.abs(at_decision[n_labels])))
            losses += np.maximum(at_decision[n_labels] * (1.0 if label == 0 else -1.0), 0.0)
            weights = np.maximum(weights, 1e-300) * np.exp(rate * (losses.min() - losses))
            dealt = rate * max(1.0 / (n_labels + 2.0), LEAST_DEALT)
            weights = (1.0 - dealt) * weights / weights.sum() + dealt * start_weights
            for c in range(N_MEMORIES):
                counts[c] *= kept[c]
                counts[c, label] += 1.0
            x[0], x[2:] = base[row], inputs[row]
            for a in range(n_maps):
                n = size if sees[a] else 2
                p = 1.0 / (1.0 + np.exp(-(maps[a, :n] * x[:n]).sum()))
                prior = start_precision[:n, :n]
                information = prior + kept[a] * (precisions[a, :n, :n] - prior)
                information += p * (1.0 - p) * x[:n].copy().reshape(n, 1) * x[:n].copy().reshape(1, n)
                precisions[a, :n, :n] = information
                maps[a, :n] += np.linalg.solve(information, (label - p) * x[:n])
                maps[a, 0] = min(max(maps[a, 0], SMALLEST_SLOPE), LARGEST_SLOPE)
                for k in range(1, n):
                    maps[a, k] = min(max(maps[a, k], -LARGEST_OFFSET), LARGEST_OFFSET)
            n_labels += 1
        g = guarded[t]
        logits[0] = log_ratios[t] + np.log(start / (1.0 - start))
        logits[1] = log_ratios[t] + np.log(g / (1.0 - g))
        logits[2] = log_ratios[t] + np.log(fast[t] / (1.0 - fast[t]))
        for c in range(N_MEMORIES):
            positive, negative = START_LABELS * g + counts[c, 1], START_LABELS * (1.0 - g) + counts[c, 0]
            logits[3 + c] = log_ratios[t] + np.log(positive / negative)
        for a in range(n_maps):
            mapped = maps[a, 0] * base[t] + maps[a, 1]
            for k in range(2, size):
                mapped += maps[a, k] * inputs[t, k - 2]
            logits[3 + N_MEMORIES + a] = mapped
        if n_asked < asked.size and asked[n_asked] == t:
            at_decision[n_asked] = logits
            n_asked += 1
        posteriors[t] = 1.0 / (1.0 + np.exp(-logits[1]))
        if n_labels > 0:
            posteriors[t] = 0.0
            for m in range(n_experts):
                posteriors[t] += weights[m] / (1.0 + np.exp(-logits[m]))
