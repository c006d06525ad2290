"""Find where a stream differs from everything that some prior explains."""

from dataclasses import dataclass

import numpy as np

from obil.arrays import FloatArray
from obil.monitor.null_hull import NullHull
from obil.monitor.score_bins import ScoreBins


@dataclass(frozen=True, slots=True)
class ScoreRegion:
    """One bin of log ratios: how many rows it holds, and how many it would hold under a prior.

    >>> region = ScoreRegion((0.0, 1.0), 0.5, 1.5, 0.3, 0.1, 0.05, 0.2)
    >>> region.describe()
    'a log ratio of 0.5 to 1.5'
    """

    log_ratios: tuple[float, ...]  # (K,) at its centre
    low: float | None  # the log ratio it starts at, where there are two classes
    high: float | None  # and the one it ends at
    observed: float  # fraction of the recent rows
    expected: float  # fraction at the closest point: the prior that explains all bins together best
    least_expected: float  # fraction that any prior explains, for this bin alone
    most_expected: float

    @property
    def excess(self) -> float:
        """The observed beyond the expected fraction; negative where rows are missing."""
        return self.observed - self.expected

    def describe(self) -> str:
        """Return where the region lies, in log ratios."""
        if self.low is None or self.high is None:
            return "log ratios near (" + ", ".join(f"{value:.2g}" for value in self.log_ratios) + ")"
        if self.low == -np.inf:
            return f"a log ratio below {self.high:.2g}"
        if self.high == np.inf:
            return f"a log ratio above {self.low:.2g}"
        return f"a log ratio of {self.low:.2g} to {self.high:.2g}"


@dataclass(frozen=True, slots=True)
class Difference:
    """The regions of a stream's log ratios, beside the closest that any prior comes to them.

    >>> region = ScoreRegion((0.0, 1.0), 0.5, 1.5, 0.3, 0.1, 0.05, 0.2)
    >>> Difference(1_000.0, (region,)).most_telling is region
    True
    """

    n_rows: float  # recent rows behind the fractions; older ones fade
    regions: tuple[ScoreRegion, ...]

    @property
    def most_telling(self) -> ScoreRegion:
        """The region whose excess or lack of rows is least likely to be chance."""
        return max(self.regions, key=lambda region: abs(region.excess) / np.sqrt(region.expected + 1e-6))

    def describe(self) -> str:
        """Return one sentence on where the difference is largest."""
        if self.n_rows == 0.0:
            return "No rows yet."
        region = self.most_telling
        amount = "more" if region.excess > 0.0 else "fewer"
        return (
            f"{100.0 * region.observed:.1f} % of the recent rows have {region.describe()}, {amount} than the "
            f"{100.0 * region.expected:.1f} % of the prior that explains the stream best."
        )


def difference_from(hull: NullHull, bins: ScoreBins, recent: FloatArray) -> Difference:
    """Compare the recent rows of each bin (B,) with the hull of what some prior explains."""
    n_rows = float(recent.sum())
    seen = recent / n_rows if n_rows > 0.0 else np.zeros_like(recent)
    explained = hull.closest(seen) if n_rows > 0.0 else seen
    ratios = bins.centres - bins.centres[:, :1]
    edges = np.full(bins.n_bins + 1, np.inf)
    edges[0] = -np.inf
    edges[1:-1] = (ratios[1:, 1] + ratios[:-1, 1]) / 2.0
    is_binary = ratios.shape[1] == 2
    regions = []
    for b in range(bins.n_bins):
        only = np.zeros(bins.n_bins)
        only[b] = 1.0
        regions.append(
            ScoreRegion(
                log_ratios=tuple(ratios[b].tolist()),
                low=float(edges[b]) if is_binary else None,
                high=float(edges[b + 1]) if is_binary else None,
                observed=float(seen[b]),
                expected=float(explained[b]),
                least_expected=max(0.0, 1.0 - hull.largest_mean(1.0 - only)),
                most_expected=min(1.0, hull.largest_mean(only)),
            )
        )
    return Difference(n_rows, tuple(regions))
