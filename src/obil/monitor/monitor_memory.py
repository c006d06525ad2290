"""Hold the memory of a monitoring run, update its wealth with each row, and refuse one that no run can have left."""

from typing import NamedTuple

import numpy as np

from obil.arrays import BoolArray, FloatArray, IntArray
from obil.bayes.posterior import sums_to_one
from obil.compiled import compiled
from obil.errors import InvalidStateError
from obil.monitor.null_hull import NullHull

LARGEST_TOTAL = 1e15  # rows; no stream is longer
CASH = 0.2  # not bet at the start, so that a long stream without change costs no more than this
# Rows after which half of the wealth is redistributed. A bet that lost on 100,000 good rows is then
# back in play when they turn bad; each row of a million moves one part in a million, too little to notice.
PATIENCE = 10_000.0


class MonitorMemory(NamedTuple):
    """J warps and M running histograms are N = J + M alternatives, bet on at full and at half stake."""

    fresh: FloatArray  # (B,) rows since bets were last placed
    counts: FloatArray  # (M, B) rows before, as far as each memory goes
    priors: FloatArray  # (1 + J, K) that fit the recent rows best, unwarped and under each warp
    mixing: FloatArray  # (N, K) of the point of the hull closest to each alternative
    parts: FloatArray  # (N, K, B) what it mixes
    pays: FloatArray  # (1 + 2N, B) in each bin
    wealths: FloatArray  # (1 + 2N,) fractions of the evidence
    paid: FloatArray  # (1 + 2N,) sums of what the bets paid in the block that is not full yet
    evidence: FloatArray  # (2,) its logarithm, and the peak of that
    seen: IntArray  # (4,) rows, rows of this run, row of the alarm or 0, alarms


class MonitorConstants(NamedTuple):
    """What the kernels take beside the memory."""

    kept: FloatArray  # (M,)
    warped: FloatArray  # (1 + J, K, B)
    start_prior: FloatArray  # (K,)
    histograms: FloatArray  # (K, B)
    radii: FloatArray  # (K,)
    start_wealths: FloatArray  # (1 + 2N,)
    log_alarm: float
    block: int
    every: int


FAULTS = (
    "",
    "a monitor cannot have seen so many rows and alarms",
    "the alarm of a monitor must lie in its monitoring run",
    "the evidence of a monitor, its peak and its alarm contradict each other",
    "the fresh rows of a monitor must be among those since bets were last placed",
    "a monitor cannot remember more rows than it has seen",
    "the priors, the mixing, the parts and the wealths of a monitor must be non-negative and sum to 1",
    "the priors, the closest points and the cash of a monitor are never 0",
    "cash pays 1",
    "the bets of a monitor cannot have paid so much since the block began",
    "the bets of a monitor must be fair under every prior",
)


def check_memory(memory: MonitorMemory, hull: NullHull, *, every: int, block: int, log_alarm: float) -> None:
    """Refuse restored values that no monitoring run could have written, in particular bets that are not fair."""
    fault = _fault(*memory, every, block, log_alarm) or (0 if hull.is_fair(memory.pays) else len(FAULTS) - 1)
    if fault:
        raise InvalidStateError(FAULTS[fault])


