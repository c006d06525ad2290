"""Find out who sends a request, and whether they may."""

import asyncio
import time
from collections.abc import Callable

from obil.service.refusals import NoKeyError, WrongScopeError
from obil.service.storage.api_keys import KeyRecord, KeyStore, is_right, split_key

ANONYMOUS = "anonymous"
_MOST_CACHED = 10_000


class Authentication:
    """Reads keys from their store, each at most once in `cache_seconds`: a revoked one may live that much longer."""

    def __init__(
        self,
        keys: KeyStore | None,
        *,
        required: bool,
        cache_seconds: float = 5.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.required = required
        self._keys, self._cache_seconds, self._now = keys, cache_seconds, now
        self._known: dict[str, tuple[KeyRecord, float]] = {}  # with the time until which it need not be read again

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
            raise NoKeyError("an API key must follow the word Bearer: send Authorization: Bearer obil_...")
        parts = split_key(key.strip())
        if parts is None or self._keys is None:
            raise NoKeyError("the API key is not one of this service")
        key_id, secret = parts
        now = self._now()
        record, until = self._known.get(key_id, (None, 0.0))
        if now >= until:
            record = await asyncio.to_thread(self._keys.find_key, key_id)  # a store may wait for its disk
            if record is not None:
                if len(self._known) >= _MOST_CACHED:
                    self._known.clear()
                self._known[key_id] = record, now + self._cache_seconds
            else:
                self._known.pop(key_id, None)
        if not is_right(record, secret) or record is None or not record.is_valid(now):
            # one message for all: which of them it is would help only who should not know
            raise NoKeyError("the API key is wrong, expired or revoked")
        return record
