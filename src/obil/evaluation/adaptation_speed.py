"""Measure how many rows the default tracker needs after a jump of the prior, on streams drawn from held-out rows."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.ndimage import median_filter

from obil.arrays import FloatArray
from obil.serving.ratio_model import RatioModel
from obil.trackers import SafeTracker

ODDS = 4.0  # by which the odds of the rarest class fall or rise
QUIET_ROWS = 3_000  # at the training prior, before the jump
MOST_ROWS = 20_000  # after it
WITHIN = 0.2  # of the new prior
STAYS = 500  # rows of which the median has to be within that
N_STREAMS = 5  # whose median is reported


@dataclass(frozen=True, slots=True)
class AdaptationSpeed:
    """Rows after a jump of the prior until the tracked one stays near it; None where 20,000 are not enough.

    Near means that the median of the next 500 estimates is within 20 % of the new prior. Before the jump come 3,000
    rows at the training prior, after which fast memories may be admitted: earlier in a stream it takes longer.
    """

    falls: int | None  # the odds of the rarest class become a quarter of what they were
    rises: int | None  # four times what they were

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return asdict(self)

    def describe(self) -> str:
        """Return them as text.

        >>> AdaptationSpeed(falls=900, rises=None).describe()
        'about 900 when the odds fall to a quarter, over 20,000 when they rise fourfold'
        """
        falls, rises = (
            f"over {MOST_ROWS:,}" if rows is None else f"about {rows:,}" for rows in (self.falls, self.rises)
        )
        return f"{falls} when the odds fall to a quarter, {rises} when they rise fourfold"


def adaptation_speed(model: RatioModel, *, random_state: int = 0) -> AdaptationSpeed:
    """Draw streams of held-out rows whose prior jumps after 3,000 rows, and return the median rows to follow it.

    Only the prior moves in these streams. Where p(x | class) drifts as well, the tracker is slower, by design.
    """
    rng = np.random.default_rng(random_state)
    return AdaptationSpeed(*(_median_rows(model, odds, rng) for odds in (1.0 / ODDS, ODDS)))


def _median_rows(model: RatioModel, odds: float, rng: np.random.Generator) -> int | None:
    holdout, start = model.holdout_, model.prior_
    rarest = int(start.argmin())
    after = start.copy()
    after[rarest] *= odds
    after /= after.sum()
    evidence = np.stack([score_map.apply(scores) for score_map, scores in model.evidence_maps], axis=1)  # (n, 1 + V, K)
    found = []
    for _ in range(N_STREAMS):
        tracker = SafeTracker.for_model(model).start(start)
        parts = ((start, QUIET_ROWS), (after, MOST_ROWS))
        drawn = [rng.choice(len(evidence), size=n_rows, p=holdout.weights_at(at)) for at, n_rows in parts]
        quiet, rows = (evidence[part] for part in drawn)
        tracker.update_many(quiet[:, 0], evidence=quiet)
        found.append(_rows_until(tracker.update_many(rows[:, 0], evidence=rows)[:, rarest], after[rarest]))
    median = int(np.median(found))
    return None if median >= MOST_ROWS else median


def _rows_until(priors: FloatArray, wanted: float) -> int:
    medians = median_filter(priors, size=STAYS, origin=-STAYS // 2)[
        : len(priors) - STAYS
    ]  # of each row and those after it
    near = np.flatnonzero(np.abs(medians / wanted - 1.0) <= WITHIN)
    return int(near[0]) if near.size else MOST_ROWS
