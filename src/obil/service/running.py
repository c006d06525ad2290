"""Run the service in this process: open the store, load the model, listen, and stop cleanly."""

import asyncio
import errno
import gc
import logging
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from obil.errors import InvalidInputError, ObilError
from obil.service.http.app import create_app
from obil.service.http.connections import Connections, LimitedProtocol
from obil.service.json_logs import set_up_json_logs
from obil.service.machine_code import compile_for, show_compiling
from obil.service.refusals import RefusedError
from obil.service.service_settings import ServiceSettings
from obil.service.storage.store import open_store
from obil.service.streams.model_registry import ModelRegistry
from obil.service.streams.operations import Sender, StreamSettings
from obil.service.streams.stream_hub import StreamHub

PRUNE_SECONDS = 3_600.0
FOLLOW_SECONDS = 1.0
DAY = 86_400.0
WAITING_CONNECTIONS = 2_048
# the event loop accepts as many before anything else, so files must be left for a few rounds of them
ACCEPT_TOGETHER = 64
SPARE_FILES = 64 + 4 * ACCEPT_TOGETHER

log = logging.getLogger("obil.service")


def run_service(
    model: Path,
    settings: ServiceSettings,
    *,
    trusted: Sequence[str] = (),
    defaults: StreamSettings | None = None,
    announce: Callable[[str], None] | None = None,
    progress: Callable[[str], None] = lambda _line: None,
) -> None:
    """Serve until a signal stops it.

    `announce` gets the address once the service listens, `progress` a line now and then while it does not yet.
    """
    set_up_json_logs(settings.log_level)
    if settings.keys_in_clear:
        log.warning(
            "keys and rows travel in clear text: put a proxy with TLS in front (docs/deploy.md)",
            extra={"fields": {"host": settings.host}},
        )
    listening = bound_socket(settings.host, settings.port)  # before a store is created or a model loaded
    try:
        with show_compiling(progress):
            app = open_service(model, settings, trusted=trusted, defaults=defaults)
            compile_for(app.state.obil.streams.model, defaults)  # or the first row would wait
    except BaseException:
        listening.close()
        raise
    connections = Connections(
        most=min(settings.max_connections, max(_open_files() - SPARE_FILES, 10)),
        header_seconds=settings.header_seconds,
        response_seconds=settings.response_seconds,
    )
    app.state.obil.metrics.gauge("obil_connections", "Open connections.", connections.__len__)
    config = uvicorn.Config(
        app,
        http=partial(LimitedProtocol, connections),  # type: ignore[arg-type]  # called like the class
        ws="none",
        backlog=ACCEPT_TOGETHER,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # no header of a client is trusted
        timeout_graceful_shutdown=10,
    )
    gc.collect()
    gc.set_threshold(20_000, 10, 10)  # a request leaves few cycles behind
    gc.freeze()  # what is loaded stays: scanning it again would delay requests
    try:
        _Server(config, app, announce, connections).run([listening])
    except OSError as error:  # another service has begun to listen while this one started
        if error.errno != errno.EADDRINUSE:
            raise
        raise InvalidInputError(f"cannot listen on port {settings.port}: {error.strerror}") from None


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
    store = open_store(settings.store, secret_file=settings.secret_file)
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


def bound_socket(host: str, port: int) -> socket.socket:
    """Take an address; refuse one that is in use, is not of this machine, or needs more rights.

    >>> with bound_socket("127.0.0.1", 0) as taken:
    ...     taken.getsockname()[0]
    '127.0.0.1'
    """
    bound: socket.socket | None = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # closed connections may linger
        bound.bind(address)
    except OSError as error:
        if bound is not None:
            bound.close()
        raise InvalidInputError(
            f"cannot listen on port {port} of {host}: {error.strerror or error} (--port 0 takes any free port)"
        ) from None
    return bound


def _open_files() -> int:
    """Raise the limit of open files as far as this process may, and return it."""
    try:
        import resource  # noqa: PLC0415  # not on every platform
    except ImportError:
        return 10_000
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        limit = most
    return limit if limit != resource.RLIM_INFINITY else 1_000_000


class _Server(uvicorn.Server):
    """Announces its address, closes connections that take too long, and ends the event streams when it stops."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: FastAPI,
        announce: Callable[[str], None] | None,
        connections: Connections | None = None,
    ) -> None:
        super().__init__(config)
        self._app, self._announce, self._connections = app, announce, connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(WAITING_CONNECTIONS)  # the kernel holds these back while the server accepts few at a time
        if self._announce is not None and self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._announce(f"http://{f'[{host}]' if ':' in host else host}:{port}/")

    async def on_tick(self, counter: int) -> bool:
        if self._connections is not None and counter % 5 == 0:  # every half second
            self._connections.close_overdue()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.obil.stopping = True
        await super().shutdown(sockets)


def _lifespan(hub: StreamHub, settings: ServiceSettings) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        tasks = [asyncio.create_task(_follow(hub)), asyncio.create_task(_finish_deletions(hub))]
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


async def _finish_deletions(hub: StreamHub) -> None:
    """Erase what is left of streams whose deletion was cut off."""
    try:
        await hub.finish_deletions()
    except ObilError as error:
        log.warning("a deletion is not finished", extra={"fields": {"reason": str(error)}})


async def _prune(hub: StreamHub, days: float) -> None:
    while True:
        try:
            while await asyncio.to_thread(hub.prune, time.time() - days * DAY):
                await asyncio.sleep(0.1)  # let requests write in between
        except RefusedError as error:
            log.warning("nothing pruned", extra={"fields": {"reason": str(error)}})
        await asyncio.sleep(PRUNE_SECONDS)


def _without_password(url: str) -> str:
    scheme, mark, rest = url.rpartition("@")
    return f"{scheme.partition('://')[0]}://...@{rest}" if mark else url
