"""Make whichever tracker settings name, and restore whichever made a saved state."""

from collections.abc import Mapping
from typing import Any

from obil import trackers
from obil.errors import InvalidStateError
from obil.trackers.tracker import CompiledTracker

# each is imported when one of it is restored
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
    return _named(name).from_state(state)


def tracker_from_settings(name: Any, settings: Mapping[str, Any]) -> CompiledTracker:
    """Return the named tracker with these settings, its start prior among them.

    >>> tracker_from_settings("BayesBank", {"prior": [0.9, 0.1]}).prior
    array([0.9, 0.1])
    """
    return _named(name).from_settings(settings)


def _named(name: Any) -> type[CompiledTracker]:
    if name not in NAMES:
        raise InvalidStateError(f"a tracker state names one of {list(NAMES)}, got {name!r:.40}")
    tracker: type[CompiledTracker] = getattr(trackers, name)
    return tracker
