import asyncio

import uvicorn

from obil.service.running import _Server
from tests.service.conftest import Served


def test_a_server_that_stops_lets_go_of_who_watches(served: Served) -> None:
    told: list[str] = []
    server = _Server(uvicorn.Config(served.app, port=0, log_config=None, ws="none"), served.app, told.append)

    async def start_and_stop() -> None:
        server.should_exit = True  # as a signal sets it
        await server.serve()

    asyncio.run(start_and_stop())

    assert served.app.state.edge.stopping
    assert len(told) == 1
