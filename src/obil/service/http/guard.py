"""Check every request before its route: shape, host, key, body; add headers, one log line and one latency each."""

import logging
import os
import re
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from time import perf_counter
from typing import Any

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from obil.errors import InvalidInputError
from obil.service.http.access import ANONYMOUS, Authentication, HostCheck, needed_scope
from obil.service.http.bodies import Bodies
from obil.service.http.in_progress import InProgress
from obil.service.http.metrics import ServiceMetrics
from obil.service.http.problems import ERROR_CODE, REQUEST_ID, refusal
from obil.service.http.trace_context import TraceContext, continued
from obil.service.json_logs import Throttle
from obil.service.refusals import MalformedError, RefusedError, UnsupportedTypeError
from obil.service.streams.operations import as_stream_name
from obil.service.tracing import Tracing

UPLOAD = "POST", "/v1/models"  # whose bodies have limits of their own
CALLER = "obil.caller"  # its key in the scope of a request
TRACE = "obil.trace"  # there: the trace that a request belongs to, or None
STILL_ALLOWED = "obil.still_allowed"  # awaited by long responses: refuses a key that was revoked meanwhile
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
_EVENTS = re.compile(r"/v1(/streams/[^/]+)?/events")
_ALWAYS = frozenset({"/healthz", "/readyz", "/v2/health/live", "/v2/health/ready", "/metrics"})
# refusals that anyone can cause without a key, and as many as they like; not every one of them is logged
_CHEAP_CODES = frozenset({"malformed", "no_key", "foreign_host", "too_slow", "too_many_requests", "busy"})
_CHEAP_LINES = 10  # of each code in a second
_CLIENT_GONE = 499  # the client left before it was answered

_log = logging.getLogger("obil.service.requests")


class FastPath:
    """Calls the endpoints of the busiest paths directly, without the work that the framework does for other routes.

    All these paths have the form /v1/streams/{stream}/NAME, and their endpoints take the request and the stream.
    """

    def __init__(self, routers: Iterable[APIRouter], paths: Iterable[str]) -> None:
        names = {path: path.rpartition("/")[2] for path in paths}
        self._by_name = {
            names[route.path]: route
            for router in routers
            for route in router.routes
            if isinstance(route, APIRoute) and route.path in names and route.methods == {"POST"}
        }
        self._pattern = re.compile(rf"/v1/streams/([^/]+)/({'|'.join(map(re.escape, self._by_name)) or '(?!)'})")

    def find(self, method: str, path: str) -> tuple[APIRoute, str] | None:
        """Return the route of a request and the stream in its path, if it is one of the busiest."""
        found = self._pattern.fullmatch(path) if method == "POST" else None
        return None if found is None else (self._by_name[found[2]], found[1])


