import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, Response

from obil.service.http.app import create_app
from obil.service.http.connections import Connections, LimitedProtocol
from obil.service.running import _Server, bound_socket
from obil.service.service_settings import ServiceSettings
from obil.serving.ratio_model import RatioModel
from tests.service.streams_in_memory import StreamsInMemory

GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
POST = b"POST /v1/streams/shop/labels HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


@pytest.fixture(scope="module")
def app(model: RatioModel) -> FastAPI:
    return create_app(StreamsInMemory(model), ServiceSettings())


@pytest.fixture
def serve() -> Iterator[Any]:
    """Return a function that serves an app with some limits, and gives what opens connections to it."""
    running: list[tuple[_Server, threading.Thread]] = []
    opened: list[socket.socket] = []

    def start(app: FastAPI, connections: Connections | None = None, **limits: Any) -> Any:
        limits = {"most": 100, "header_seconds": 60.0, "response_seconds": 60.0} | limits
        connections = Connections(**limits) if connections is None else connections
        listening = bound_socket("127.0.0.1", 0)
        config = uvicorn.Config(app, http=partial(LimitedProtocol, connections), log_config=None, ws="none")
        server = _Server(config, app, None, connections)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        running.append((server, thread))

        def connect() -> socket.socket:
            opened.append(socket.create_connection(listening.getsockname(), timeout=10.0))
            return opened[-1]

        until = time.monotonic() + 30.0
        while not server.started and time.monotonic() < until:
            time.sleep(0.01)
        return connect

    yield start
    for connection in opened:
        connection.close()
    for server, thread in running:
        server.should_exit = True
        thread.join(timeout=30.0)


def asked(connection: socket.socket, message: bytes = GET) -> bytes:
    """Send a request, and return the whole response."""
    connection.sendall(message)
    found = b""
    while b"\r\n\r\n" not in found:
        found += connection.recv(65_536)
    head, _, body = found.partition(b"\r\n\r\n")
    length = int(re.findall(rb"content-length: (\d+)", head)[0])
    while len(body) < length:
        body += connection.recv(65_536)
    return head + body


def all_of(connection: socket.socket) -> bytes:
    """Return what comes until the other side closes the connection."""
    found = b""
    try:
        while part := connection.recv(65_536):
            found += part
    except ConnectionResetError:
        pass
    return found


@pytest.mark.parametrize(
    "request_",
    [
        POST + b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n",
        POST.replace(b"1.1", b"1.0") + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"content-length: 4\r\ncontent-length: 5\r\n\r\nabcd",
        POST + b"content-length: 4, 5\r\n\r\nabcd",
        POST + b"content-length: +4\r\n\r\nabcd",
        POST + b"content-length: 4 4\r\n\r\nabcd",
        POST + b"content-length : 4\r\n\r\nabcd",
        POST + b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
        POST + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        POST + b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n",
        POST + b"transfer-encoding: identity, chunked\r\n\r\n0\r\n\r\n",
        POST + b"transfer-encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
        POST + b"transfer-encoding: chunked\r\n\r\n1\r\naXX0\r\n\r\n",
        POST + b"x\x00y: 1\r\ncontent-length: 0\r\n\r\n",
        POST + b"x: a\rb\r\ncontent-length: 0\r\n\r\n",
        POST + b"host: other\r\ncontent-length: 0\r\n\r\n",
    ],
)
def test_answers_nothing_that_is_smuggled_behind_a_request_of_doubtful_length(
    app: FastAPI, serve: Any, request_: bytes
) -> None:
    connection = serve(app)()
    connection.sendall(request_ + GET)
    found = all_of(connection)
    assert found.startswith(b"HTTP/1.1 400 "), found
    assert found.count(b"HTTP/1.1 ") == 1, found
    assert json.loads(found.partition(b"\r\n\r\n")[2])["code"] == "malformed"


def test_a_head_without_end_is_refused(app: FastAPI, serve: Any) -> None:
    connection = serve(app)()
    connection.sendall(b"GET /" + b"x" * 70_000)
    assert all_of(connection).startswith(b"HTTP/1.1 400 ")


