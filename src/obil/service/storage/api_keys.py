"""Create API keys, store only their hashes, and check them in constant time."""

import hashlib
import hmac
import secrets
from collections.abc import Collection
from dataclasses import dataclass

from obil.errors import InvalidInputError

SCOPES = ("decide", "label", "read", "admin", "upload", "activate")
PREFIX = "obil"
LONGEST_NAME = 128
_LONGEST_KEY = 256


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """The stored part of an API key: everything but its secret."""

    id: str
    name: str  # of its holder: for logs and the audit
    hash: bytes  # sha256 of the secret
    scopes: tuple[str, ...]
    created: float  # seconds since 1970
    expires: float | None = None
    revoked: float | None = None

    def is_valid(self, now: float) -> bool:
        """Return whether the key is neither revoked nor expired."""
        return self.revoked is None and (self.expires is None or now < self.expires)


def make_key(name: str, scopes: Collection[str], *, now: float, expires: float | None = None) -> tuple[str, KeyRecord]:
    """Return a new key, to be shown once, and its stored part.

    >>> key, record = make_key("till 7", ["decide"], now=0.0)
    >>> key.startswith(f"obil_{record.id}_"), record.scopes
    (True, ('decide',))
    """
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        raise InvalidInputError(f"scopes must be some of {', '.join(SCOPES)}, got {unknown or 'none'}")
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise InvalidInputError(f"the name of a key must have {LONGEST_NAME} printable characters, got {name!r:.80}")
    if expires is not None and expires <= now:
        raise InvalidInputError(f"a key must expire in the future, got {expires - now:.0f} seconds from now")
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
    """Return the hash of a secret.

    One round of SHA-256 is enough: the secret is 256 random bits, which nobody can guess, so a slow hash would cost
    every request and protect nothing.
    """
    return hashlib.sha256(secret.encode()).digest()


def is_right(record: KeyRecord | None, secret: str) -> bool:
    """Return whether a secret belongs to a record, in the same time whether it does or not."""
    expected = bytes(32) if record is None else record.hash
    return hmac.compare_digest(expected, hash_of(secret)) and record is not None
