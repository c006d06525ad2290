"""Serve the page with made-up streams that follow the contract of the service, for tests of the page alone.

A row here is a list of numbers. If its first number is above 0 it belongs to the positive class, and the prevalence
follows it as a forgetful average. Nothing is decided, stored or measured.
"""

import asyncio
import contextlib
import json
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from obil.service.http.app import page_routes
from obil.service.http.guard import CONTENT_POLICY

TRAINING = 0.02
LOG_ALARM = math.log(200.0)
MEMORY = 300.0
COLUMNS = ("at", "row", "prior", "low", "high", "threshold", "alert_rate", "precision", "recall", "log_evidence")


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def shown_at(prior: float) -> dict[str, float]:
    """Return plausible figures for a prevalence."""
    spread = 0.35 / (1.0 + 40.0 * prior) + 0.08
    odds = prior / (1.0 - prior)
    precision = 0.35 + 0.6 * prior / (prior + 0.03)
    return {
        "prior": prior,
        "low": prior * math.exp(-spread),
        "high": min(prior * math.exp(spread), 0.999),
        "threshold": 1.0 / 21.0 + 0.1 * math.exp(-30.0 * odds),
        "alert_rate": 1.6 * prior,
        "precision": precision,
        "recall": 0.9 - 0.3 * math.exp(-20.0 * prior),
    }


