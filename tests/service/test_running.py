import asyncio
import socket

import pytest
import uvicorn

from obil.errors import InvalidInputError
from obil.service.running import _Server, bound_socket
from tests.service.conftest import Served


def test_a_server_that_stops_ends_its_event_streams(served: Served) -> None:
    told: list[str] = []
    server = _Server(uvicorn.Config(served.app, port=0, log_config=None, ws="none"), served.app, told.append)

    async def start_and_stop() -> None:
        server.should_exit = True  # as a signal sets it
        await server.serve()

    asyncio.run(start_and_stop())

    assert served.app.state.obil.stopping
    assert len(told) == 1


def test_refuses_a_port_that_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(InvalidInputError, match=f"cannot listen on port {port} of 127.0.0.1"):
            bound_socket("127.0.0.1", port)

    bound_socket("127.0.0.1", port).close()


def test_refuses_an_address_of_another_machine() -> None:
    with pytest.raises(InvalidInputError, match=r"cannot listen on port 0 of 192\.0\.2\.1"):
        bound_socket("192.0.2.1", 0)
