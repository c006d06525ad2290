"""Tell how long tests that repeat themselves are to run: `OBIL_THOROUGH=1` for as long as a release deserves."""

import os

THOROUGH = os.environ.get("OBIL_THOROUGH", "") not in ("", "0")


def repeats(usual: int, thorough: int) -> int:
    """Return how often to repeat."""
    return thorough if THOROUGH else usual
