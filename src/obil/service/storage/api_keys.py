"""Make API keys, keep only their hashes, and tell a right one from a wrong one in constant time."""

import hashlib
import hmac
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from obil.errors import InvalidInputError

SCOPES = ("decide", "label", "read", "admin")
PREFIX = "obil"
LONGEST_NAME = 128
_LONGEST_KEY = 256


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """What is kept of an API key: everything but its secret."""

    id: str
    name: str  # who holds it: stands in logs and in the audit
    hash: bytes  # sha256 of the secret
    scopes: tuple[str, ...]
    created: float  # seconds since 1970
    expires: float | None = None
    revoked: float | None = None

    def is_valid(self, now: float) -> bool:
        """Return whether the key is neither revoked nor expired."""
        return self.revoked is None and (self.expires is None or now < self.expires)


class KeyStore(Protocol):
    """Where keys are kept. Methods may be called from any thread."""

    def add_key(self, record: KeyRecord) -> None:
        """Keep a new key."""

    def list_keys(self) -> Sequence[KeyRecord]:
        """Return all keys, the oldest first, revoked ones too."""

    def find_key(self, key_id: str) -> KeyRecord | None:
        """Return the key with that id."""

    def revoke_key(self, key_id: str, at: float) -> bool:
        """Mark a key as revoked; return whether there was one that was not yet."""


class KeysInMemory:
    """Keys that are gone with the process."""

    def __init__(self) -> None:
        self._keys: dict[str, KeyRecord] = {}

    def add_key(self, record: KeyRecord) -> None:
        """Keep a new key."""
        self._keys[record.id] = record

    def list_keys(self) -> Sequence[KeyRecord]:
        """Return all keys, the oldest first, revoked ones too."""
        return sorted(self._keys.values(), key=lambda record: record.created)

    def find_key(self, key_id: str) -> KeyRecord | None:
        """Return the key with that id."""
        return self._keys.get(key_id)

    def revoke_key(self, key_id: str, at: float) -> bool:
        """Mark a key as revoked; return whether there was one that was not yet."""
        record = self._keys.get(key_id)
        if record is None or record.revoked is not None:
            return False
        self._keys[key_id] = replace(record, revoked=at)
        return True


def make_key(name: str, scopes: Collection[str], *, now: float, expires: float | None = None) -> tuple[str, KeyRecord]:
    """Return a new key, to be shown once, and what is kept of it.

    >>> key, record = make_key("till 7", ["decide"], now=0.0)
    >>> key.startswith(f"obil_{record.id}_"), record.scopes
    (True, ('decide',))
    """
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        raise InvalidInputError(f"scopes must be some of {', '.join(SCOPES)}, got {unknown or 'none'}")
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise InvalidInputError(f"a key's name must be 1 to {LONGEST_NAME} printable characters, got {name!r:.80}")
    if expires is not None and expires <= now:
        raise InvalidInputError("a key must expire in the future")
    key_id, secret = secrets.token_hex(6), secrets.token_hex(32)
    ordered = tuple(scope for scope in SCOPES if scope in scopes)
    return f"{PREFIX}_{key_id}_{secret}", KeyRecord(key_id, name, hash_of(secret), ordered, now, expires)


def split_key(key: str) -> tuple[str, str] | None:
    """Return the id and the secret of a key, or None if it is not one.

    >>> split_key("obil_a1_s3"), split_key("other")
    (('a1', 's3'), None)
    """
    parts = key.split("_", 2)
    if len(parts) != 3 or parts[0] != PREFIX or len(key) > _LONGEST_KEY or not key.isascii():
        return None
    return parts[1], parts[2]


def hash_of(secret: str) -> bytes:
    """Return what is kept of a secret.

    One round of sha256 is enough: the secret is 256 random bits, not a word that could be guessed, so a slow hash
    would cost every request and protect nothing.
    """
    return hashlib.sha256(secret.encode()).digest()


def is_right(record: KeyRecord | None, secret: str) -> bool:
    """Return whether a secret is the one of a record, taking as long where it is not, or where there is none."""
    expected = bytes(32) if record is None else record.hash
    return hmac.compare_digest(expected, hash_of(secret)) and record is not None
