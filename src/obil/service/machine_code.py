"""Compile the machine code that streams need before their first row, and say so where it takes long."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba.core.event

from obil.errors import ObilError
from obil.online.online_classifier import OnlineClassifier
from obil.service.http.openapi import example_row
from obil.service.http.row_reader import RowReader
from obil.service.streams.operations import StreamSettings
from obil.service.streams.replay import new_online, resolved_settings
from obil.serving.ratio_model import RatioModel

QUIET_SECONDS, SAY_SECONDS = 1.0, 5.0  # before the first line, and between two


def compile_for(model: RatioModel, defaults: StreamSettings | None = None) -> None:
    """Do once, with a stream that is thrown away, what streams of a model do: decide, learn, report, restore."""
    defaults = StreamSettings() if defaults is None else defaults
    online = new_online(model, resolved_settings(defaults, defaults))
    row, reader = example_row(model), RowReader(model)
    try:
        table = reader.of_objects([row] * 3) if isinstance(row, dict) else reader.of_arrays([row] * 3)
        use(online, table, model.classes_.tolist()[0])
    except (ObilError, ValueError, TypeError):
        return  # a model of unknown columns may not take the example: then the first row compiles


def use(online: OnlineClassifier, table: Any, label: Any) -> None:
    """Take some rows and labels, report, and be restored."""
    decided = online.decide_many(table)
    online.decide_many(table[:1])
    online.feedback(decided.ids[0], label)
    online.feedback(decided.ids[1], label, propensity=0.5)
    if online.positive is not None:
        online.performance()
    online.explain()
    OnlineClassifier.from_state(online.model, online.state()).decide_many(table[:1])


@contextmanager
def show_compiling(show: Callable[[str], None]) -> Iterator[None]:
    """Call a function with a line of progress, again and again, while machine code is compiled."""
    compiling, done = _Compiling(), threading.Event()

    def run() -> None:
        wait = QUIET_SECONDS
        while not done.wait(wait):
            if compiling.since is not None and compiling.n_open:
                seconds = time.monotonic() - compiling.since
                show(
                    f"compiling machine code, once per installation: {compiling.n_functions} functions, {seconds:.0f} s"
                )
                wait = SAY_SECONDS

    thread = threading.Thread(target=run, name="obil-progress", daemon=True)
    thread.start()
    try:
        with numba.core.event.install_listener("numba:compile", compiling):
            yield
    finally:
        done.set()
        thread.join()


class _Compiling(numba.core.event.Listener):
    """Counts the functions that are compiled, and not read from the cache."""

    def __init__(self) -> None:
        self.n_functions, self.n_open = 0, 0  # one may need others, which are compiled within it
        self.since: float | None = None

    def on_start(self, event: Any) -> None:
        self.n_open += 1
        if self.since is None:
            self.since = time.monotonic()

    def on_end(self, event: Any) -> None:
        self.n_open -= 1
        self.n_functions += 1
