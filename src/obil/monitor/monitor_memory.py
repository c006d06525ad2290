"""Hold the memory of a monitoring run, update its wealth with each row, and refuse one that no run can have left."""

from typing import NamedTuple

import numpy as np

from obil.arrays import BoolArray, FloatArray, IntArray, require_distributions
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


def check_memory(memory: MonitorMemory, hull: NullHull, *, every: int, block: int, log_alarm: float) -> None:
    """Refuse restored values that no monitoring run could have written, in particular bets that are not fair."""
    rows, monitored, alarm, n_alarms = memory.seen.tolist()
    if not 0 <= monitored <= rows <= LARGEST_TOTAL or not 0 <= n_alarms <= rows:
        raise InvalidStateError(f"a monitor cannot have seen {memory.seen.tolist()}")
    if alarm and not (rows - monitored < alarm <= rows and n_alarms > 0):
        raise InvalidStateError(f"an alarm at row {alarm} is not in a monitoring run of {monitored} of {rows} rows")
    log_evidence, peak = memory.evidence.tolist()
    if peak < max(log_evidence, 0.0) or (peak >= log_alarm) != (alarm > 0):
        raise InvalidStateError(f"evidence {log_evidence}, peak {peak} and alarm row {alarm} contradict each other")
    if (memory.fresh < 0.0).any() or memory.fresh.sum() != monitored % every:
        raise InvalidStateError("the fresh rows of a monitor must be those since bets were last placed")
    if (memory.counts < 0.0).any() or (memory.counts.sum(axis=1) > monitored * (1.0 + 1e-9)).any():
        raise InvalidStateError("a monitor cannot remember more rows than it has seen")
    for name in ("priors", "mixing", "parts", "wealths"):
        require_distributions(f"the {name} of a monitor", getattr(memory, name))
    closest = np.einsum("nk,nkb->nb", memory.mixing, memory.parts)
    least = {1e-100: (memory.priors, closest), 1e-12: (memory.mixing, memory.wealths[:1])}
    for smallest, arrays in least.items():  # a kernel keeps them above; below, it would divide by nothing
        if any((values < smallest).any() for values in arrays):
            raise InvalidStateError("the priors, the closest points and the cash of a monitor are never 0")
    if (memory.pays < 0.0).any() or max(hull.largest_mean(pay) for pay in memory.pays) > 1.0 + 1e-9:
        raise InvalidStateError("the bets of a monitor must be fair under every prior")
    if (memory.pays[0] != 1.0).any():
        raise InvalidStateError("cash pays 1")
    n_open = monitored % block  # rows of the block that is not full yet; cash pays 1 for each
    least, most = n_open * memory.pays.min(axis=1) * (1.0 - 1e-9), n_open * memory.pays.max(axis=1) * (1.0 + 1e-9)
    if memory.paid[0] != n_open or (memory.paid < least).any() or (memory.paid > most).any():
        raise InvalidStateError(
            f"the bets of a monitor cannot have paid {memory.paid.tolist()!r:.80} since the block began"
        )


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
    block: int,
    wealths: FloatArray,
    paid: FloatArray,
    fresh: FloatArray,
    evidence: FloatArray,
    seen: IntArray,
) -> int:
    """Update with rows of these bin numbers (n,), in order; write whether the stream was trusted *before* each.

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
            paid[j] += pays[j, b]
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
