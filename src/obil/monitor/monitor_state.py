"""Hold the memory of a monitor, and refuse a saved one that no monitoring run could have written."""

from typing import NamedTuple

import numpy as np

from obil.arrays import FloatArray, IntArray, require_distributions
from obil.errors import InvalidStateError
from obil.monitor.null_hull import NullHull

LARGEST_TOTAL = 1e15  # rows; no stream is longer


class MonitorMemory(NamedTuple):
    """J warps and M running histograms are N = J + M alternatives, bet on at full and at half stake."""

    fresh: FloatArray  # (B,) rows since bets were last placed
    counts: FloatArray  # (M, B) rows before, as far as each memory goes
    priors: FloatArray  # (1 + J, K) that fit the recent rows best, unwarped and under each warp
    mixing: FloatArray  # (N, K) of the point of the hull closest to each alternative
    parts: FloatArray  # (N, K, B) what it mixes
    pays: FloatArray  # (1 + 2N, B) in each bin
    wealths: FloatArray  # (1 + 2N,) fractions of the evidence
    evidence: FloatArray  # (2,) its logarithm, and the peak of that
    seen: IntArray  # (4,) rows, rows of this run, row of the alarm or 0, alarms


def check_memory(memory: MonitorMemory, hull: NullHull, *, every: int, log_alarm: float) -> None:
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
    for values, least in (
        (memory.priors, 1e-100),
        (memory.mixing, 1e-12),
        (closest, 1e-100),
        (memory.wealths[:1], 1e-12),
    ):
        if (values < least).any():  # a kernel keeps them above; below, it would divide by nothing
            raise InvalidStateError("the priors, the closest points and the cash of a monitor are never 0")
    if (memory.pays < 0.0).any() or max(hull.largest_mean(pay) for pay in memory.pays) > 1.0 + 1e-9:
        raise InvalidStateError("the bets of a monitor must be fair under every prior")
    if (memory.pays[0] != 1.0).any():
        raise InvalidStateError("cash pays 1")
