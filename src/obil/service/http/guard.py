"""Stand in front of every route: names, limits, keys, headers, one log line and one latency a request."""

import logging
import os
import re
import traceback
from functools import partial
from itertools import count
from time import perf_counter
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from obil.errors import InvalidInputError
from obil.service.http.authentication import ANONYMOUS, Authentication
from obil.service.http.error_answers import ERROR_CODE, REQUEST_ID, error_body, refusal_headers
from obil.service.http.host_check import HostCheck
from obil.service.http.metrics import ServiceMetrics
from obil.service.http.routes.fast_path import StraightRoutes
from obil.service.http.routes.scopes import needed_scope
from obil.service.refusals import BadInputError, RefusedError, TooLargeError

CALLER = "obil.caller"  # its place in the scope of a request
STILL_ALLOWED = "obil.still_allowed"  # to be awaited by who answers for long: refuses a key that was revoked meanwhile
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
)
_HEADERS = [
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_PAGE_HEADERS = [*_HEADERS, (b"referrer-policy", b"no-referrer"), (b"cross-origin-opener-policy", b"same-origin")]
_API_HEADERS = [*_HEADERS, (b"cache-control", b"no-store")]
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_GONE = 499  # the client left before it was answered

_log = logging.getLogger("obil.service.requests")


class Guard:
    """ASGI middleware, without the task that Starlette's own base class would start for each request."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: HostCheck,
        authentication: Authentication,
        metrics: ServiceMetrics,
        max_body_bytes: int,
        straight: StraightRoutes | None = None,
    ) -> None:
        self._straight = StraightRoutes((), ()) if straight is None else straight
        self._app, self._hosts, self._authentication, self._metrics = app, hosts, authentication, metrics
        self._max_body_bytes = max_body_bytes
        self._prefix, self._numbers = os.urandom(6).hex(), count(1)  # an id of its own for each request, cheaply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        started = perf_counter()
        headers = _read_headers(scope)
        request_id = scope[REQUEST_ID] = headers.request_id or f"{self._prefix}-{next(self._numbers)}"
        security = _API_HEADERS if scope["path"].startswith("/v1/") else _PAGE_HEADERS
        status, caller = 0, ANONYMOUS

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *security, (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            self._hosts.require(headers.hosts, headers.origins)
            needed = needed_scope(scope["method"], scope["path"])
            caller = scope[CALLER] = await self._authentication.caller(headers.authorization, needed)
            limited = self._limited(headers, receive)
            straight = self._straight.find(scope["method"], scope["path"])
            if straight is None:
                scope[STILL_ALLOWED] = partial(self._authentication.caller, headers.authorization, needed)
                await self._app(scope, limited, send_guarded)
            else:
                scope["route"], scope["path_params"] = straight[0], {"stream": straight[1]}
                answer = await straight[0].endpoint(Request(scope, limited))
                await answer(scope, limited, send_guarded)
        except RefusedError as error:
            caller = getattr(error, "caller", caller)
            await _refuse(scope, send_guarded, error.status, error.code, str(error), error.where)
        except InvalidInputError as error:
            await _refuse(scope, send_guarded, 422, "bad_input", str(error), None)
        except ClientDisconnect:
            status = _GONE
        except Exception as error:  # a bug: the caller learns its request's id and nothing else
            _log.error("failed", extra={"fields": {"request_id": request_id, "error": _frames(error)}})
            if not status:
                await _refuse(scope, send_guarded, 500, "internal", "the service has failed", None)
        finally:
            self._record(scope, status, perf_counter() - started, caller, request_id)

    def _limited(self, headers: "_Headers", receive: Receive) -> Receive:
        """Return a way to receive a body that stops where it is too large."""
        limit, length = self._max_body_bytes, headers.length
        if length is not None:
            if not length.isdigit():
                raise BadInputError("Content-Length must be a whole number", where="Content-Length")
            if len(length) > 18 or int(length) > limit:
                raise TooLargeError(f"a body may have {limit:,} bytes")
            if not headers.chunked:  # in chunks it may have any size, whatever was announced
                return receive  # the server passes on no more than was announced
        received = 0

        async def receive_limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise TooLargeError(f"a body may have {limit:,} bytes")
            return message

        return receive_limited

    def _record(self, scope: Scope, status: int, seconds: float, caller: str, request_id: str) -> None:
        route = getattr(scope.get("route"), "path", "none")  # never the path itself: it may hold ids
        self._metrics.answered(scope["method"], route, status, seconds)
        if _log.isEnabledFor(logging.INFO):
            # a record made by hand: the logger would search the stack for the line that calls it, each time
            record = logging.LogRecord(_log.name, logging.INFO, __file__, 0, "request", None, None)
            fields = {
                "request_id": request_id,
                "method": scope["method"],
                "route": route,
                "status": status,
                "ms": round(seconds * 1e3, 3),
                "key": caller,
            }
            if ERROR_CODE in scope:
                fields["code"] = scope[ERROR_CODE]
            record.fields = fields
            _log.handle(record)


class _Headers:
    """The headers that the guard looks at."""

    __slots__ = ("authorization", "chunked", "hosts", "length", "origins", "request_id")

    def __init__(self) -> None:
        self.hosts: list[bytes] = []
        self.origins: list[bytes] = []
        self.authorization: bytes | None = None
        self.length: bytes | None = None
        self.chunked = False
        self.request_id: str | None = None


def _read_headers(scope: Scope) -> _Headers:
    found = _Headers()
    for name, value in scope["headers"]:
        if name == b"host":
            found.hosts.append(value)
        elif name == b"content-length":
            found.length = value
        elif name == b"transfer-encoding":
            found.chunked = True
        elif name == b"authorization":
            found.authorization = value
        elif name == b"origin":
            found.origins.append(value)
        elif name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            found.request_id = value.decode("ascii")
    return found


async def _refuse(scope: Scope, send: Send, status: int, code: str, message: str, where: str | None) -> None:
    scope[ERROR_CODE] = code
    body = error_body(code, message, where, scope[REQUEST_ID])
    headers = [(name.encode(), value.encode()) for name, value in refusal_headers(status).items()]
    headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _frames(error: BaseException) -> dict[str, Any]:
    """Return where an error arose, without its message: that may hold a row's values."""
    frames = traceback.extract_tb(error.__traceback__)[-12:]
    return {"type": type(error).__name__, "at": [f"{frame.name}:{frame.lineno}" for frame in frames]}
