"""Replace what must not be guessed from the database by keyed digests; the key is in a file outside of it."""

import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path

from obil.errors import InvalidInputError
from obil.online.decision_ids import Id

SECRET_BYTES = 32


class Digests:
    """Digests under one secret: equal values can be found again, and without the secret none can be tried out."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of_id(self, id: Id) -> int:  # noqa: A002  # the name users know
        """Return the 64-bit digest of a decision's id; 7 and "7" are two ids.

        >>> digests = Digests(bytes(32))
        >>> digests.of_id(7) == digests.of_id("7")
        False
        """
        text = f"#{id}" if isinstance(id, int) else f"'{id}"
        digest = hashlib.blake2b(text.encode(), key=self._secret, digest_size=8, person=b"id").digest()
        return int.from_bytes(digest, "little", signed=True)

    def of_retry_key(self, retry_key: str) -> bytes:
        """Return the digest of an idempotency key."""
        return self._digest(retry_key.encode(), b"retry key")

    def of_body(self, digest: bytes) -> bytes:
        """Return the keyed digest of the plain digest of a body."""
        return self._digest(digest, b"body")

    def of_nothing(self) -> str:
        """Return what shows whether a secret is the same, and nothing else."""
        return self._digest(b"", b"secret").hex()

    def _digest(self, value: bytes, purpose: bytes) -> bytes:
        return hashlib.blake2b(value, key=self._secret, digest_size=16, person=purpose).digest()


def read_secret(path: Path) -> bytes | None:
    """Return the secret in a file, None if there is no such file."""
    try:
        text = path.read_text("ascii").strip()
        secret = bytes.fromhex(text)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"secret file {path} cannot be read: {error}") from None
    if len(secret) != SECRET_BYTES:
        raise InvalidInputError(
            f"secret file {path} has {len(secret)} bytes, expected {SECRET_BYTES} in hexadecimal digits: "
            "restore it from its backup"
        )
    return secret


def create_secret(path: Path) -> bytes:
    """Return a new secret, written to a file that only its owner can read; another process may have been faster."""
    text = secrets.token_hex(SECRET_BYTES)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)  # whole or not at all
        draft.unlink()
    except OSError as error:
        raise InvalidInputError(f"secret file {path} cannot be written: {error.strerror}") from None
    secret = read_secret(path)
    if secret is None:
        raise InvalidInputError(f"secret file {path} was removed while the service started: start it again")
    return secret
