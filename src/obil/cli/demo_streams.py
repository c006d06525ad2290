"""Play streams into a service: one with label shift, one that is quiet, one with a fault in its features."""

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from obil.cli.demo import moving_prior

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    from obil.service import Client, StreamClient

BATCHES_PER_SECOND = 4.0  # few enough to cost little, often enough to look alive
LABEL_RATE, LABEL_DELAY = 0.05, 500  # of rows; rows later
DIMMED = 0.85  # what the ageing sensor still sees of every value


class DemoStream(NamedTuple):
    """Rows that will arrive at one stream, and their true labels."""

    name: str
    rows: "pd.DataFrame"
    labels: "npt.NDArray[Any]"
    tells_labels: bool


def demo_streams(rows: "pd.DataFrame", labels: "npt.NDArray[Any]", n_rows: int, *, start: float) -> list[DemoStream]:
    """Return the streams, drawn from held-out rows; `start` is the training prior of class 1."""
    from obil.datasets.shift_protocol import rows_at

    paths = (moving_prior(n_rows, start), np.full(n_rows, start), np.full(n_rows, start))
    arriving = [rows_at(labels, priors, random_state=seed) for seed, priors in enumerate(paths)]
    dimmed = rows.iloc[arriving[2]].reset_index(drop=True)
    dimmed = dimmed * np.where(np.arange(n_rows) < n_rows // 5, 1.0, DIMMED)[:, None]
    return [
        DemoStream("prior-shifts", rows.iloc[arriving[0]], labels[arriving[0]], tells_labels=True),
        DemoStream("quiet", rows.iloc[arriving[1]], labels[arriving[1]], tells_labels=False),
        DemoStream("sensor-dims", dimmed, labels[arriving[2]], tells_labels=False),
    ]


class Player:
    """Posts rows at a pace, and their labels later, until all have come or it is stopped."""

    def __init__(self, streams: Sequence[DemoStream], *, pace: float) -> None:
        self._streams, self._pace = streams, pace
        self.stopping = threading.Event()

    def play(self, client: "Client") -> bool:
        """Play everything; return whether it came to its end."""
        size = max(1, round(self._pace / BATCHES_PER_SECOND))
        random = np.random.default_rng(4)
        playing = [_posts(stream, client.stream(stream.name), size, random) for stream in self._streams]
        while playing and not self.stopping.wait(size / self._pace):
            playing = [posts for posts in playing if next(posts, None) is not None]
        return not playing


def _posts(stream: DemoStream, to: "StreamClient", size: int, random: np.random.Generator) -> Iterator[int]:
    """Post one batch at a time, yielding how many rows it had."""
    waiting: deque[tuple[int | str, int]] = deque()  # ids and row numbers whose label will be told
    for first in range(0, len(stream.rows), size):
        batch = stream.rows.iloc[first : first + size]
        decided = to.decide(batch.to_dict("records"))
        if stream.tells_labels:
            asked = np.flatnonzero(random.random(len(batch)) < LABEL_RATE)
            waiting.extend((decided[int(place)].id, first + int(place)) for place in asked)
            told = {}
            while waiting and first + len(batch) - waiting[0][1] >= LABEL_DELAY:
                name, row = waiting.popleft()
                told[name] = stream.labels[row].item()
            if told:
                to.label(told, propensity=LABEL_RATE)
        yield len(batch)
