"""Say which version of the model runs in shadow, and on what fraction of rows: the same for all processes."""

import json
from typing import NamedTuple


class ShadowSettings(NamedTuple):
    """Which version is compared with the active one; without a version, none is."""

    version: str | None = None
    fraction: float = 0.0  # of rows
    since: float = 0.0  # seconds since 1970
    by: str = ""

    def to_text(self) -> str:
        """Return what the store keeps."""
        return json.dumps(self._asdict())


def shadow_of(text: str | None) -> ShadowSettings:
    """Return the settings that a store keeps.

    >>> shadow_of(ShadowSettings("a1", 0.1).to_text()).fraction, shadow_of(None).version
    (0.1, None)
    """
    return ShadowSettings(**json.loads(text)) if text else ShadowSettings()
