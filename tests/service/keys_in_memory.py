"""Hold API keys in memory, for tests."""

from collections.abc import Sequence
from dataclasses import replace

from obil.service.storage.api_keys import KeyRecord


class KeysInMemory:
    """Keys that are gone with the process."""

    def __init__(self) -> None:
        self._keys: dict[str, KeyRecord] = {}

    def add_key(self, record: KeyRecord) -> None:
        """Store a new key."""
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
