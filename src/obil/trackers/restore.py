"""Restore whichever tracker made a saved state."""

from collections.abc import Mapping
from typing import Any

from obil import trackers
from obil.errors import InvalidStateError
from obil.trackers.tracker import CompiledTracker

# each is imported when a state of it is restored
NAMES = ("Algorithm2", "BBSE", "BayesBank", "FixedPrior", "GridFilter", "OnlineEM", "SafeTracker", "WindowEM")


def restore_tracker(state: Mapping[str, Any]) -> CompiledTracker:
    """Return the tracker that made `state`, whichever it is, resuming exactly where it stopped.

    >>> restore_tracker(trackers.FixedPrior(0.1).state()).prior
    array([0.9, 0.1])
    """
    try:
        name = str(state["tracker"])
    except (KeyError, TypeError, IndexError):
        name = ""
    if name not in NAMES:
        raise InvalidStateError(f"a tracker state names one of {list(NAMES)}, got {name!r:.40}")
    tracker: type[CompiledTracker] = getattr(trackers, name)
    return tracker.from_state(state)
