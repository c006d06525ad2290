"""Limit connections: how many are open, how long one may take to send a head, and how long to take its response."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from obil.service.http.problems import CONTENT_TYPE, refusal_body
from obil.service.refusals import BusyError, MalformedError, RefusedError, TooSlowError

_REASONS = {400: b"Bad Request", 408: b"Request Timeout", 503: b"Service Unavailable"}


class Connections:
    """The open connections of a server.

    The server's own `limit_concurrency` counts idle connections and then refuses every request, so that whoever opens
    that many takes the service down. Here the connection that has waited longest makes room for a new one: first among
    those that never sent a request.
    """

    def __init__(
        self, *, most: int, header_seconds: float, response_seconds: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.most, self._header_seconds, self._response_seconds, self._now = most, header_seconds, response_seconds, now
        self._open: set[LimitedProtocol] = set()
        # each with the time since when, the oldest first
        self._new: dict[LimitedProtocol, float] = {}  # no request yet
        self._kept: dict[LimitedProtocol, float] = {}  # between two requests
        self._blocked: dict[LimitedProtocol, float] = {}  # the client does not take its response

    def __len__(self) -> int:
        """Return how many connections are open."""
        return len(self._open)

    def opened(self, connection: "LimitedProtocol") -> None:
        """Take in a new connection; too many, and the one that has waited longest is closed."""
        if len(self._open) >= self.most:
            waiting = next(iter(self._new), None) or next(iter(self._kept), None)
            if waiting is None:
                connection.refuse(BusyError(f"{self.most} connections have requests in progress: try again"))
                return
            self.closed(waiting)  # its own message that it is closed comes later
            waiting.transport.abort()
        self._open.add(connection)
        self._new[connection] = self._now()

    def closed(self, connection: "LimitedProtocol") -> None:
        """Forget a connection."""
        self._open.discard(connection)
        self._blocked.pop(connection, None)
        self.has_request(connection)

    def has_request(self, connection: "LimitedProtocol") -> None:
        """Note that a connection no longer waits for a request."""
        if self._new.pop(connection, None) is None:
            self._kept.pop(connection, None)

    def waits(self, connection: "LimitedProtocol") -> None:
        """Note that a connection waits for its next request."""
        if connection in self._open:
            self._kept[connection] = self._now()

    def blocked(self, connection: "LimitedProtocol", *, blocked: bool) -> None:
        """Note whether the client of a connection leaves its response unread."""
        if blocked:
            self._blocked[connection] = self._now()
        else:
            self._blocked.pop(connection, None)

    def close_overdue(self) -> None:
        """Close connections that have not sent a request, or not taken its response, for too long."""
        for waiting in (self._new, self._kept):
            for connection in _older(waiting, self._now() - self._header_seconds):
                self.closed(connection)
                if connection.has_begun_a_head:
                    seconds = self._header_seconds
                    connection.refuse(TooSlowError(f"the head of a request must arrive within {seconds:g} s"))
                else:
                    connection.transport.abort()
        for connection in _older(self._blocked, self._now() - self._response_seconds):
            self.closed(connection)
            connection.transport.abort()


def _older(since: "dict[LimitedProtocol, float]", limit: float) -> "Iterator[LimitedProtocol]":
    for connection, at in list(since.items()):
        if at > limit:
            return
        yield connection


class _JoinedWrites(asyncio.Transport):
    """A transport that sends what is written right behind each other, such as a head and its body, at once."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport, self._loop, self._held = transport, loop, b""
        self.get_extra_info, self.is_closing = transport.get_extra_info, transport.is_closing  # type: ignore[method-assign]
        self.pause_reading, self.resume_reading = transport.pause_reading, transport.resume_reading  # type: ignore[method-assign]
        self.abort = transport.abort  # type: ignore[method-assign]

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Hold data until more of it is written or the event loop has its next turn."""
        if self._held or not data:
            self._transport.write(self._held + bytes(data))
            self._held = b""
        else:
            self._held = bytes(data)
            self._loop.call_soon(self._send)

    def close(self) -> None:
        """Send what is held, and close."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._held:
            self._transport.write(self._held)
            self._held = b""


class LimitedProtocol(H11Protocol):
    """One connection, which tells `Connections` what it waits for.

    It is h11 and not httptools, because h11 limits the size of a head.
    """

    def __init__(
        self,
        connections: Connections,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._all = connections

    @property
    def has_begun_a_head(self) -> bool:
        """Whether a part of a request has arrived, but no whole head."""
        return self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])

    @property
    def _answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def refuse(self, error: RefusedError) -> None:
        """Answer a connection without a request, and close it."""
        body = refusal_body(error)
        head = b"HTTP/1.1 %d %s\r\ncontent-type: %s\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        self.transport.write(head % (error.status, _REASONS[error.status], CONTENT_TYPE.encode(), len(body)) + body)
        self.transport.close()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the base class
        """Begin."""
        super().connection_made(_JoinedWrites(transport, self.loop))
        self._all.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        super().connection_lost(exc)
        self._all.closed(self)

    def handle_events(self) -> None:
        """Read what has arrived."""
        super().handle_events()
        if self._answering:
            self._all.has_request(self)

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser refuses, in the shape of all refusals."""
        if self._answering and self.cycle.response_started:
            self.transport.abort()
        else:
            self.refuse(MalformedError("the request must be valid HTTP/1.1, with a head of at most 64 KiB"))

    def on_response_complete(self) -> None:
        """Wait for the next request, which may have arrived already."""
        self._all.waits(self)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Note that the client reads more slowly than the service writes."""
        super().pause_writing()
        self._all.blocked(self, blocked=True)

    def resume_writing(self) -> None:
        """Note that the client reads again."""
        super().resume_writing()
        self._all.blocked(self, blocked=False)
