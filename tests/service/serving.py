"""Serve an app on a real port, and stand a lossy wire in front of it."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import uvicorn
from fastapi import FastAPI


@contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    """Serve an app in a thread; yields its address."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False, ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    deadline = time.monotonic() + 30.0
    while not server.started and time.monotonic() < deadline and thread.is_alive():
        time.sleep(0.01)
    assert server.started
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=30.0)


class Wire(ThreadingHTTPServer):
    """Passes requests on, and loses or refuses some of them."""

    daemon_threads = True

    def __init__(self, behind: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.behind = behind.removeprefix("http://")
        self.lose_answers = 0  # of the next requests: done by the service, but the answer never comes
        self.lost_status = 0  # what is answered instead, as by a proxy; 0: the connection breaks
        self.refuse = 0  # of the next requests: 503, not passed on
        self.passed: list[str] = []
        self.connections = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Wire

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.server.refuse:
            self.server.refuse -= 1
            self._answer(503, b'{"detail":"full","code":"not_stored","where":null,"request_id":"r"}')
            return
        behind = HTTPConnection(self.server.behind, timeout=30.0)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        behind.request(self.command, self.path, body or None, headers)
        answer = behind.getresponse()
        text = answer.read()
        behind.close()
        self.server.passed.append(f"{self.command} {self.path}")
        if self.server.lose_answers:
            self.server.lose_answers -= 1
            if self.server.lost_status:
                self._answer(self.server.lost_status, b"<html>Bad Gateway</html>")
            else:
                self.close_connection = True
            return
        self._answer(answer.status, text)

    def _answer(self, status: int, text: bytes) -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_DELETE = _pass  # noqa: N815  # the names http.server calls

    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def wire(behind: str) -> Iterator[Wire]:
    """Stand a wire in front of a service."""
    server = Wire(behind)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(timeout=10.0)
        server.server_close()
