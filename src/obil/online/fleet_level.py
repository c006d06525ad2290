"""Say where the priors of a fleet's keys lie, as one record of the log."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from obil.arrays import as_integer, as_prior, require_in
from obil.errors import InvalidInputError
from obil.online.segments import SegmentEstimates

LARGEST_SIZE = 1e12
FIELDS = ("prior", "size", "n_keys", "n_rows")


@dataclass(frozen=True, slots=True)
class FleetLevel:
    """The Beta or Dirichlet distribution of the keys' priors, which new keys start from.

    >>> level = FleetLevel(prior=(0.9, 0.1), size=20.0, n_keys=40, n_rows=8_000)
    >>> FleetLevel.from_json(level.to_json()) == level
    True
    """

    prior: tuple[float, ...]  # (K,) the mean of the keys' priors
    size: float  # how many labelled rows of its own a key needs to count as much as the others
    n_keys: int  # that it was fitted to
    n_rows: int

    @classmethod
    def of(cls, found: SegmentEstimates) -> Self:
        """Return the level that segments have in common."""
        return cls(tuple(found.mean.tolist()), found.size, len(found), found.common.n_rows)

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain values."""
        return {name: list(self.prior) if name == "prior" else getattr(self, name) for name in FIELDS}

    @classmethod
    def from_json(cls, record: Any) -> Self:
        """Return the level of a record."""
        if not isinstance(record, Mapping) or set(record) != set(FIELDS):
            raise InvalidInputError(f"a common level must have the fields {', '.join(FIELDS)}, got {record!r:.80}")
        as_prior(record["prior"])
        size = require_in("size", record["size"], 0.0, LARGEST_SIZE)
        counts = (as_integer(name, record[name], 0) for name in ("n_keys", "n_rows"))
        return cls(tuple(map(float, record["prior"])), size, *counts)
