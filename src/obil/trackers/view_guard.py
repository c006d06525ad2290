"""Hold a tracked prior back where the ratio is sensitive to drift, or the views disagree.

Everything is measured in x = arcsin sqrt(P), where an estimate of P has about the same noise everywhere, one class
against the rest at a time: the second of two classes, each of more.
"""

from typing import NamedTuple

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.bayes.one_vs_rest import row_vs_rest
from obil.compiled import compiled, inlined

BLOCK_ROWS = 500
KEPT_EACH_BLOCK = (0.9, 0.98)  # two memories of a disagreement: about 5,000 and 25,000 rows
ALARM = 4.0  # standard deviations of a disagreement: eight are looked at in each block
QUIET_BLOCKS = 6  # without an alarm, until fast memories are admitted
SLOW, FAST = 0, 1  # banks
LONGEST_STEP, LARGEST_SHIFT = 0.2, 1.2  # of a view's own prior from the reference, in x
EDGE = 2e-3  # x stays this far from 0 and from pi/2
LARGEST_LOG_RATIO = 30.0
LEAST_VARIANCE = 1e-12
MOST_INFORMATION = 4.0  # that a row can have on x; near the edges a single certain row would seem to have far more


class GuardMemory(NamedTuple):
    """Sums over rows for W = V + 1 models (the main one first, then its views), over C classes and R memories."""

    shifts: FloatArray  # (R, W, C) how far each model's own prior lies from the reference
    information: FloatArray  # (R, W, C) on those shifts
    squares: FloatArray  # (R, W, C) squared scores, forgotten twice as fast: the variance of the shifts
    products: FloatArray  # (R, W, C) scores times those of the main model
    block: FloatArray  # (3, R, W, C) of the block so far: scores, their squares, their products
    reference: FloatArray  # (C,) the sum of the reference priors in the block so far
    bounds: FloatArray  # (C, 2) how far down and up the excess disagreement reaches
    disagreement: FloatArray  # (1,) the largest of the last block, in standard deviations
    seen: IntArray  # (2,) rows in the block so far, blocks since the last alarm

    @classmethod
    def empty(cls, n_models: int, n_classes: int) -> "GuardMemory":
        """Return the memory before the first row."""
        n_monitored = 1 if n_classes == 2 else n_classes
        shape = (len(KEPT_EACH_BLOCK), n_models, n_monitored)
        return cls(
            shifts=np.zeros(shape),
            information=np.zeros(shape),
            squares=np.zeros(shape),
            products=np.zeros(shape),
            block=np.zeros((3, *shape)),
            reference=np.zeros(n_monitored),
            bounds=np.zeros((n_monitored, 2)),
            disagreement=np.zeros(1),
            seen=np.zeros(2, dtype=np.int64),
        )


@compiled
def guard_rows(
    rows: FloatArray,
    views: FloatArray,
    slow: FloatArray,
    fast: FloatArray,
    start: FloatArray,
    kept: FloatArray,
    grid: FloatArray,
    expected: FloatArray,
    shrinkage: FloatArray,
    noise: FloatArray,
    least_information: FloatArray,
    may_admit: bool,
    shifts: FloatArray,
    information: FloatArray,
    squares: FloatArray,
    products: FloatArray,
    block: FloatArray,
    reference: FloatArray,
    bounds: FloatArray,
    disagreement: FloatArray,
    seen: IntArray,
    guarded: FloatArray,
) -> None:
    """Write the guarded prior before each of n rows, and the one after the last, (n + 1, K).

    `slow` and `fast` are the priors of the two banks, (n + 1, K), and `shrinkage` is theirs, (2, C, G); `views`
    (n, V, K), with V = 0 where there are none. A row of NaN changes nothing.
    """
    n_rows, n_classes = rows.shape
    n_views, n_monitored = views.shape[1], bounds.shape[0]
    ratios = np.empty(n_views + 1)
    for t in range(n_rows + 1):
        if may_admit and seen[1] >= QUIET_BLOCKS:
            _hold_back(fast[t], start, grid, shrinkage[FAST], bounds, guarded[t])
        else:
            _hold_back(slow[t], start, grid, shrinkage[SLOW], bounds, guarded[t])
        if t == n_rows or n_views == 0 or np.isnan(rows[t, n_classes - 1]):
            continue
        for c in range(n_monitored):
            k = 1 if n_classes == 2 else c
            reference[c] += fast[t, k]
            centre = np.arcsin(np.sqrt(min(fast[t, k], 1.0)))
            for w in range(n_views + 1):
                log_ratio = row_vs_rest(rows[t] if w == 0 else views[t, w - 1], fast[t], k)
                ratios[w] = np.exp(min(max(log_ratio, -LARGEST_LOG_RATIO), LARGEST_LOG_RATIO))
            for r in range(shifts.shape[0]):
                main = 0.0
                for w in range(n_views + 1):
                    ratio = ratios[w]
                    x = min(max(centre + shifts[r, w, c], EDGE), 0.5 * np.pi - EDGE)
                    score = np.sin(2.0 * x) * (ratio - 1.0) / (1.0 + np.sin(x) ** 2 * (ratio - 1.0))
                    if w == 0:
                        main = score
                    block[0, r, w, c] += score
                    block[1, r, w, c] += score * score
                    block[2, r, w, c] += score * main
        seen[0] += 1
        if seen[0] == BLOCK_ROWS:
            memory = GuardMemory(shifts, information, squares, products, block, reference, bounds, disagreement, seen)
            _end_block(start, kept, grid, expected, noise, least_information, memory)


