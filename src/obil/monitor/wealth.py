"""Multiply the wealth of every bet by what it pays on each row, and move a little between the bets."""

import numpy as np

from obil.arrays import BoolArray, FloatArray, IntArray
from obil.compiled import compiled

CASH = 0.2  # not bet at the start, so that a long stream without change costs no more than this
# Rows after which half of the wealth is redistributed. A bet that lost on 100,000 good rows is then
# back in play when they turn bad; each row of a million moves one part in a million, too little to notice.
PATIENCE = 10_000.0


def start_wealths(n_alternatives: int) -> FloatArray:
    """Return the fractions in cash, then at full stake and at half stake in each alternative, (1 + 2N,)."""
    return np.concatenate([[CASH], np.full(2 * n_alternatives, (1.0 - CASH) / (2 * n_alternatives))])


def payoffs(bets: FloatArray) -> FloatArray:
    """Return what cash, full stakes and half stakes pay, (1 + 2N, B), where the bets pay `bets` (N, B)."""
    return np.concatenate([np.ones((1, bets.shape[1])), bets, 0.5 + 0.5 * bets])


@compiled
def update_wealths(
    numbers: IntArray,
    trusted: BoolArray,
    pays: FloatArray,
    start: FloatArray,
    log_alarm: float,
    wealths: FloatArray,
    fresh: FloatArray,
    evidence: FloatArray,
    seen: IntArray,
) -> int:
    """Update with rows of these bin numbers (n,), in order; write whether the stream was trusted *before* each.

    Wealth only grows by what fair bets pay and is only moved between them, so that all of it together is a
    test martingale. `wealths` (1 + 2N,) are fractions of it; its logarithm and the peak of that are `evidence`.
    `seen` counts rows in all and in this run, and holds the row of the alarm and the number of alarms.
    Returns the rows of this run.
    """
    n_bets = wealths.size
    for t in range(numbers.size):
        trusted[t] = seen[2] == 0
        b = numbers[t]
        total = 0.0
        for j in range(n_bets):
            wealths[j] *= pays[j, b]
            total += wealths[j]
        moved = 1.0 / (PATIENCE + seen[1])
        kept = (1.0 - moved) / total
        for j in range(n_bets):
            wealths[j] = kept * wealths[j] + moved * start[j]
        fresh[b] += 1.0
        seen[0] += 1
        seen[1] += 1
        evidence[0] += np.log(total)
        evidence[1] = max(evidence[1], evidence[0])
        if seen[2] == 0 and evidence[0] >= log_alarm:
            seen[2] = seen[0]
            seen[3] += 1
    return int(seen[1])
