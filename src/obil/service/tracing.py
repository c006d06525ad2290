"""Record spans with OpenTelemetry: each request, and in it how long it waited, was scored and was committed.

Off unless configured. It needs `obil[otel]`, which only this module imports.
"""

import importlib
from contextvars import Token
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from obil.errors import InvalidInputError
from obil.service.http.trace_context import TraceContext
from obil.service.streams.stream_request import Parts


class RequestSpan(NamedTuple):
    """A request that is being answered."""

    span: Any
    token: Token[Any]
    context: TraceContext


class Tracing:
    """Spans of one tracer provider; `exporter` is one of OpenTelemetry's span exporters."""

    def __init__(self, exporter: Any) -> None:
        self._api = importlib.import_module("opentelemetry.trace")
        self._context = importlib.import_module("opentelemetry.context")
        sdk = importlib.import_module("opentelemetry.sdk.trace")
        export = importlib.import_module("opentelemetry.sdk.trace.export")
        resource = importlib.import_module("opentelemetry.sdk.resources").Resource.create({"service.name": "obil"})
        self._provider = sdk.TracerProvider(resource=resource)
        self._provider.add_span_processor(export.BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("obil.service")

    def begin(self, method: str, given: TraceContext | None) -> RequestSpan:
        """Begin the span of a request, within the trace of its caller if there is one."""
        api = self._api
        parent = None
        if given is not None:
            ids = int(given.trace_id, 16), int(given.parent_id, 16)
            remote = api.SpanContext(*ids, is_remote=True, trace_flags=api.TraceFlags(given.flags))
            parent = api.set_span_in_context(api.NonRecordingSpan(remote))
        span = self._tracer.start_span(method, parent, kind=api.SpanKind.SERVER)
        known = span.get_span_context()
        span_id = api.format_span_id(known.span_id)
        parent_id = span_id if given is None else given.parent_id
        context = TraceContext(api.format_trace_id(known.trace_id), parent_id, span_id, int(known.trace_flags))
        return RequestSpan(span, self._context.attach(api.set_span_in_context(span)), context)

    def end(self, begun: RequestSpan, method: str, route: str, status: int, code: str | None) -> None:
        """End the span of a request; it has the route, never the path, which may hold ids."""
        span = begun.span
        span.update_name(f"{method} {route}")
        found = {"http.request.method": method, "http.route": route, "http.response.status_code": status}
        span.set_attributes(found if code is None else found | {"error.type": code})
        if status >= 500:
            span.set_status(self._api.StatusCode.ERROR)
        self._context.detach(begun.token)
        span.end()

    def record(self, parts: Parts) -> None:
        """Record parts of the current request after they have ended: other requests shared them."""
        for name, (begin, end) in parts.items():
            self._tracer.start_span(name, start_time=begin).end(end)

    def flush(self) -> None:
        """Export what waits; the provider itself does so when the process ends."""
        self._provider.force_flush()


def open_tracing(exporter: str) -> Tracing | None:
    """Return what records spans for the exporter of that name; None for "off".

    >>> open_tracing("off")
    """
    if exporter == "off":
        return None
    known = {one.name: one for one in entry_points(group="opentelemetry_traces_exporter")}
    if exporter not in known:
        raise InvalidInputError(
            f"tracing={exporter!r:.80} names no OpenTelemetry exporter that is installed, they are "
            f"{', '.join(sorted(known)) or 'none'}: pip install 'obil[otel]' and the package of the exporter"
        )
    return Tracing(known[exporter].load()())
