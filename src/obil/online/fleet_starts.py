"""Make the streams that new keys of a fleet are copied from: one for each common level that it had."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from obil.online.fleet_level import FleetLevel
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.resume import resumed, settings_in
from obil.policies import Policy
from obil.trackers import BayesBank
from obil.trackers.bayes_bank import SLOW_START_ROWS

FEWEST_START_ROWS = 10.0  # what a bank takes by itself


class FleetStarts:
    """The streams that keys start as: number 0 at the prior of the settings, number i at the i-th common level.

    A key starts as the newest and stays with it, so that what it decides follows from its rows and from the log.
    """

    def __init__(self, model: Any, settings: dict[str, Any], levels: Iterable[FleetLevel]) -> None:
        self.levels = list(levels)
        self._settings = settings
        self.plain = OnlineClassifier(model, **settings)
        self._made = {0: self.plain}

    @property
    def newest(self) -> int:
        """The number of the stream that new keys start as."""
        return len(self.levels)

    def __getitem__(self, number: int) -> OnlineClassifier:
        if number not in self._made:
            self._made[number] = self._at(self.levels[number - 1])
        return self._made[number]

    def keep(self, numbers: Iterable[int]) -> None:
        """Let go of all but these; they are made again when a key comes back that started so."""
        kept = {0, *numbers}
        self._made = {number: made for number, made in self._made.items() if number in kept}

    def set_policy(self, policy: Policy | str) -> None:
        """Give all of them another policy."""
        self.plain.policy = policy
        for made in self._made.values():
            made.policy = self.plain.policy

    def restored(self, state: bytes, *, name: str) -> tuple[int, OnlineClassifier]:
        """Return the number of the stream that a saved one started as, and the saved one."""
        number = 0
        if self.levels:
            started = settings_in(self.plain.model, state)["tracker"][1].get("prior")
            at = [i for i, level in enumerate(self.levels, start=1) if list(level.prior) == started]
            number = at[-1] if at else 0
        return number, resumed(self[number], state, name=name, change_policy=True)

    def _at(self, level: FleetLevel) -> OnlineClassifier:
        bank, started = self.plain.tracker, dict[str, Any](prior=np.array(level.prior))
        if isinstance(bank, BayesBank) and bank.settings["start_rows"] is None:
            # a level is the prior of a key's prior, as if these labelled rows had been seen; a bank forgets such, too
            rows = float(np.clip(level.size, FEWEST_START_ROWS, SLOW_START_ROWS))
            started["tracker"] = BayesBank(**bank.settings | {"start_rows": rows})
        online = OnlineClassifier(self.plain.model, **self._settings | started)
        online.policy = self.plain.policy
        return online
