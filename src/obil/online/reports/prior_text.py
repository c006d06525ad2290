"""Write a prior on part of a line."""

from collections.abc import Sequence

from obil.arrays import FloatArray

MOST_SHOWN = 5


def in_short(classes: Sequence[object], prior: FloatArray) -> str:
    """Return the share of each class, the first five of many.

    >>> import numpy as np
    >>> in_short(["ok", "fraud"], np.array([0.98, 0.02])), in_short(range(9), np.full(9, 1 / 9))[-14:]
    ("{'ok': 0.98, 'fraud': 0.02}", '4: 0.111, ...}')
    """
    pairs = list(zip(classes, prior.tolist(), strict=True))[:MOST_SHOWN]
    more = ", ..." if len(classes) > MOST_SHOWN else ""
    return "{" + ", ".join(f"{name!r:.30}: {share:.3g}" for name, share in pairs) + more + "}"
