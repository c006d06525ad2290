"""Put load on services: threads that decide, label and erase, and remember what was acknowledged."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np

from tests.service.models import gaussian_rows

ERASED_FROM = "west"  # of the other streams nothing is erased: their logs replay from the first event
STREAMS = ("north", "south", "east", ERASED_FROM)
ACKNOWLEDGED = 200
DECISIONS, LABELS, ERASURES = "decisions", "labels", "erasures"


@dataclass(slots=True)
class Sent:
    """A request that was sent, and its answer where one came."""

    stream: str
    kind: str
    body: dict[str, Any]
    key: str | None
    answer: dict[str, Any] | None = None  # None: refused, or cut off; it may have been kept or not
    status: int = 0

    @property
    def ids(self) -> list[Any]:
        """The ids of its rows or labels as they are known: by the sender, or by the answer."""
        if self.kind == ERASURES:
            return [self.body["id"]]
        if self.kind == LABELS:
            return [one["id"] for one in self.body["labels"]]
        if "ids" in self.body:
            return list(self.body["ids"])
        return [] if self.answer is None else [one["id"] for one in self.answer["decisions"]]

    def post(self, client: httpx.Client, address: str) -> httpx.Response:
        """Send it, for the first time or again, in the same bytes."""
        if self.kind == ERASURES:
            return client.delete(f"{address}/v1/streams/{self.stream}/decisions/{quote(self.body['id'], safe='')}")
        headers = {"content-type": "application/json"}
        if self.key is not None:
            headers["idempotency-key"] = self.key
        where = f"{address}/v1/streams/{self.stream}/{self.kind}"
        return client.post(where, content=json.dumps(self.body).encode(), headers=headers)


class Sender(threading.Thread):
    """One client: sends a request, waits for its answer, sends the next."""

    def __init__(
        self, name: str, seed: Sequence[int], addresses: Callable[[], list[str]], stop: threading.Event
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._rng, self._addresses, self._stop_asked = np.random.default_rng(seed), addresses, stop
        self._rows = gaussian_rows(500, 0.3, seed=seed[-1])[0].tolist()
        self._erasable: list[str] = []
        self._unlabelled: dict[str, list[Any]] = {stream: [] for stream in STREAMS}
        self.sent: list[Sent] = []
        self.n_acknowledged = 0
        self.strange: list[str] = []  # answers that no refusal explains

    def run(self) -> None:
        """Send until asked to stop."""
        with httpx.Client(timeout=30.0) as client:
            while not self._stop_asked.is_set():
                addresses = self._addresses()
                request = self._next()
                self.sent.append(request)
                try:
                    answer = request.post(client, addresses[int(self._rng.integers(len(addresses)))])
                except httpx.HTTPError:  # cut off: nobody knows whether it was kept
                    time.sleep(0.01)
                    continue
                request.status = answer.status_code
                if answer.status_code == ACKNOWLEDGED:
                    request.answer = answer.json()
                    self.n_acknowledged += 1
                    if request.kind == DECISIONS:
                        self._unlabelled[request.stream] += request.ids
                    elif request.kind == LABELS and request.stream == ERASED_FROM:
                        self._erasable += [name for name in request.ids if isinstance(name, str)]
                elif answer.status_code == 503:
                    time.sleep(0.05)
                else:
                    self.strange.append(f"{answer.status_code} {answer.text:.300}")

    def _next(self) -> Sent:
        rng = self._rng
        stream = STREAMS[int(rng.integers(len(STREAMS)))]
        key = f"{self.name}-{len(self.sent)}" if rng.random() < 0.6 else None
        waiting = self._unlabelled[stream]
        if waiting and rng.random() < 0.25:
            n = int(min(len(waiting), 1 if rng.random() < 0.5 else rng.integers(2, 20)))
            # each decision is labelled once only: a second label of one would be a doubled one
            labels = [{"id": waiting.pop(), "label": int(rng.random() < 0.3)} for _ in range(n)]
            return Sent(stream, LABELS, {"labels": labels}, key)
        if stream == ERASED_FROM and rng.random() < 0.3:
            if self._erasable:
                return Sent(stream, ERASURES, {"id": self._erasable.pop()}, None)
            if waiting and isinstance(waiting[-1], str):
                return Sent(stream, ERASURES, {"id": waiting.pop()}, None)
        n = 1 if rng.random() < 0.6 else int(rng.integers(2, 120))  # over 64 rows are scored by another thread
        rows = [self._rows[int(place)] for place in rng.integers(len(self._rows), size=n)]
        body: dict[str, Any] = {"rows": rows}
        if rng.random() < 0.8:
            body["ids"] = [f"<{self.name}-{len(self.sent)}-{place}>" for place in range(n)]
        return Sent(stream, DECISIONS, body, key)