def test_a_head_that_comes_too_slowly_is_answered_and_an_idle_connection_is_closed(app: FastAPI, serve: Any) -> None:
    connect = serve(app, header_seconds=0.3)
    slow, idle = connect(), connect()
    slow.sendall(b"GET /healthz HTTP/1.1\r\n")
    found = all_of(slow)
    assert found.startswith(b"HTTP/1.1 408 "), found
    assert json.loads(found.partition(b"\r\n\r\n")[2])["code"] == "too_slow"
    assert all_of(idle) == b""


def test_the_second_head_of_a_connection_may_not_come_slowly_either(app: FastAPI, serve: Any) -> None:
    connection = serve(app, header_seconds=0.3)()
    assert b" 200 " in asked(connection)
    connection.sendall(b"GET /healthz")
    assert all_of(connection).startswith(b"HTTP/1.1 408 ")


def test_the_connection_that_has_waited_longest_makes_room_for_a_new_one(app: FastAPI, serve: Any) -> None:
    connect = serve(app, most=3)
    kept, first, second = connect(), connect(), connect()
    assert b" 200 " in asked(kept)  # it has proved to be a client
    for other in (first, second):
        newest = connect()
        assert b" 200 " in asked(newest)
        newest.close()
        time.sleep(0.05)
        connect()
        assert all_of(other) == b""
    assert b" 200 " in asked(kept)


def test_with_a_request_on_every_connection_a_new_one_is_refused(serve: Any) -> None:
    waiting = threading.Event()
    app = an_app(waiting.wait)
    connect = serve(app, most=2)
    busy = [connect(), connect()]
    for connection in busy:
        connection.sendall(GET)
    time.sleep(0.3)
    found = all_of(connect())
    waiting.set()
    assert found.startswith(b"HTTP/1.1 503 "), found
    assert json.loads(found.partition(b"\r\n\r\n")[2])["code"] == "busy"
    assert all(b" 200 " in connection.recv(1_000) for connection in busy)


def test_a_client_that_does_not_take_its_response_is_let_go(serve: Any) -> None:
    connections = Connections(most=10, header_seconds=60.0, response_seconds=0.3)
    connection = serve(an_app(lambda: None, b" " * 50_000_000), connections)()
    connection.sendall(GET)
    assert connection.recv(10).startswith(b"HTTP/1.1 2")
    assert len(connections) == 1
    time.sleep(2.0)
    assert len(connections) == 0


def an_app(before: Any, body: bytes = b"ok") -> FastAPI:
    """Return an application that waits before it answers."""
    app = FastAPI()
    app.state.obil = SimpleNamespace(stopping=False)

    @app.get("/healthz")
    def answer() -> Response:
        before()
        return Response(body)

    return app


def test_a_request_that_would_change_the_protocol_is_answered_as_it_is(app: FastAPI, serve: Any) -> None:
    connection = serve(app)()
    upgrade = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n"
    for _ in range(2):
        found = asked(connection, POST + upgrade + b"content-length: 2\r\n\r\n{}")
        assert b"fields id and label" in found
        assert b" 200 " in asked(connection, GET.replace(b"\r\n\r\n", b"\r\n" + upgrade + b"\r\n"))


@pytest.mark.parametrize("after", [b"GET / HTTP/1.1\r\nx: ", POST + b"transfer-encoding: chunked\r\n\r\n0\r\nx: "])
def test_a_header_and_what_follows_a_body_must_end(app: FastAPI, serve: Any, after: bytes) -> None:
    connection = serve(app)()
    connection.sendall(after)
    with suppress(OSError):
        for _ in range(1_000):
            connection.sendall(b"y" * 10_000)
    found = all_of(connection)
    assert found.count(b"HTTP/1.1 ") <= 1, found
    assert not found or found.startswith(b"HTTP/1.1 4"), found


def test_many_headers_are_refused(app: FastAPI, serve: Any) -> None:
    connection = serve(app)()
    connection.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x: y\r\n" * 40_000 + b"\r\n")
    assert all_of(connection).startswith(b"HTTP/1.1 400 ")
