"""Find out whether a port can be listened at, before anything that takes time or writes."""

import socket

from obil.errors import InvalidInputError


def require_free_port(host: str, port: int) -> None:
    """Refuse an address that is taken, is not of this machine, or that this user may not listen at.

    >>> require_free_port("127.0.0.1", 0)
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server will: closed ones may linger
            tried.bind(address)
    except OSError as error:
        raise InvalidInputError(
            f"port {port} of {host} must be free to listen at (--port 0 takes any), got: {error.strerror or error}"
        ) from None
