"""Hold what a monitor remembers, and refuse a saved memory that no watch could have written."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray
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
    wealths: FloatArray  # (1 + 2N,) shares of the evidence
    evidence: FloatArray  # (2,) its logarithm, and the peak of that
    seen: IntArray  # (4,) rows, rows of this watch, row of the alarm or 0, alarms


def restore_memory(memory: MonitorMemory, saved: Mapping[str, Any]) -> None:
    """Write saved values over those of a new memory."""
    fields = memory._asdict()
    if set(saved) != set(fields):
        raise InvalidStateError(f"the memory of a monitor holds {sorted(fields)}, got {sorted(map(str, saved))}")
    for field, values in fields.items():
        _restore(field, values, saved[field])


def check_memory(memory: MonitorMemory, hull: NullHull, *, every: int, log_alarm: float) -> None:
    """Refuse restored values that no watch could have written, above all bets that are not fair."""
    rows, watched, alarm, n_alarms = memory.seen.tolist()
    if not 0 <= watched <= rows <= LARGEST_TOTAL or not 0 <= n_alarms <= rows:
        raise InvalidStateError(f"a monitor cannot have seen {memory.seen.tolist()}")
    if alarm and not (rows - watched < alarm <= rows and n_alarms > 0):
        raise InvalidStateError(f"an alarm at row {alarm} is not in a watch of {watched} of {rows} rows")
    log_evidence, peak = memory.evidence.tolist()
    if peak < max(log_evidence, 0.0) or (peak >= log_alarm) != (alarm > 0):
        raise InvalidStateError(f"evidence {log_evidence}, peak {peak} and alarm row {alarm} contradict each other")
    if (memory.fresh < 0.0).any() or memory.fresh.sum() != watched % every:
        raise InvalidStateError("the fresh rows of a monitor must be those since bets were last placed")
    if (memory.counts < 0.0).any() or (memory.counts.sum(axis=1) > watched * (1.0 + 1e-9)).any():
        raise InvalidStateError("a monitor cannot remember more rows than it watched")
    for name in ("priors", "mixing", "parts", "wealths"):
        shares = getattr(memory, name)
        if (shares < 0.0).any() or (abs(shares.sum(axis=-1) - 1.0) > 1e-6).any():
            raise InvalidStateError(f"the {name} of a monitor must be non-negative and sum to 1")
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


def _restore(field: str, values: npt.NDArray[Any], saved: object) -> None:
    try:
        restored = np.asarray(saved)
        same_kind = restored.dtype.kind == "i" or (values.dtype.kind == "f" and restored.dtype.kind == "f")
        usable = restored.shape == values.shape and same_kind and bool(np.isfinite(restored).all())
    except (TypeError, ValueError, OverflowError):
        usable = False
    if not usable:
        kind = "whole" if values.dtype.kind == "i" else "finite"
        raise InvalidStateError(f"memory field {field!r} must hold {kind} numbers in shape {values.shape}")
    values[...] = restored
