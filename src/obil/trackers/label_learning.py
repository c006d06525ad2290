"""Update the experts with a true label, however late it comes."""

from typing import NamedTuple

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.compiled import compiled, inlined
from obil.trackers.input_expert import LARGEST_COEFFICIENT, map_with_inputs, step_with_inputs
from obil.trackers.label_experts import GUARDED, LabelMemory, log_posterior_of

DELAY_POWER = 0.25  # a label counts by 1 / (1 + d)^power, d the labels that came since its row
LEAST_DEALT = 1e-3  # of the weight that each label moves back to the start weights
SMALLEST_SLOPE, LARGEST_SLOPE, LARGEST_OFFSET = 0.1, 3.0, 10.0
LARGEST_LOGIT = 30.0


class LabelStart(NamedTuple):
    """What the experts start from, and how long they remember."""

    weights: FloatArray  # (M,)
    prevalence_weights: FloatArray  # (M - 1,)
    precision: FloatArray  # (K, K) of a recalibration before any label
    input_precision: FloatArray  # (P,) of one with inputs, packed; (0,) without them
    memories: FloatArray  # (n,) in labels


@compiled
def learn_label(
    log_ratios: FloatArray,
    inputs: FloatArray,
    label: int,
    replaced: int,
    propensity: float,
    row: int,
    counts_only: bool,
    start: LabelStart,
    memory: LabelMemory,
) -> None:
    """Update with a true label, on the experts' advice when its row was decided; `replaced` is -1 or the old label.

    The loss is weighted by least propensity / propensity, and less by the more labels came since the row was decided:
    so many rows were already decided with weights that did not include this one. The expert that sees the row's
    inputs, (J, K-1), is judged by its posterior now, before this label: that is better where labels are late, its
    memory is long, and past coefficients would take much room.
    """
    counts, maps, precisions = memory.counts, memory.maps, memory.precisions
    least_propensity, seen = memory.least_propensity, memory.seen
    n_experts, n_classes = memory.weights.size, log_ratios.size
    before = least_propensity[0]
    least_propensity[0] = min(before, propensity)
    weight = least_propensity[0] / propensity
    if least_propensity[0] < before:  # losses, counts and recalibrations so far weigh less from here on
        fraction = least_propensity[0] / before
        _lighten(memory.weights, start.weights, fraction)
        _lighten(memory.prevalence_weights, start.prevalence_weights, fraction)
        counts *= fraction
        for a in range(start.memories.size):
            precisions[a] = start.precision + fraction * (precisions[a] - start.precision)
        memory.input_precision[:] = start.input_precision + fraction * (memory.input_precision - start.input_precision)
    level, slot = _find(row, memory.past_rows)
    advice = memory.latest if row >= seen[0] - 1 else memory.past[level, slot]
    since = _labels_since(row, seen, memory.arrivals)
    if since == memory.arrivals.size:  # at least so many: what is stored knows more, rounded up
        known = level >= 0 and memory.past_rows[level, slot] <= row
        since = seen[1] - (memory.past_labels[level, slot] if known else 0)

    # the experts' loss is that of posteriors, which need the scores of the serving model
    if not counts_only:
        logs = np.empty(n_classes)
        gains = np.empty(n_experts)
        own = np.empty(n_classes)
        for m in range(n_experts):
            if m < advice.shape[0]:
                log_posterior_of(log_ratios, advice[m], logs)
            else:
                map_with_inputs(memory.input_map, inputs, own)
                for k in range(1, n_classes):
                    own[k] += own[0] * advice[GUARDED, k]
                log_posterior_of(log_ratios, own, logs)
            gains[m] = weight * (logs[label] - (logs[replaced] if replaced >= 0 else 0.0))
        dealt = 0.0 if replaced >= 0 else max(1.0 / (seen[1] + 2.0), LEAST_DEALT)
        rate = (1.0 + since) ** -DELAY_POWER
        _reweigh(memory.weights, start.weights, gains, rate, dealt)
        _reweigh(memory.prevalence_weights, start.prevalence_weights, gains[GUARDED:], rate, dealt)

    # the counts
    for c in range(start.memories.size):
        if replaced >= 0:
            counts[c, replaced] = max(counts[c, replaced] - weight, 0.0)
        else:
            for k in range(n_classes):
                counts[c, k] *= 1.0 - weight / start.memories[c]
        counts[c, label] += weight

    # the recalibrations, of the guarded posterior at the time
    base = np.empty(n_classes)
    for k in range(n_classes):
        logit = log_ratios[k] + (advice[GUARDED, k] if k > 0 else 0.0)
        base[k] = min(max(logit, -LARGEST_LOGIT), LARGEST_LOGIT)
    for a in range(0 if counts_only else start.memories.size):
        _recalibrate(base, label, replaced, weight, start.memories[a], start.precision, maps[a], precisions[a])
    if not counts_only and memory.input_map.size > 0:
        _recalibrate_with_inputs(base, inputs, label, replaced, weight, start.input_precision, memory)
    if replaced < 0:
        memory.arrivals[seen[1] % memory.arrivals.size] = seen[0]
        seen[1] += 1


