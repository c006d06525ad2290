import socket

import pytest

from obil.errors import InvalidInputError
from obil.service.free_port import require_free_port


def test_refuses_a_port_that_someone_listens_at() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(InvalidInputError, match=f"port {port} of 127.0.0.1 must be free"):
            require_free_port("127.0.0.1", port)

    require_free_port("127.0.0.1", port)


def test_refuses_an_address_of_another_machine() -> None:
    with pytest.raises(InvalidInputError, match=r"port 0 of 192\.0\.2\.1 must be free"):
        require_free_port("192.0.2.1", 0)
