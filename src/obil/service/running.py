"""Run the service in this process: open the store, load the model, listen, log in JSON, and stop cleanly."""

import asyncio
import gc
import json
import logging
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import uvicorn
from fastapi import FastAPI

from obil.errors import InvalidInputError, ObilError
from obil.service.http.app import create_app
from obil.service.refusals import RefusedError
from obil.service.service_settings import ServiceSettings
from obil.service.storage.store import open_store
from obil.service.streams.model_registry import ModelRegistry
from obil.service.streams.operations import Sender, StreamSettings
from obil.service.streams.stream_hub import StreamHub

PRUNE_SECONDS = 3_600.0
FOLLOW_SECONDS = 1.0
DAY = 86_400.0
_ENCODER = json.JSONEncoder(default=str)

log = logging.getLogger("obil.service")


def run_service(
    model: Path,
    settings: ServiceSettings,
    *,
    trusted: Sequence[str] = (),
    defaults: StreamSettings | None = None,
    announce: Callable[[str], None] | None = None,
) -> None:
    """Serve until a signal stops it; `announce` gets the address once the service listens."""
    set_up_json_logs(settings.log_level)
    require_free_port(settings.host, settings.port)  # before a store is created or a model loaded
    app = open_service(model, settings, trusted=trusted, defaults=defaults)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # no header of a client is trusted
        timeout_graceful_shutdown=10,
    )
    gc.collect()
    gc.set_threshold(20_000, 10, 10)  # a request leaves few cycles behind
    gc.freeze()  # what is loaded stays: scanning it again would delay requests
    _Server(config, app, announce).run()


def open_service(
    model: Path, settings: ServiceSettings, *, trusted: Sequence[str] = (), defaults: StreamSettings | None = None
) -> FastAPI:
    """Return the whole service as an ASGI application, for a server of your own.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:  # anyone could reach it, and nobody has a key
    ...     open_service(Path("model/"), ServiceSettings(host="0.0.0.0", store=f"sqlite:///{folder}/obil.db"))
    Traceback (most recent call last):
        ...
    obil.errors.InvalidInputError: a service bound to 0.0.0.0 needs an API key: ...
    """
    store = open_store(settings.store)
    try:
        if settings.needs_keys and not any(record.is_valid(time.time()) for record in store.list_keys()):
            raise InvalidInputError(
                f"a service bound to {settings.host} needs an API key: create one with "
                f"`obil keys add NAME --scope decide --store {_without_password(settings.store)}`"
            )
        hub = StreamHub(
            store,
            ModelRegistry(model, store, trusted=trusted),
            defaults=defaults,
            store_inputs=settings.store_inputs,
            max_streams=settings.memory_streams,
        )
    except BaseException:
        store.close()
        raise
    app = create_app(hub, settings, store)
    app.router.lifespan_context = _lifespan(hub, settings)
    return app


def require_free_port(host: str, port: int) -> None:
    """Refuse an address that is in use, is not of this machine, or needs more rights.

    >>> require_free_port("127.0.0.1", 0)
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            # as the server does: closed connections may linger
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise InvalidInputError(
            f"cannot listen on port {port} of {host}: {error.strerror or error} (--port 0 takes any free port)"
        ) from None


class _Server(uvicorn.Server):
    """Announces its address once it listens, and ends the event streams when it stops."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, announce: Callable[[str], None] | None) -> None:
        super().__init__(config)
        self._app, self._announce = app, announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._announce is not None and self.started:
            host, port = self.config.host, self.servers[0].sockets[0].getsockname()[1]
            self._announce(f"http://{f'[{host}]' if ':' in host else host}:{port}/")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.obil.stopping = True
        await super().shutdown(sockets)


def _lifespan(hub: StreamHub, settings: ServiceSettings) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        tasks = [asyncio.create_task(_follow(hub))]
        if settings.retain_days:
            tasks.append(asyncio.create_task(_prune(hub, settings.retain_days)))
        reloads: set[asyncio.Task[None]] = set()

        def reload() -> None:
            task = asyncio.create_task(_reload(hub))
            reloads.add(task)
            task.add_done_callback(reloads.discard)

        try:
            loop.add_signal_handler(signal.SIGHUP, reload)
        except (NotImplementedError, RuntimeError, ValueError, AttributeError):
            log.info("no reload by signal on this platform: use POST /v1/model/reload")
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.to_thread(hub.close)

    return lifespan


async def _reload(hub: StreamHub) -> None:
    try:
        card = await hub.reload_model(Sender(by="signal"))
        log.info("model reloaded", extra={"fields": {"version": card.version}})
    except RefusedError as error:
        log.error("model not reloaded", extra={"fields": {"reason": str(error)}})


async def _follow(hub: StreamHub) -> None:
    """Take over the model that another process on the same store has reloaded."""
    while True:
        await asyncio.sleep(FOLLOW_SECONDS)
        try:
            await asyncio.to_thread(hub.follow_model)
        except ObilError as error:
            log.warning("the current model version could not be read", extra={"fields": {"reason": str(error)}})


async def _prune(hub: StreamHub, days: float) -> None:
    while True:
        try:
            while await asyncio.to_thread(hub.prune, time.time() - days * DAY):
                await asyncio.sleep(0.1)  # let requests write in between
        except RefusedError as error:
            log.warning("nothing pruned", extra={"fields": {"reason": str(error)}})
        await asyncio.sleep(PRUNE_SECONDS)


class JsonFormatter(logging.Formatter):
    """Time, level, logger, message and the record's `fields`; of an exception only its type, never its values."""

    def __init__(self) -> None:
        super().__init__()
        self._second, self._text = -1, ""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        line: dict[str, Any] = {
            "at": self._time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
        return _ENCODER.encode(line)

    def _time(self, seconds: float) -> str:
        """Return a time as ISO 8601 in UTC; each second is formatted once."""
        second = int(seconds)
        if second != self._second:
            self._second = second
            self._text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._text}.{int((seconds - second) * 1e3):03}Z"


def set_up_json_logs(level: str = "info", *, stream: TextIO | None = None) -> logging.Handler:
    """Send obil's logs and its server's warnings to a stream, standard error if None; return the handler."""
    # no line shows these, and each would be looked up for every request
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter())
    # otherwise the server and the event loop would log plain text, and their tracebacks may hold a row's values
    for name, lowest in (("obil", level.upper()), ("uvicorn", "WARNING"), ("asyncio", "WARNING")):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(lowest)
        logger.propagate = False
    return handler


def _without_password(url: str) -> str:
    scheme, mark, rest = url.rpartition("@")
    return f"{scheme.partition('://')[0]}://...@{rest}" if mark else url
