"""Let the stream of one key of a fleet be used as an `OnlineClassifier`."""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from obil.errors import InvalidInputError
from obil.online.decision import Decision, Decisions
from obil.online.online_classifier import OnlineClassifier

if TYPE_CHECKING:
    from obil.online.online_fleet import OnlineFleet

DECIDES = ("decide", "decide_many", "decide_scores", "decide_log_ratios")  # of an `OnlineClassifier`


class FleetStream:
    """The stream of one key: whatever is asked of it, the fleet's `OnlineClassifier` of that key answers.

    Its settings are the fleet's, and are changed there.
    """

    __slots__ = ("_fleet", "_key")

    def __init__(self, fleet: "OnlineFleet", key: Hashable) -> None:
        object.__setattr__(self, "_fleet", fleet)
        object.__setattr__(self, "_key", key)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._stream(), name)
        return self._gathering(value) if name in DECIDES else value

    def __setattr__(self, name: str, value: Any) -> None:
        raise InvalidInputError(
            f"{name} of {self._key!r:.60} cannot be set: all streams of a fleet have its settings. Set fleet.policy, "
            "or make another fleet"
        )

    def __repr__(self) -> str:
        return repr(self._stream())

    def _gathering(self, decide: Callable[..., Decision | Decisions]) -> Callable[..., Decision | Decisions]:
        """Return a method that decides and tells the fleet what the rows say of the key's prior."""
        fleet: OnlineFleet = self._fleet

        def decided(*args: Any, **options: Any) -> Decision | Decisions:
            found = decide(*args, **options)
            evidence = found.evidence[None] if isinstance(found, Decision) else found.evidence
            fleet._gather(self._key, evidence, np.atleast_1d(found.trusted))
            return found

        return decided

    def _stream(self) -> OnlineClassifier:
        fleet: OnlineFleet = self._fleet
        if self._key not in fleet:
            raise KeyError(self._key)  # it was forgotten
        return fleet._opened(self._key)
