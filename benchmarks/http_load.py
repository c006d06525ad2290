"""Keep connections busy with one request each, in turns, and say how many were answered and how long each took."""

import asyncio
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np


class _Connection(asyncio.Protocol):
    """Sends a request, waits for the whole answer, sends the next; reads no more of HTTP than it has to."""

    def __init__(
        self, requests: Sequence[bytes], until: float, taken: list[float], done: "asyncio.Future[None]"
    ) -> None:
        self._requests, self._until, self._taken, self._done = requests, until, taken, done
        self._sent, self._wanted, self._started, self._buffer = 0, -1, 0.0, b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._wanted < 0:
            head, end, _ = self._buffer.partition(b"\r\n\r\n")
            if not end:
                return
            if not head.startswith(b"HTTP/1.1 200"):
                self._done.set_exception(RuntimeError(self._buffer[:500].decode(errors="replace")))
                return
            place = head.lower().index(b"content-length:") + len(b"content-length:")
            self._wanted = len(head) + 4 + int(head[place:].split(b"\r\n", 1)[0])
        if len(self._buffer) >= self._wanted:
            now = time.perf_counter()
            self._taken.append(now - self._started)
            if now < self._until:
                self._send()
            elif not self._done.done():
                self._done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(error or ConnectionError("the server closed the connection"))

    def _send(self) -> None:
        self._buffer, self._wanted, self._started = b"", -1, time.perf_counter()
        request = self._requests[self._sent % len(self._requests)]
        self._sent += 1
        assert self._transport is not None
        self._transport.write(request)


async def load(port: int, requests: Sequence[bytes], *, connections: int, seconds: float) -> tuple[float, np.ndarray]:
    """Return answers a second, and the seconds that each took."""
    loop = asyncio.get_running_loop()
    taken: list[float] = []
    started = time.perf_counter()
    ends = [loop.create_future() for _ in range(connections)]
    for place, end in enumerate(ends):
        turns = range(place, place + connections * len(requests), connections)  # the others take those between
        connection = _Connection([requests[turn % len(requests)] for turn in turns], started + seconds, taken, end)
        await loop.create_connection(partial(_itself, connection), "127.0.0.1", port)
    await asyncio.gather(*ends)
    return len(taken) / (time.perf_counter() - started), np.array(taken)


def _itself(connection: _Connection) -> _Connection:
    return connection


if __name__ == "__main__":  # port, connections, seconds, a file of requests; prints rate, median and p99 in ms
    _port, _connections, _seconds, _file = sys.argv[1:]
    _requests = [bytes.fromhex(line) for line in Path(_file).read_text().split()]
    _rate, _taken = asyncio.run(load(int(_port), _requests, connections=int(_connections), seconds=float(_seconds)))
    print(_rate, np.quantile(_taken, 0.5) * 1e3, np.quantile(_taken, 0.99) * 1e3)
