"""Hold what is common to all routes: the streams, the settings, and what is computed once for the current model."""

import hashlib
import re

from fastapi import Request

from obil.service.http.access import ANONYMOUS
from obil.service.http.guard import CALLER
from obil.service.http.metrics import ServiceMetrics
from obil.service.http.responses import DecisionWriter
from obil.service.http.row_reader import RowReader
from obil.service.refusals import BadInputError, UnsupportedTypeError
from obil.service.service_settings import ServiceSettings
from obil.service.streams.operations import Sender
from obil.service.streams.stream_hub import StreamHub

_KEY = re.compile(r"[!-~](?:[ -~]{0,198}[!-~])?")


class AppState:
    """The state of one HTTP application."""

    def __init__(self, streams: StreamHub, settings: ServiceSettings, metrics: ServiceMetrics) -> None:
        self.streams, self.settings, self.metrics = streams, settings, metrics
        self.n_subscribers = 0  # open event streams
        self.stopping = False  # ends the event streams: the server would wait for them in vain
        self.writer = DecisionWriter(streams.model.classes_.tolist())  # a reload never changes the classes
        self._reader = RowReader(streams.model)

    @property
    def reader(self) -> RowReader:
        """Reads rows for the current model."""
        if self._reader.model is not self.streams.model:  # it was reloaded
            self._reader = RowReader(self.streams.model)
        return self._reader


def sender_of(request: Request, body: bytes = b"") -> Sender:
    """Return who sends a request, and its idempotency key."""
    keys = request.headers.getlist("idempotency-key")
    by = request.scope.get(CALLER, ANONYMOUS)
    if not keys:
        return Sender(by)
    if len(keys) > 1 or _KEY.fullmatch(keys[0]) is None:
        raise BadInputError(
            f"Idempotency-Key must be one header of 1 to 200 printable ASCII characters, got {keys!r:.80}",
            where="Idempotency-Key",
        )
    # the same bytes read as another type are another request
    context = f"{request.url.path}\n{request.url.query}\n{content_type(request)}\n".encode()
    return Sender(by, keys[0], hashlib.blake2b(context + body, digest_size=16).digest())


def content_type(request: Request) -> str:
    """Return the type of a request's body in lower case, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def json_body(request: Request) -> bytes:
    """Return the body of a request whose Content-Type is JSON."""
    if content_type(request) != "application/json":
        kind = content_type(request)
        raise UnsupportedTypeError(f"Content-Type must be application/json, got {kind!r:.80}", where="Content-Type")
    return await request.body()
