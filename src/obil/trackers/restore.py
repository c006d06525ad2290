"""Restore whichever tracker made a saved state."""

from collections.abc import Mapping
from typing import Any

from obil.errors import InvalidStateError
from obil.trackers.algorithm2 import Algorithm2
from obil.trackers.bayes_bank import BayesBank
from obil.trackers.bbse import BBSE
from obil.trackers.fixed_prior import FixedPrior
from obil.trackers.grid_filter import GridFilter
from obil.trackers.online_em import OnlineEM
from obil.trackers.safe_tracker import SafeTracker
from obil.trackers.tracker import CompiledTracker
from obil.trackers.window_em import WindowEM

TRACKERS: dict[str, type[CompiledTracker]] = {
    tracker.__name__: tracker
    for tracker in (SafeTracker, BayesBank, GridFilter, Algorithm2, OnlineEM, WindowEM, BBSE, FixedPrior)
}


def restore_tracker(state: Mapping[str, Any]) -> CompiledTracker:
    """Return the tracker that made `state`, whichever it is, resuming exactly where it stopped.

    >>> restore_tracker(FixedPrior(0.1).state()).prior
    array([0.9, 0.1])
    """
    try:
        name = str(state["tracker"])
    except (KeyError, TypeError, IndexError):
        name = ""
    if name not in TRACKERS:
        raise InvalidStateError(f"a tracker state names one of {sorted(TRACKERS)}, got {name!r:.40}")
    return TRACKERS[name].from_state(state)
