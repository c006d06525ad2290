"""Hold what all routes share: the streams, the settings, and what is worked out once for the model that serves."""

import hashlib
import re
from typing import Any

from fastapi import Request, Response

from obil.service.http.answers import json_bytes
from obil.service.http.authentication import ANONYMOUS
from obil.service.http.decision_answers import DecisionWriter
from obil.service.http.guard import CALLER
from obil.service.http.metrics import ServiceMetrics
from obil.service.http.requests.row_reader import RowReader
from obil.service.refusals import BadInputError, UnsupportedTypeError
from obil.service.service_settings import ServiceSettings
from obil.service.streams.operations import Sender, Streams

_KEY = re.compile(r"[!-~](?:[ -~]{0,198}[!-~])?")


class HttpEdge:
    """The part of the service that speaks HTTP."""

    def __init__(self, streams: Streams, settings: ServiceSettings, metrics: ServiceMetrics) -> None:
        self.streams, self.settings, self.metrics = streams, settings, metrics
        self.watchers = 0
        self.stopping = False  # who watches events is let go, or the server would wait for them in vain
        self._reader = RowReader(streams.model)
        self._writer = DecisionWriter(streams.model.classes_.tolist())

    @property
    def reader(self) -> RowReader:
        """What reads rows for the model that serves now."""
        if self._reader.model is not self.streams.model:  # it was reloaded
            self._reader = RowReader(self.streams.model)
        return self._reader

    @property
    def writer(self) -> DecisionWriter:
        """What writes decisions in the classes of the model, which a reload never changes."""
        return self._writer


def sender_of(request: Request, body: bytes = b"") -> Sender:
    """Return who sends a request, and the name its retry would have."""
    keys = request.headers.getlist("idempotency-key")
    by = request.scope.get(CALLER, ANONYMOUS)
    if not keys:
        return Sender(by)
    if len(keys) > 1 or _KEY.fullmatch(keys[0]) is None:
        raise BadInputError(
            "Idempotency-Key must stand once, with 1 to 200 printable ASCII characters", where="Idempotency-Key"
        )
    # the same bytes read in another way are another request
    context = f"{request.url.path}\n{request.url.query}\n{content_type(request)}\n".encode()
    return Sender(by, keys[0], hashlib.blake2b(context + body, digest_size=16).digest())


def content_type(request: Request) -> str:
    """Return the type of a request's body in small letters, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def json_body(request: Request) -> bytes:
    """Return a body that says it is JSON."""
    if content_type(request) != "application/json":
        raise UnsupportedTypeError("the body must be application/json by its Content-Type", where="Content-Type")
    return await request.body()


def json_answer(value: Any, status: int = 200) -> Response:
    """Return an answer in JSON."""
    return Response(json_bytes(value), status, media_type="application/json")