@compiled
def _fault(  # noqa: PLR0911  # one for each rule
    fresh: FloatArray,
    counts: FloatArray,
    priors: FloatArray,
    mixing: FloatArray,
    parts: FloatArray,
    pays: FloatArray,
    wealths: FloatArray,
    paid: FloatArray,
    evidence: FloatArray,
    seen: IntArray,
    every: int,
    block: int,
    log_alarm: float,
) -> int:
    """Return which of FAULTS, the last apart, a restored memory has."""
    rows, monitored, alarm, n_alarms = seen[0], seen[1], seen[2], seen[3]
    if not (0 <= monitored <= rows <= LARGEST_TOTAL and 0 <= n_alarms <= rows):
        return 1
    if alarm != 0 and not (rows - monitored < alarm <= rows and n_alarms > 0):
        return 2
    if evidence[1] < max(evidence[0], 0.0) or (evidence[1] >= log_alarm) != (alarm > 0):
        return 3
    if (fresh < 0.0).any() or (fresh != np.floor(fresh)).any() or fresh.sum() > monitored % every:
        return 4
    for m in range(counts.shape[0]):
        if (counts[m] < 0.0).any() or not counts[m].sum() <= monitored * (1.0 + 1e-9):
            return 5
    n_alternatives, n_classes = mixing.shape
    if not sums_to_one(wealths):
        return 6
    for j in range(priors.shape[0]):
        if not sums_to_one(priors[j]):
            return 6
        if (priors[j] < 1e-100).any():
            return 7
    for j in range(n_alternatives):
        if not sums_to_one(mixing[j]):
            return 6
        for k in range(n_classes):
            if not sums_to_one(parts[j, k]):
                return 6
        for b in range(fresh.size):
            closest = 0.0
            for k in range(n_classes):
                closest += mixing[j, k] * parts[j, k, b]
            if closest < 1e-100:
                return 7
    if (mixing < 1e-12).any() or wealths[0] < 1e-12:  # a kernel keeps them above; below, it would divide by nothing
        return 7
    if (pays[0] != 1.0).any():
        return 8
    n_open = monitored % block  # rows of the block that is not full yet; cash pays 1 for each
    for j in range(paid.size):
        least, most = min(pays[j].min(), 1.0), max(pays[j].max(), 1.0)  # 1 of a row that is not bet on
        if not n_open * least * (1.0 - 1e-9) <= paid[j] <= n_open * most * (1.0 + 1e-9):
            return 9
    return 0 if paid[0] == n_open else 9


def start_wealths(n_alternatives: int) -> FloatArray:
    """Return the fractions in cash, then at full stake and at half stake in each alternative, (1 + 2N,)."""
    return np.concatenate([[CASH], np.full(2 * n_alternatives, (1.0 - CASH) / (2 * n_alternatives))])


@compiled
def place_stakes(bets: FloatArray, pays: FloatArray) -> None:
    """Write what cash, full stakes and half stakes pay, (1 + 2N, B), where the bets pay `bets` (N, B)."""
    n_bets = bets.shape[0]
    pays[0] = 1.0
    for j in range(n_bets):
        for b in range(bets.shape[1]):
            pays[1 + j, b] = bets[j, b]
            pays[1 + n_bets + j, b] = 0.5 + 0.5 * bets[j, b]


@compiled
def update_wealths(
    numbers: IntArray,
    trusted: BoolArray,
    pays: FloatArray,
    start: FloatArray,
    log_alarm: float,
    block: int,
    wealths: FloatArray,
    paid: FloatArray,
    fresh: FloatArray,
    evidence: FloatArray,
    seen: IntArray,
) -> int:
    """Update with rows of these bin numbers (n,), in order; write whether the stream was trusted *before* each.

    A row without a bin, -1, is counted, and nothing is bet on it.

    Wealth only grows by what fair bets pay and is only moved between them: all of it together is a test martingale.
    Over a block of rows it grows by the mean of what the bets pay. Proof: docs/theory.md, Proposition 8. `wealths`
    (1 + 2N,) are fractions of it; its logarithm and the peak of that are `evidence`. `seen` counts rows in all and in
    this run, and holds the row of the alarm and the number of alarms. Returns the rows of this run.
    """
    n_bets = wealths.size
    for t in range(numbers.size):
        trusted[t] = seen[2] == 0
        b = numbers[t]
        for j in range(n_bets):
            paid[j] += pays[j, b] if b >= 0 else 1.0
        if b >= 0:
            fresh[b] += 1.0
        seen[0] += 1
        seen[1] += 1
        if seen[1] % block != 0:
            continue
        total = 0.0
        for j in range(n_bets):
            wealths[j] *= paid[j] / block
            paid[j] = 0.0
            total += wealths[j]
        moved = block / (PATIENCE + seen[1] - 1)
        kept = (1.0 - moved) / total
        for j in range(n_bets):
            wealths[j] = kept * wealths[j] + moved * start[j]
        evidence[0] += np.log(total)
        evidence[1] = max(evidence[1], evidence[0])
        if seen[2] == 0 and evidence[0] >= log_alarm:
            seen[2] = seen[0]
            seen[3] += 1
    return int(seen[1])