@inlined
def _lighten(weights: FloatArray, start: FloatArray, fraction: float) -> None:
    """Let what changed the weights so far count by a fraction of what it did."""
    for m in range(weights.size):
        weights[m] = start[m] * (max(weights[m], 1e-300) / start[m]) ** fraction
    weights /= weights.sum()


@inlined
def _reweigh(weights: FloatArray, start: FloatArray, gains: FloatArray, rate: float, dealt: float) -> None:
    """Multiply weights by exp(rate * gain), and deal a part of them back by the start weights."""
    highest = gains.max()
    for m in range(weights.size):
        weights[m] = max(weights[m], 1e-300) * np.exp(rate * (gains[m] - highest))
    weights /= weights.sum()
    for m in range(weights.size):
        weights[m] = (1.0 - rate * dealt) * weights[m] + rate * dealt * start[m]


@inlined
def _labels_since(row: int, seen: IntArray, arrivals: IntArray) -> int:
    """Return how many of the last labels came after a row was decided."""
    since = 0
    for i in range(min(seen[1], arrivals.size)):
        since += arrivals[i] > row
    return since


@inlined
def _find(row: int, past_rows: IntArray) -> tuple[int, int]:
    """Return where the advice closest before a row is stored, or the oldest where all is later; -1 where none is."""
    level, slot, best = -1, -1, -1
    oldest_level, oldest_slot, oldest = -1, -1, np.iinfo(np.int64).max
    for i in range(past_rows.shape[0]):
        for j in range(past_rows.shape[1]):
            stored = past_rows[i, j]
            if stored < 0:
                continue
            if best < stored <= row:
                level, slot, best = i, j, stored
            if stored < oldest:
                oldest_level, oldest_slot, oldest = i, j, stored
    return (level, slot) if level >= 0 else (oldest_level, oldest_slot)


@inlined
def _recalibrate(
    base: FloatArray,
    label: int,
    replaced: int,
    weight: float,
    memory: float,
    start_precision: FloatArray,
    theta: FloatArray,
    precision: FloatArray,
) -> None:
    """Take one step of a Bayesian logistic regression that forgets: logits = slope * base + offsets."""
    n_classes = base.size
    posterior = np.empty(n_classes)
    log_posterior_of(base, theta, posterior)
    gradient = np.zeros(n_classes)
    residual = np.zeros(n_classes)
    for k in range(n_classes):
        posterior[k] = np.exp(posterior[k])
        residual[k] = -posterior[k] if replaced < 0 else 0.0
    residual[label] += 1.0
    if replaced >= 0:
        residual[replaced] -= 1.0
    for k in range(1, n_classes):
        gradient[0] += residual[k] * base[k]
        gradient[k] = residual[k]
    if replaced < 0:  # the information of a label does not depend on its value
        mean = 0.0
        for k in range(1, n_classes):
            mean += posterior[k] * base[k]
        kept = 1.0 - weight / memory
        for i in range(n_classes):
            for j in range(n_classes):
                precision[i, j] = start_precision[i, j] + kept * (precision[i, j] - start_precision[i, j])
        for k in range(1, n_classes):
            precision[0, 0] += weight * posterior[k] * (base[k] - mean) * (base[k] - mean)
            cross = weight * posterior[k] * (base[k] - mean)
            precision[0, k] += cross
            precision[k, 0] += cross
            precision[k, k] += weight * posterior[k]
            for j in range(1, n_classes):
                precision[k, j] -= weight * posterior[k] * posterior[j]
        precision[0, 0] += weight * posterior[0] * mean * mean
    step = np.linalg.solve(precision, weight * gradient)
    theta[0] = min(max(theta[0] + step[0], SMALLEST_SLOPE), LARGEST_SLOPE)
    for k in range(1, n_classes):
        theta[k] = min(max(theta[k] + step[k], -LARGEST_OFFSET), LARGEST_OFFSET)


@inlined
def _recalibrate_with_inputs(
    base: FloatArray,
    inputs: FloatArray,
    label: int,
    replaced: int,
    weight: float,
    start_precision: FloatArray,
    memory: LabelMemory,
) -> None:
    """Take one such step of the recalibration that sees the row's inputs."""
    theta, n_classes = memory.input_map, base.size
    expert, posterior = np.empty(n_classes), np.empty(n_classes)
    map_with_inputs(theta, inputs, expert)
    log_posterior_of(base, expert, posterior)
    for k in range(n_classes):
        posterior[k] = np.exp(posterior[k])
    step = step_with_inputs(base, inputs, posterior, label, replaced, weight, start_precision, memory.input_precision)
    theta[0] = min(max(theta[0] + step[0], SMALLEST_SLOPE), LARGEST_SLOPE)
    for i in range(1, theta.size):
        largest = LARGEST_OFFSET if i < n_classes else LARGEST_COEFFICIENT
        theta[i] = min(max(theta[i] + step[i], -largest), largest)
