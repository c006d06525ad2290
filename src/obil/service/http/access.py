"""Decide who may send a request: by the service's own host names, by an API key, and by the scope it has."""

import asyncio
import re
import time
from collections.abc import Callable, Mapping

from obil.service.refusals import ForeignHostError, NoKeyError, WrongScopeError
from obil.service.storage.api_keys import KeyRecord, is_right, split_key
from obil.service.storage.store import Store

ANONYMOUS = "anonymous"
UNKNOWN_KEY_SECONDS = 0.5  # between two looks into the store for keys that are not known yet
_MAX_CACHED_HOSTS = 1_000
# each group is named after the scope that its requests need
_SCOPES = re.compile(
    "(?P<decide>POST (?:/v1/streams/.*/decisions|/v2/models/.*/infer))"
    "|(?P<label>POST /v1/streams/.*/(?:labels|notes))"
    "|(?P<upload>POST /v1/models|DELETE /v1/models/.*)"
    "|(?P<activate>POST /v1/model/rollback|POST /v1/models/.*/(?:activate|shadow)|DELETE /v1/model/shadow)"
)
_PUBLIC = frozenset({"/", "/healthz", "/readyz", "/v2/health/live", "/v2/health/ready", "/favicon.ico"})


def needed_scope(method: str, path: str) -> str | None:
    """Return the scope that a request needs, None if it needs no key; a new route needs `read` or `admin` by default.

    >>> needed_scope("POST", "/v1/streams/shop/decisions"), needed_scope("GET", "/healthz")
    ('decide', None)
    >>> needed_scope("DELETE", "/v1/streams/shop")
    'admin'
    >>> needed_scope("POST", "/v1/models"), needed_scope("POST", "/v1/models/0123456789abcdef/activate")
    ('upload', 'activate')
    """
    own = _SCOPES.fullmatch(f"{method} {path}")
    if own is not None:
        return own.lastgroup
    if method in ("GET", "HEAD"):
        return None if path in _PUBLIC or path.startswith("/static/") else "read"
    return "admin"


class HostCheck:
    """Accepts only this service's host names, so that no page of another site can reach it through a browser.

    The port may be any: a proxy has its own.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._accepted: set[bytes] = set()

    def require(self, hosts: list[bytes], origins: list[bytes]) -> None:
        """Refuse a request for another host, or one sent by a page of another site."""
        if len(hosts) != 1:
            raise ForeignHostError(f"a request must have one Host header, got {len(hosts)}")
        host = hosts[0]
        if host not in self._accepted:
            if host_name(host) not in self._names:
                raise ForeignHostError("the Host header must name this service; its operator sets allowed_hosts")
            if len(self._accepted) < _MAX_CACHED_HOSTS:
                self._accepted.add(host)
        for origin in origins:
            scheme, separator, place = origin.partition(b"://")
            if not separator or scheme.lower() not in (b"http", b"https") or place.lower() != host.lower():
                raise ForeignHostError("the Origin header must be this service's own: other sites may not call it")


def host_name(header: bytes) -> str:
    """Return the name in a Host header, without its port, in lower case.

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


class Authentication:
    """Reads all keys from their store, again after `cache_seconds`: a revoked key may stay valid that long.

    All at once, so that many wrong keys cost the store no more than a few. What is read gets old by a clock that
    nobody can set back; only the expiry of a key goes by the time of day.
    """

    def __init__(
        self,
        keys: Store | None,
        *,
        required: bool,
        cache_seconds: float = 5.0,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.required = required
        self._keys, self._cache_seconds, self._now, self._clock = keys, cache_seconds, now, clock
        self._known: Mapping[str, KeyRecord] = {}
        self._read_at = -float("inf")
        self._reading: asyncio.Task[None] | None = None

    async def caller(self, authorization: bytes | None, scope: str | None) -> str:
        """Return the name of the key that a request brings, if it has the scope that is needed."""
        if authorization is None:
            if self.required and scope is not None:
                raise NoKeyError("an API key is needed: send Authorization: Bearer obil_...")
            return ANONYMOUS
        record = await self._record(authorization)
        if scope is not None and scope not in record.scopes:
            raise WrongScopeError(
                f"this needs a key with the scope {scope}, got one with {', '.join(record.scopes)}", caller=record.name
            )
        return record.name

    async def _record(self, authorization: bytes) -> KeyRecord:
        kind, _, key = authorization.decode("latin-1").partition(" ")
        if kind.lower() != "bearer":
            raise NoKeyError("the Authorization header must be a bearer token: send Authorization: Bearer obil_...")
        parts = split_key(key.strip())
        if parts is None or self._keys is None:
            raise NoKeyError("the API key is not one of this service")
        key_id, secret = parts
        age = self._clock() - self._read_at
        if age >= self._cache_seconds or (key_id not in self._known and age >= UNKNOWN_KEY_SECONDS):
            await self._read(self._keys)
        record = self._known.get(key_id)
        if not is_right(record, secret) or record is None or not record.is_valid(self._now()):
            # one message for all three: which one it is would help only an attacker
            raise NoKeyError("the API key is wrong, expired or revoked")
        return record

    async def _read(self, keys: Store) -> None:
        """Read all keys, once for all requests that wait for them."""

        async def read() -> None:
            try:
                at = self._clock()
                records = await asyncio.to_thread(keys.list_keys)  # a store may wait for its disk
                self._known, self._read_at = {record.id: record for record in records}, at
            finally:
                self._reading = None

        if self._reading is None:
            self._reading = asyncio.create_task(read())
        await asyncio.shield(self._reading)  # one request may be given up, the others still wait
