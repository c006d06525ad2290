"""Answer only to this service's own names, so that no page of another site can reach it through a browser."""

from obil.service.refusals import ForeignHostError

_MOST_CACHED = 1_000


class HostCheck:
    """Checks Host and Origin headers against the names of the service; ports may be any (a proxy has its own)."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._good: set[bytes] = set()

    def require(self, hosts: list[bytes], origins: list[bytes]) -> None:
        """Refuse a request for another host, or one that another site's page has sent."""
        if len(hosts) != 1:
            raise ForeignHostError(f"a request must have one Host header, got {len(hosts)}")
        host = hosts[0]
        if host not in self._good:
            if host_name(host) not in self._names:
                raise ForeignHostError("the Host header must name this service; its operator sets allowed_hosts")
            if len(self._good) < _MOST_CACHED:
                self._good.add(host)
        for origin in origins:
            scheme, separator, place = origin.partition(b"://")
            if not separator or scheme.lower() not in (b"http", b"https") or place.lower() != host.lower():
                raise ForeignHostError("the Origin header must be this service's own: other sites may not call it")


def host_name(header: bytes) -> str:
    """Return the name in a Host header, without its port, in small letters.

    >>> host_name(b"LocalHost:8642"), host_name(b"[::1]:8642")
    ('localhost', '::1')
    """
    text = header.decode("latin-1").lower()
    if text.startswith("["):
        name, bracket, rest = text[1:].partition("]")
        return name if bracket and (not rest or _is_port(rest)) else ""
    name, colon, port = text.partition(":")
    return name if not colon or _is_port(colon + port) else ""


def _is_port(text: str) -> bool:
    return text[0] == ":" and text[1:].isascii() and text[1:].isdigit()