@dataclass
class MadeUpStream:
    """One stream that remembers what it was shown."""

    name: str
    prior: float = TRAINING
    rows: int = 0
    labels: int = 0
    alerts: int = 0
    log_evidence: float = -1.5
    alarm_row: int | None = None
    seq: int = 0
    updated: float = field(default_factory=time.time)
    last_row: float | None = None  # None: at `updated`
    alarm_since: float | None = None
    acknowledged_by: str | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    created: float = field(default_factory=time.time)
    history: dict[str, list[float | None]] = field(default_factory=lambda: {name: [] for name in COLUMNS})

    def see(self, positive: bool, at: float) -> None:
        self.prior += (float(positive) - self.prior) / MEMORY
        self.prior = min(max(self.prior, 1e-4), 1.0 - 1e-4)
        self.rows += 1
        self.alerts += positive

    def remember(self, at: float) -> None:
        self.updated, self.seq = at, self.seq + 1
        if self.log_evidence >= LOG_ALARM and self.alarm_row is None:
            self.alarm_row, self.alarm_since = self.rows, at
        point = {"at": at, "row": self.rows, "log_evidence": self.log_evidence} | shown_at(self.prior)
        for name in COLUMNS:
            self.history[name].append(point[name])

    def note(self, kind: str, text: str | None = None) -> dict[str, Any]:
        event = {"at": iso(time.time()), "by": "on-call", "row": self.rows, "kind": kind, "text": text}
        self.events.insert(0, event)
        self.seq += 1
        return event

    def restart(self) -> None:
        self.log_evidence, self.alarm_row, self.alarm_since, self.acknowledged_by = -1.5, None, None, None
        self.note("restarted")

    def summary(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "rows": self.rows,
            "labels": self.labels,
            "alerts": self.alerts,
            "prior": {"ok": 1.0 - self.prior, "fraud": self.prior},
            "training_prior": {"ok": 1.0 - TRAINING, "fraud": TRAINING},
            "positive": "fraud",
            "trusted": self.alarm_row is None,
            "log_evidence": self.log_evidence,
            "log_alarm": LOG_ALARM,
            "model": "3f9c1a2b",
            "created": iso(self.created),
            "updated": iso(self.updated),
            "seq": self.seq,
            "last_row": iso(self.last_row or self.updated) if self.rows else None,
            "alarm_since": None if self.alarm_since is None else iso(self.alarm_since),
            "acknowledged_by": self.acknowledged_by,
        }

    def detail(self) -> dict[str, Any]:
        shown = shown_at(self.prior)
        low, high = shown["low"], shown["high"]
        source = "both" if self.labels else "expected"

        def estimate(value: float, source: str) -> dict[str, Any]:
            return {"value": value, "low": 0.9 * value, "high": min(1.1 * value, 1.0), "source": source}

        def performance(source: str, n_rows: float) -> dict[str, Any]:
            figures = {name: estimate(shown[name], source) for name in ("precision", "recall")}
            if not n_rows and self.rows < 100:  # nothing bounds it yet
                figures["precision"] = {"value": None, "low": 0.0, "high": 1.0, "source": "unknown"}
            figures["f1"] = estimate(0.7 * shown["recall"], source)
            figures["alert_rate"] = estimate(shown["alert_rate"], "counted" if n_rows else source)
            return figures | {"cost": None, "trusted": True, "rows": n_rows, "labels": self.labels}

        change = {
            "sentences": [
                f"The prevalence of 'fraud' rose from 2.0 % in training to {100 * self.prior:.1f} % "
                f"(90 %: {100 * low:.1f} to {100 * high:.1f} %), since about row 4,000.",
                "The evidence that a row needs to be alerted fell from 18:1 to 7:1, and alerts went from 3.1 to 7.4 % "
                "of the rows.",
                "Nothing to do: the threshold has followed."
                if self.alarm_row is None
                else "Get labels: about 310 rows picked at random would tell, each sent by POST /v1/streams/"
                f"{self.name}/labels.",
            ],
            "changed": True,
            "reasons": [],
            "changed_since": 4000,
            "action": "nothing" if self.alarm_row is None else "get labels",
            "level": 0.9,
        }
        policy = {"name": "cost", "matrix": [[0.0, 20.0], [1.0, 0.0]], "classes": ["ok", "fraud"]}
        changes = [
            {
                "at": iso(self.created + 60.0),
                "by": "on-call",
                "row": 1200,
                "before": {"name": "f-beta", "beta": 1.0},
                "after": policy,
            }
        ]
        return self.summary() | {
            "classes": ["ok", "fraud"],
            "interval": {"ok": [1.0 - high, 1.0 - low], "fraud": [low, high]},
            "start_prior": {"ok": 1.0 - TRAINING, "fraud": TRAINING},
            "threshold": {"log_ratio": 1.95, "probability": shown["threshold"]},
            "evidence": {"log_evidence": self.log_evidence, "log_alarm": LOG_ALARM, "alarm_row": self.alarm_row}
            | {
                "where": "27 % of the recent rows have a log ratio of -5 to -4, more than the 15 % of the prior that "
                "explains the stream best."
            },
            "label_counts": {
                "labelled": self.labels,
                "pending": 4000,
                "unknown": 3 if self.labels else 0,
                "unlabeled": 0,
            },
            "performance": {"now": performance("expected", 0.0), "window": performance(source, 5000.0), "text": ""},
            "change": change,
            "settings": {"policy": policy, "tracker": "safe", "horizon": 10000, "positive": "fraud"},
            "changes": changes if self.rows > 1200 else [],
            "events": self.events,
        }

    def series(self, start: float | None, end: float | None, points: int) -> dict[str, Any]:
        inside = [
            i
            for i, at in enumerate(self.history["at"])
            if at is not None and (start is None or at >= start) and (end is None or at <= end)
        ]
        kept = inside[:: -max(1, -(-len(inside) // points))][::-1]
        columns = {name: [self.history[name][i] for i in kept] for name in COLUMNS}
        return {"stream": self.name, "training_prior": TRAINING, "log_alarm": LOG_ALARM, "columns": columns}


MODEL_CARD = {
    "version": "3f9c1a2b",
    "classes": ["ok", "fraud"],
    "training_prior": {"ok": 1.0 - TRAINING, "fraud": TRAINING},
    "columns": [{"name": "amount", "type": "number"}, {"name": "country", "type": "category"}],
    "n_features": 2,
    "views": 3,
    "gate": {
        "verdict": "warn",
        "reasons": ["The balanced calibration error is .04, above the .03 that is allowed, though not beyond chance."],
        "figures": {
            "balanced_calibration_error": {"value": 0.041, "allowed": 0.03, "refused": 0.1, "chance": 0.045},
            "slope": {"value": 0.08, "allowed": 0.15, "refused": 0.4, "chance": 0.12},
        },
    },
    "reliability": [
        {"predicted": p, "observed": p + d, "low": max(p + d - 0.06, 0.0), "high": min(p + d + 0.06, 1.0), "weight": w}
        for p, d, w in (
            (0.03, 0.0, 0.3), (0.12, 0.02, 0.12), (0.24, -0.02, 0.08), (0.37, 0.03, 0.06), (0.5, 0.04, 0.06),
            (0.63, -0.01, 0.06), (0.76, 0.03, 0.08), (0.88, -0.02, 0.1), (0.97, 0.0, 0.14),
        )
    ],
}  # fmt: skip


def made_up_app(*, streams: list[MadeUpStream] | None = None, key: str | None = None) -> FastAPI:
    """Return an app with the reads of the contract, and the page."""
    app = FastAPI(openapi_url=None)
    known = {stream.name: stream for stream in streams or []}
    app.state.streams = known
    app.state.cut = 0  # raised by a test to hang up on everyone who listens
    app.state.shadow = {}  # of a comparison, what differs from none
    app.state.may_only_read = False  # set by a test: a key without other scopes
    app.state.away = False  # set by a test: nobody is answered
    app.include_router(page_routes())

    def found(after: str | None, search: str | None, alarmed: bool) -> list[MadeUpStream]:
        return [
            known[name]
            for name in sorted(known)
            if (after is None or name > after)
            and (not search or search in name)
            and (not alarmed or known[name].alarm_row is not None)
        ]

    def refusal(status: int, code: str, message: str) -> JSONResponse:
        problem = {"detail": message, "code": code, "where": None, "request_id": "r"}
        return JSONResponse(problem, status_code=status, media_type="application/problem+json")

    @app.middleware("http")
    async def check_key(request: Request, call_next: Any) -> Response:
        if request.url.path.startswith("/v1/"):
            if app.state.away:
                return refusal(503, "not_stored", "the service is away")
            if key is not None and request.headers.get("authorization") != f"Bearer {key}":
                return refusal(401, "no_key", "a key is needed")
        answer: Response = await call_next(request)
        answer.headers["content-security-policy"] = CONTENT_POLICY
        return answer

    @app.get("/v1/model")
    async def model() -> dict[str, Any]:
        return MODEL_CARD

    @app.get("/v1/streams")
    async def page(
        after: str | None = None, limit: int = 100, search: str | None = None, alarmed: bool = False
    ) -> dict[str, Any]:
        rest = found(after, search, alarmed)
        more = rest[limit - 1].name if len(rest) > limit else None
        total = len(found(None, search, alarmed))
        return {"streams": [stream.summary() for stream in rest[:limit]], "total": total, "next": more}

    @app.get("/v1/streams/{name}")
    async def detail(name: str) -> Any:
        return known[name].detail() if name in known else refusal(404, "unknown_stream", f"no stream is named {name}")

    @app.get("/v1/streams/{name}/history")
    async def history(name: str, start: float | None = None, end: float | None = None, points: int = 300) -> Any:
        return known[name].series(start, end, points) if name in known else refusal(404, "unknown_stream", "no stream")

    @app.get("/v1/streams/{name}/shadow")
    async def shadow(name: str) -> Any:
        if name not in known:
            return refusal(404, "unknown_stream", "no stream")
        nothing = {"version": None, "since": None, "agreement": None, "log_ratio_difference": None, "prior": None}
        counts = {"rows": 0, "alerts": 0, "active_alerts": 0, "skipped": 0, "trusted": None}
        return {"stream": name, "active": "3f9c1a2b"} | nothing | counts | app.state.shadow

    @app.post("/v1/streams/{name}/decisions")
    async def decide(name: str, request: Request) -> dict[str, Any]:
        stream = known.setdefault(name, MadeUpStream(name))
        rows = (await request.json())["rows"]
        for k, row in enumerate(rows):
            stream.see(row[0] > 0.0, time.time())
            if k % 20 == 0 or k == len(rows) - 1:
                stream.remember(time.time())
        return {"stream": name, "model": "3f9c1a2b", "repeated": False, "decisions": []}

    @app.post("/v1/streams/{name}/notes")
    async def note(name: str, request: Request) -> Any:
        if app.state.may_only_read:
            return refusal(403, "wrong_scope", "this key lacks the scope 'label'")
        body = await request.json()
        if body["acknowledge"]:
            known[name].acknowledged_by = "on-call"
        return known[name].note("acknowledged" if body["acknowledge"] else "noted", body["text"])

    @app.post("/v1/streams/{name}/monitor/restart")
    async def restart(name: str) -> dict[str, Any]:
        known[name].restart()
        return known[name].detail()

    async def events(now: Callable[[], list[MadeUpStream]], *, one: bool) -> AsyncIterator[str]:
        cut, seen = app.state.cut, dict[str, int]()
        while app.state.cut == cut:
            changed = [stream for stream in now() if seen.get(stream.name) != stream.seq]
            seen |= {stream.name: stream.seq for stream in changed}
            if changed and one:
                yield f"event: points\ndata: {json.dumps(changed[0].series(time.time() - 120.0, None, 20))}\n\n"
                yield f"event: stream\ndata: {json.dumps(changed[0].detail())}\n\n"
            elif changed:
                yield f"event: streams\ndata: {json.dumps({'streams': [stream.summary() for stream in changed]})}\n\n"
            await asyncio.sleep(0.2)

    @app.get("/v1/events")
    async def page_events(
        after: str | None = None, limit: int = 100, search: str | None = None, alarmed: bool = False
    ) -> StreamingResponse:
        lines = events(lambda: found(after, search, alarmed)[:limit], one=False)
        return StreamingResponse(lines, media_type="text/event-stream")

    @app.get("/v1/streams/{name}/events")
    async def stream_events(name: str) -> StreamingResponse:
        return StreamingResponse(events(lambda: [known[name]], one=True), media_type="text/event-stream")

    return app


@contextlib.contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Serve an app on a free port of this machine for as long as the block runs."""
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", ws="none", timeout_graceful_shutdown=2)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        app.state.cut = getattr(app.state, "cut", 0) + 1  # those who listen are let go
        server.should_exit = True
        thread.join(timeout=10)


def past_stream(name: str, *, hours: float, rise: float = 1.0, alarm: bool = False, labels: int = 0) -> MadeUpStream:
    """Return a stream with a past: a prevalence that rose by a factor, and evidence that built up to an alarm."""
    stream = MadeUpStream(name, created=time.time() - 3600.0 * hours, labels=labels)
    n = 600
    for k in range(n):
        part = k / (n - 1)
        wave = 0.12 * math.sin(9.0 * part * math.pi) + 0.05 * math.sin(31.0 * part * math.pi)
        stream.prior = min(TRAINING * math.exp(math.log(rise) / (1.0 + math.exp(-16.0 * (part - 0.5))) + wave), 0.98)
        stream.rows += 23
        stream.alerts += round(23 * 1.6 * stream.prior)
        climb = max(0.0, part - 0.55) * 22.0 if alarm else 0.0
        stream.log_evidence = -1.5 - 1.2 * part + climb + 2.0 * wave
        stream.remember(stream.created + 3600.0 * hours * part)
    return stream