@inlined
def _hold_back(
    tracked: FloatArray,
    start: FloatArray,
    grid: FloatArray,
    shrinkage: FloatArray,
    bounds: FloatArray,
    guarded: FloatArray,
) -> None:
    """Write `tracked` shrunk towards the start prior.

    A move m of x is scaled by 1 - (a / m)^2, where a is the shrinkage, how far x may move though the prior does not;
    then it is taken back as far as the views' excess disagreement reaches towards the start.
    """
    n_classes, n_monitored = tracked.size, bounds.shape[0]
    for k in range(n_classes):
        guarded[k] = tracked[k]
    moved = False
    for c in range(n_monitored):
        k = 1 if n_classes == 2 else c
        allowed = max(np.interp(tracked[k], grid, shrinkage[c]), np.interp(start[k], grid, shrinkage[c]))
        if allowed == 0.0 and bounds[c, 0] == 0.0 and bounds[c, 1] == 0.0:
            continue
        origin = np.arcsin(np.sqrt(min(start[k], 1.0)))
        move = np.arcsin(np.sqrt(min(tracked[k], 1.0))) - origin
        if abs(move) <= allowed:
            move = 0.0
        else:
            move *= 1.0 - (allowed / move) ** 2
        move = min(max(0.0, move + bounds[c, 0]), move + bounds[c, 1])
        guarded[k] = start[k] if move == 0.0 else np.sin(origin + move) ** 2
        if n_classes == 2:
            guarded[0] = start[0] if move == 0.0 else np.cos(origin + move) ** 2
        moved = True
    if moved and n_classes > 2:
        total = 0.0
        for k in range(n_classes):
            total += guarded[k]
        for k in range(n_classes):
            guarded[k] /= total


@inlined
def _end_block(
    start: FloatArray,
    kept: FloatArray,
    grid: FloatArray,
    expected: FloatArray,
    noise: FloatArray,
    least_information: FloatArray,
    memory: GuardMemory,
) -> None:
    """Move each model's shift by one Newton step, and measure how far the views disagree beyond their noise.

    A rise of the rarer class needs all views but one of three or more, a fall needs them all: a model
    that ages finds fewer of the rare rows, so that a drift of p(x | class) mostly looks as if they had become rarer.
    """
    shifts, information, squares, products, block, reference, bounds, disagreement, seen = memory
    n_memories, n_models, n_monitored = shifts.shape
    n_views, largest = n_models - 1, 0.0
    excess = np.empty(n_views)
    for c in range(n_monitored):
        bounds[c, 0], bounds[c, 1] = 0.0, 0.0
        level = reference[c] / BLOCK_ROWS
        for r in range(n_memories):
            for w in range(n_models):
                told = min(block[1, r, w, c], MOST_INFORMATION * BLOCK_ROWS)
                information[r, w, c] = max(
                    kept[r] * information[r, w, c] + told, least_information[w, c], LEAST_VARIANCE
                )
                squares[r, w, c] = kept[r] ** 2 * squares[r, w, c] + block[1, r, w, c]
                products[r, w, c] = kept[r] ** 2 * products[r, w, c] + block[2, r, w, c]
                step = block[0, r, w, c] / information[r, w, c]
                shift = shifts[r, w, c] + min(max(step, -LONGEST_STEP), LONGEST_STEP)
                shifts[r, w, c] = min(max(shift, -LARGEST_SHIFT), LARGEST_SHIFT)
            main = information[r, 0, c]
            for w in range(1, n_models):
                apart = shifts[r, w, c] - shifts[r, 0, c] - np.interp(level, grid, expected[c, w - 1])
                variance = squares[r, w, c] / information[r, w, c] ** 2 + squares[r, 0, c] / main**2
                variance -= 2.0 * products[r, w, c] / (information[r, w, c] * main)
                deviation = np.sqrt(max(variance, 0.0) + noise[w - 1, c] + LEAST_VARIANCE)
                excess[w - 1] = np.sign(apart) * max(abs(apart) - deviation, 0.0)
                largest = max(largest, abs(apart) / deviation)
            excess.sort()
            spared = 1 if n_views > 2 else 0
            rare = start[1 if start.size == 2 else c] <= 0.5
            bounds[c, 0] = min(bounds[c, 0], excess[spared if rare else 0])
            bounds[c, 1] = max(bounds[c, 1], excess[n_views - 1 - (0 if rare else spared)])
        reference[c] = 0.0
    block[:] = 0.0
    disagreement[0] = largest
    seen[0] = 0
    seen[1] = 0 if largest > ALARM else seen[1] + 1