class Guard:
    """ASGI middleware, without the task that Starlette's own base class would start for each request."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: HostCheck,
        authentication: Authentication,
        metrics: ServiceMetrics,
        bodies: Bodies,
        in_progress: InProgress,
        uploads: Bodies | None = None,
        fast_path: FastPath | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._tracing = tracing
        self._fast_path = FastPath((), ()) if fast_path is None else fast_path
        self._app, self._hosts, self._authentication, self._metrics = app, hosts, authentication, metrics
        self._bodies, self._in_progress = bodies, in_progress
        self._uploads = bodies if uploads is None else uploads
        self._cheap_lines = Throttle(_CHEAP_LINES)
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
        trace = continued(headers.traceparents)
        span = None if self._tracing is None else self._tracing.begin(scope["method"], trace)
        trace = scope[TRACE] = trace if span is None else span.context
        security = _API_HEADERS if scope["path"].startswith(("/v1/", "/v2/")) else _PAGE_HEADERS
        status, caller, held = 0, ANONYMOUS, 0
        bodies = self._uploads if (scope["method"], scope["path"]) == UPLOAD else self._bodies

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *security, (b"x-request-id", request_id.encode())]
                if trace is not None:
                    message["headers"].append((b"traceparent", trace.header.encode()))
            await send(message)

        try:
            headers.require_plain(scope["http_version"])
            self._hosts.require(headers.hosts, headers.origins)
            needed = needed_scope(scope["method"], scope["path"])
            caller = scope[CALLER] = await self._authentication.caller(headers.authorization, needed)
            if headers.length is not None or headers.chunked:
                # in chunks it may have any size, whatever Content-Length says
                body = await bodies.read(receive, None if headers.chunked else headers.length)
                held, receive = body.held, _again(body.content, receive)
            if _is_uncounted(scope["method"], scope["path"]):
                scope[STILL_ALLOWED] = partial(self._authentication.caller, headers.authorization, needed)
                await self._app(scope, receive, send_guarded)
                return
            with self._in_progress.one(caller):
                fast = self._fast_path.find(scope["method"], scope["path"])
                if fast is None:
                    await self._app(scope, receive, send_guarded)
                else:
                    scope["route"] = fast[0]
                    response = await fast[0].endpoint(Request(scope, receive), as_stream_name(fast[1]))
                    await response(scope, receive, send_guarded)
        except ClientDisconnect:
            status = _CLIENT_GONE
        except Exception as error:
            caller = getattr(error, "caller", caller)
            if not isinstance(error, RefusedError | InvalidInputError):  # a bug
                fields = {"request_id": request_id, **_ids_of(trace), "error": _frames(error)}
                _log.error("failed", extra={"fields": fields})
            if not status:
                await refusal(scope, error)(scope, receive, send_guarded)
        finally:
            bodies.release(held)
            self._record(scope, status, perf_counter() - started, caller, request_id)
            if self._tracing is not None and span is not None:
                self._tracing.end(span, scope["method"], _route_of(scope), status, scope.get(ERROR_CODE))

    def _record(self, scope: Scope, status: int, seconds: float, caller: str, request_id: str) -> None:
        route = _route_of(scope)
        code = scope.get(ERROR_CODE)
        self._metrics.answered(scope["method"], route, status, seconds, code)
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
                **_ids_of(scope[TRACE]),
            }
            if code is not None:
                fields["code"] = code
            if code in _CHEAP_CODES:
                left_out = self._cheap_lines.left_out(code)
                if left_out is None:
                    return
                if left_out:
                    fields["left_out"] = left_out
            record.fields = fields
            _log.handle(record)


@dataclass(slots=True)
class _Headers:
    """The headers that the guard looks at."""

    hosts: list[bytes] = field(default_factory=list)
    origins: list[bytes] = field(default_factory=list)
    authorization: bytes | None = None
    length: bytes | None = None
    chunked: bool = False
    encoding: bytes = b""
    request_id: str | None = None
    traceparents: list[bytes] = field(default_factory=list)

    def require_plain(self, http_version: str) -> None:
        """Refuse a body whose end a proxy may see elsewhere (request smuggling), and one that is compressed."""
        if self.chunked and (self.length is not None or http_version == "1.0"):
            raise MalformedError("a request must have either Content-Length or, in HTTP/1.1, Transfer-Encoding")
        if self.encoding.strip().lower() not in (b"", b"identity"):
            raise UnsupportedTypeError(
                f"a body must not be compressed, got Content-Encoding {self.encoding.decode('latin-1')!r:.40}",
                where="Content-Encoding",
            )


def _read_headers(scope: Scope) -> _Headers:
    found = _Headers()
    for name, value in scope["headers"]:
        if name == b"host":
            found.hosts.append(value)
        elif name == b"content-length":
            found.length = value
        elif name == b"transfer-encoding":
            found.chunked = True
        elif name == b"content-encoding":
            found.encoding = value
        elif name == b"authorization":
            found.authorization = value
        elif name == b"origin":
            found.origins.append(value)
        elif name == b"traceparent":
            found.traceparents.append(value)
        elif name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            found.request_id = value.decode("ascii")
    return found


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a body that was read already, and then what comes after it."""
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _is_uncounted(method: str, path: str) -> bool:
    """Return whether a request is answered however busy the service is, or has a limit of its own (event streams)."""
    return method == "GET" and (path in _ALWAYS or _EVENTS.fullmatch(path) is not None)


def _route_of(scope: Scope) -> str:
    """Return the route of a request, never its path: that may hold ids."""
    route: str = getattr(scope.get("route"), "path", "none")
    return route


def _ids_of(trace: TraceContext | None) -> dict[str, str]:
    """Return what a log line says of a trace."""
    return {} if trace is None else {"trace_id": trace.trace_id, "span_id": trace.span_id}


def _frames(error: BaseException) -> dict[str, Any]:
    """Return where an error arose, without its message: that may hold a row's values."""
    frames = traceback.extract_tb(error.__traceback__)[-12:]
    return {"type": type(error).__name__, "at": [f"{frame.name}:{frame.lineno}" for frame in frames]}
