"""Mix experts into the prior of each row, weighted by the log loss of their posteriors on labels.

An expert is an affine map of the log ratios to logits: a prior is one with slope 1. Where rows have inputs, one more
expert sees them (`obil.trackers.input_expert`). It is the mixture of posteriors,
and not of priors, whose loss is bounded by that of each expert: docs/theory.md, Proposition 5.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray
from obil.compiled import compiled, inlined
from obil.trackers.input_expert import INPUT_SD, INPUT_WEIGHT, input_of, map_with_inputs, packed

LABEL_MEMORIES = (100.0, 1_000.0, np.inf)  # labels that a count of them, and a recalibration, remembers
TRAINING, GUARDED, FAST = 0, 1, 2  # experts, before those that learn from labels
N_PRIORS = 3 + len(LABEL_MEMORIES)  # experts that are priors: the rest recalibrate
N_EXPERTS = N_PRIORS + len(LABEL_MEMORIES)  # without the one that sees inputs
UNADAPTED = 0.95  # start weight of the training prior and the guarded prior together: labels have to earn the rest
FAST_WEIGHT = 0.001  # of the fast bank, which does harm wherever p(x | class) drifts
START_LABELS = 20.0  # labels that the guarded prior counts for in a count
# in the estimated prevalence: labels that the guarded prior counts for in a count, as few labels are noisier than banks
PREVALENCE_LABELS = 400.0
PREVALENCE_FAST, PREVALENCE_LEARNING = 0.1, 0.03  # start weights of the fast bank, and of what learns from labels
SLOPE_SD, OFFSET_SD = 0.3, 0.5  # how far a recalibration is expected to go
LARGEST_LOG_RATIO = 1e6  # beyond it nothing changes, and sums of two still have digits
SMALLEST_PRIOR = 1e-300
N_ARRIVALS = 64  # labels whose arrival is known exactly, by row
# of past advice: at each level, the last SLOTS stored every LEVEL_ROWS * 2^level rows
LEVELS, SLOTS, LEVEL_ROWS = 8, 3, 64


class LabelMemory(NamedTuple):
    """The weights of M experts, what they learned from labels, and the past advice of the N that see no inputs.

    Where rows have J inputs, M = N + 1; else M = N, and there is no map with inputs.
    """

    weights: FloatArray  # (M,) of the experts
    prevalence_weights: FloatArray  # (M - 1,) of those from GUARDED on, in the estimated prevalence
    counts: FloatArray  # (n, K) of labels, by propensity, in each memory
    maps: FloatArray  # (n, K) slope, then the offsets of classes 1 ... K-1, of each recalibration
    precisions: FloatArray  # (n, K, K) of those
    input_map: FloatArray  # (K + J,) slope, offsets, then a coefficient for each input; (0,) without inputs
    input_precision: FloatArray  # (P,) of those, the packed lower triangle; (0,) likewise
    past: FloatArray  # (LEVELS, SLOTS, N, K) advice stored before some rows
    past_rows: IntArray  # (LEVELS, SLOTS) before which row, -1 where none is stored
    past_labels: IntArray  # (LEVELS, SLOTS) after how many labels
    latest: FloatArray  # (N, K) advice on the last row that was decided
    arrivals: IntArray  # (N_ARRIVALS,) how many rows had been decided when each of the last labels came, in a ring
    least_propensity: FloatArray  # (1,) that a label came with
    seen: IntArray  # (2,) rows, labels

    @classmethod
    def empty(cls, n_classes: int, *, n_inputs: int = 0) -> "LabelMemory":
        """Return the memory before the first row."""
        n_memories = len(LABEL_MEMORIES)
        input_map = np.zeros(n_classes + n_inputs if n_inputs else 0)
        input_map[:1] = 1.0
        maps = np.zeros((n_memories, n_classes))
        maps[:, 0] = 1.0
        return cls(
            weights=start_weights(sees_inputs=n_inputs > 0),
            prevalence_weights=start_prevalence_weights(may_admit=False, sees_inputs=n_inputs > 0),
            counts=np.zeros((n_memories, n_classes)),
            maps=maps,
            precisions=np.tile(start_precision(n_classes), (n_memories, 1, 1)),
            input_map=input_map,
            input_precision=start_input_precision(n_classes, n_inputs),
            past=np.zeros((LEVELS, SLOTS, N_EXPERTS, n_classes)),
            past_rows=np.full((LEVELS, SLOTS), -1, dtype=np.int64),
            past_labels=np.zeros((LEVELS, SLOTS), dtype=np.int64),
            latest=np.zeros((N_EXPERTS, n_classes)),
            arrivals=np.zeros(N_ARRIVALS, dtype=np.int64),
            least_propensity=np.ones(1),
            seen=np.zeros(2, dtype=np.int64),
        )


def start_weights(unadapted: float = UNADAPTED, *, sees_inputs: bool = False) -> FloatArray:
    """Return the weights of the experts before any label, (M,).

    Labels are few at first, and what each of them changes is paid for by all rows in between: nearly all of the weight
    is on what decides without labels.
    """
    learning = N_EXPERTS - FAST - 1
    own = np.array([unadapted / 2.0] * 2 + [FAST_WEIGHT] + [(1.0 - unadapted - FAST_WEIGHT) / learning] * learning)
    return np.array([*(own * (1.0 - INPUT_WEIGHT)), INPUT_WEIGHT]) if sees_inputs else own


def start_prevalence_weights(*, may_admit: bool, sees_inputs: bool = False) -> FloatArray:
    """Return the weights in the estimated prevalence before any label, (M - 1,): the training prior has none.

    A fast bank that may never decide is no better as an estimate.
    """
    learning, fast = N_EXPERTS - FAST - 1 + sees_inputs, PREVALENCE_FAST if may_admit else FAST_WEIGHT
    return np.array([1.0 - fast - PREVALENCE_LEARNING, fast] + [PREVALENCE_LEARNING / learning] * learning)


def start_precision(n_classes: int) -> FloatArray:
    """Return the precision of a recalibration before any label, (K, K)."""
    return np.diag([1.0 / SLOPE_SD**2, *[1.0 / OFFSET_SD**2] * (n_classes - 1)])


def start_input_precision(n_classes: int, n_inputs: int) -> FloatArray:
    """Return the packed precision of a recalibration with inputs before any label, (P,), or (0,) without inputs."""
    without = np.diag(start_precision(n_classes))
    return packed(np.diag([*without, *[1.0 / INPUT_SD**2] * n_inputs])) if n_inputs else np.zeros(0)


@compiled
def advise_rows(
    rows: FloatArray,
    evidence: FloatArray,
    n_views: int,
    guarded: FloatArray,
    fast: FloatArray,
    start: FloatArray,
    lead: int,
    weights: FloatArray,
    prevalence_weights: FloatArray,
    counts: FloatArray,
    maps: FloatArray,
    input_map: FloatArray,
    past: FloatArray,
    past_rows: IntArray,
    past_labels: IntArray,
    latest: FloatArray,
    seen: IntArray,
    inputs: npt.NDArray[np.float32],
    priors: FloatArray,
    prior: FloatArray,
) -> None:
    """Write the prior each of n rows is decided with, (n, K), and the estimated prevalence after them, (K,).

    A row's prior is the one whose posterior for this row is the mixture's, also where it must not update the prior: it
    may get a label. `guarded` and `fast` are (n + 1, K);
    `evidence`, (n, S, K), holds the inputs of the rows; those of the last one are written too, (J, K-1).
    """
    n_rows, n_classes = rows.shape
    advice = np.zeros((weights.size, n_classes))
    for t in range(n_rows):
        if seen[1] > 0 or lead != GUARDED or seen[0] % LEVEL_ROWS == 0 or t == n_rows - 1:
            advise(guarded[t], fast[t], start, counts, maps, advice)
        if seen[0] % LEVEL_ROWS == 0:
            _remember(advice, past, past_rows, past_labels, seen)
        if seen[1] > 0:
            _advise_with_inputs(evidence[t], n_views, input_map, advice)
        _mixed_prior(rows[t], advice, weights, lead, seen[1], guarded[t], priors[t])
        seen[0] += 1
    if n_rows > 0:
        latest[:] = advice[: latest.shape[0]]
        for j in range(inputs.shape[0]):
            for k in range(1, n_classes):
                inputs[j, k - 1] = input_of(evidence[n_rows - 1], n_views, j, k)
    prevalence(guarded[n_rows], fast[n_rows], prevalence_weights, counts, seen[1], prior)


@compiled
def priors_of_rows(
    rows: FloatArray,
    evidence: FloatArray,
    n_views: int,
    guarded: FloatArray,
    fast: FloatArray,
    start: FloatArray,
    lead: int,
    weights: FloatArray,
    counts: FloatArray,
    maps: FloatArray,
    input_map: FloatArray,
    n_labels: int,
    priors: FloatArray,
) -> None:
    """Write the prior that rows would be decided with, (n, K), at the current `guarded` and `fast` priors, (K,)."""
    advice = np.zeros((weights.size, rows.shape[1]))
    advise(guarded, fast, start, counts, maps, advice)
    for t in range(rows.shape[0]):
        _advise_with_inputs(evidence[t], n_views, input_map, advice)
        _mixed_prior(rows[t], advice, weights, lead, n_labels, guarded, priors[t])


@compiled
def prevalence(
    guarded: FloatArray, fast: FloatArray, weights: FloatArray, counts: FloatArray, n_labels: int, prior: FloatArray
) -> None:
    """Write the estimated prevalence, (K,): the guarded prior, and the more labels come, what they make of it.

    It is not what rows are decided with. That mixture also holds the training prior and recalibrations, which may
    decide best without being a prevalence, and few labels, which are noisy. Here both banks and the label counts are
    mixed by weights of their own, the counts with more of the guarded prior in them; the weight of recalibrations goes
    to the count of all labels, for where they win the ratio is off, and so are the banks.
    """
    for k in range(guarded.size):
        prior[k] = guarded[k]
    if n_labels == 0:
        return
    learned = n_labels / (n_labels + START_LABELS)
    n_counts = counts.shape[0]
    for k in range(guarded.size):
        mixed = weights[0] * guarded[k] + weights[1] * fast[k]
        for c in range(n_counts):
            weight = weights[2 + c] + (weights[2 + n_counts :].sum() if c == n_counts - 1 else 0.0)
            mixed += weight * (PREVALENCE_LABELS * guarded[k] + counts[c, k]) / (PREVALENCE_LABELS + counts[c].sum())
        prior[k] = (1.0 - learned) * guarded[k] + learned * mixed
    prior /= prior.sum()


@compiled
def advise(
    guarded: FloatArray, fast: FloatArray, start: FloatArray, counts: FloatArray, maps: FloatArray, advice: FloatArray
) -> None:
    """Write each expert's slope, and its logits of classes 1 ... K-1 against class 0 for a row without information.

    The expert that sees inputs is left out: its logits differ from row to row.
    """
    n_counts = counts.shape[0]
    for m in range(advice.shape[0]):
        advice[m, 0] = 1.0
    for k in range(1, guarded.size):
        advice[TRAINING, k] = np.log(start[k] / start[0])
        advice[GUARDED, k] = np.log(guarded[k] / guarded[0])
        advice[FAST, k] = np.log(fast[k] / fast[0])
    for c in range(n_counts):
        for k in range(1, guarded.size):
            advice[FAST + 1 + c, k] = np.log(
                (START_LABELS * guarded[k] + counts[c, k]) / (START_LABELS * guarded[0] + counts[c, 0])
            )
    for a in range(maps.shape[0]):
        m = FAST + 1 + n_counts + a
        advice[m, 0] = maps[a, 0]
        for k in range(1, guarded.size):
            advice[m, k] = maps[a, 0] * advice[GUARDED, k] + maps[a, k]


@inlined
def _advise_with_inputs(evidence: FloatArray, n_views: int, input_map: FloatArray, advice: FloatArray) -> None:
    """Write the advice on one row of the expert that sees its inputs, from its evidence, (S, K)."""
    n_classes = advice.shape[1]
    if input_map.size == 0:
        return
    inputs = np.empty((input_map.size - n_classes, n_classes - 1))
    for j in range(inputs.shape[0]):
        for k in range(1, n_classes):
            inputs[j, k - 1] = input_of(evidence, n_views, j, k)
    own = advice[advice.shape[0] - 1]
    map_with_inputs(input_map, inputs, own)
    for k in range(1, n_classes):
        own[k] += own[0] * advice[GUARDED, k]


@inlined
def log_posterior_of(log_ratios: FloatArray, expert: FloatArray, logs: FloatArray) -> None:
    """Write the log posterior of a row under one expert, (K,)."""
    logs[0] = 0.0
    largest = 0.0
    for k in range(1, log_ratios.size):
        logs[k] = expert[0] * _within_reach(log_ratios[k]) + expert[k]
        largest = max(largest, logs[k])
    total = 0.0
    for k in range(log_ratios.size):
        total += np.exp(logs[k] - largest)
    largest += np.log(total)
    for k in range(log_ratios.size):
        logs[k] -= largest


@inlined
def _mixed_prior(
    log_ratios: FloatArray,
    advice: FloatArray,
    weights: FloatArray,
    lead: int,
    n_labels: int,
    guarded: FloatArray,
    prior: FloatArray,
) -> None:
    """Write the prior whose posterior for this row is the mixture's: before any label, that of the leading expert."""
    n_classes = log_ratios.size
    if n_labels == 0 and lead == GUARDED:
        for k in range(n_classes):
            prior[k] = guarded[k]
        return
    logs = np.empty((weights.size, n_classes))
    for m in range(weights.size):
        log_posterior_of(log_ratios, advice[m], logs[m])
    mixed = np.empty(n_classes)
    for k in range(n_classes):
        if n_labels == 0:
            mixed[k] = logs[lead, k]
        else:
            mixed[k] = _log_of_mixture(logs[:, k], weights)
        mixed[k] -= _within_reach(log_ratios[k])
    largest = mixed.max()
    total = 0.0
    for k in range(n_classes):
        prior[k] = max(np.exp(mixed[k] - largest), SMALLEST_PRIOR)
        total += prior[k]
    for k in range(n_classes):
        prior[k] /= total


@inlined
def _log_of_mixture(logs: FloatArray, weights: FloatArray) -> float:
    """Return log sum_m w_m exp(logs_m), however small."""
    largest = -np.inf
    for m in range(weights.size):
        if weights[m] > 0.0:
            largest = max(largest, logs[m])
    total = 0.0
    for m in range(weights.size):
        if weights[m] > 0.0:
            total += weights[m] * np.exp(logs[m] - largest)
    return float(largest + np.log(total))


@inlined
def _within_reach(log_ratio: float) -> float:
    return min(max(log_ratio, -LARGEST_LOG_RATIO), LARGEST_LOG_RATIO)


@inlined
def _remember(advice: FloatArray, past: FloatArray, past_rows: IntArray, past_labels: IntArray, seen: IntArray) -> None:
    """Store the advice before a row: the recent past densely, the far past sparsely."""
    every = LEVEL_ROWS
    for level in range(past_rows.shape[0]):
        if seen[0] % every == 0:
            slot = (seen[0] // every) % past_rows.shape[1]
            past[level, slot] = advice[: past.shape[2]]
            past_rows[level, slot] = seen[0]
            past_labels[level, slot] = seen[1]
        every *= 2
