"""Read the bodies of requests within limits: of one body's size and time, and of the memory of all of them."""

import asyncio
from itertools import count
from typing import NamedTuple

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from obil.service.refusals import BadInputError, BusyError, TooLargeError, TooSlowError

UNCOUNTED = 65_536  # bytes; the server itself may hold as many of each connection, so smaller bodies are not counted


class Body(NamedTuple):
    """A body that was read whole."""

    content: bytes
    held: int  # bytes that count until they are released


class Bodies:
    """Reads bodies before anything else is done with them.

    A large body counts with its announced size from its beginning until its request is answered, so that one that was
    begun can be finished. While too many are arriving, the one that has taken longest is given up: whoever sends
    many of them slowly keeps nobody out.
    """

    def __init__(
        self, *, max_bytes: int, memory_bytes: int, seconds: float, most: int, remedy: str = "send it in parts"
    ) -> None:
        self._remedy = remedy
        self._max_bytes, self._memory_bytes, self._seconds, self._most = max_bytes, memory_bytes, seconds, most
        self.held_bytes = 0
        self._numbers = count()
        self._arriving: dict[int, asyncio.Timeout] = {}  # the oldest first

    async def read(self, receive: Receive, length: bytes | None) -> Body:
        """Return a body; `length` is the announced one, None for a body in chunks."""
        expected = 0 if length is None else self._expected(length)
        held = self._hold(expected) if expected > UNCOUNTED else 0
        parts: list[bytes] = []
        n_bytes, number = 0, next(self._numbers)
        try:
            async with asyncio.timeout(self._seconds) as timeout:
                self._make_room()
                self._arriving[number] = timeout
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    parts.append(message.get("body", b""))
                    n_bytes += len(parts[-1])
                    more = message.get("more_body", False)
                    if n_bytes > self._max_bytes:
                        raise self._too_large()
                    if not held and n_bytes > UNCOUNTED:  # in chunks; it may become as large as any
                        held = self._hold(self._max_bytes)
        except BaseException as error:
            self.release(held)
            if isinstance(error, TimeoutError):
                raise TooSlowError(
                    f"a body must arrive within {self._seconds:g} s, and sooner while many others do: {self._remedy}"
                ) from None
            raise
        finally:
            self._arriving.pop(number, None)
        return Body(parts[0] if len(parts) == 1 else b"".join(parts), held)

    def release(self, held: int) -> None:
        """Stop counting bytes."""
        self.held_bytes -= held

    def _expected(self, length: bytes) -> int:
        if not length.isdigit():
            raise BadInputError(f"Content-Length must be a whole number, got {length!r:.40}", where="Content-Length")
        if len(length) > 18 or int(length) > self._max_bytes:
            raise self._too_large()
        return int(length)

    def _hold(self, n_bytes: int) -> int:
        if self.held_bytes and self.held_bytes + n_bytes > self._memory_bytes:
            raise BusyError(f"bodies of {self.held_bytes:,} bytes are being handled, as many as fit: try again")
        self.held_bytes += n_bytes
        return n_bytes

    def _make_room(self) -> None:
        if len(self._arriving) >= self._most:
            oldest = self._arriving.pop(next(iter(self._arriving)))
            oldest.reschedule(asyncio.get_running_loop().time())

    def _too_large(self) -> TooLargeError:
        return TooLargeError(f"the body must have at most {self._max_bytes:,} bytes, got more: {self._remedy}")
