"""Measure how many rows the monitor needs to notice changes of the scores, on streams drawn from held-out rows."""

from collections.abc import Callable

import numpy as np

from obil.arrays import FloatArray
from obil.monitor import LabelShiftMonitor
from obil.serving.holdout import Holdout
from obil.serving.ratio_model import RatioModel

N_STREAMS = 61  # whose median is reported
FIRST_MONITORED, MOST_MONITORED = 500, 20_000  # rows of each
Change = Callable[[FloatArray, np.random.Generator], FloatArray]
CHANGES: dict[str, Change] = {  # of scores of unit spread
    "scores move by half a standard deviation": lambda scores, _rng: scores + 0.5,
    "noise of half a standard deviation is added": lambda scores, rng: scores + rng.normal(0.0, 0.5, len(scores)),
    "noise of one standard deviation is added": lambda scores, rng: scores + rng.normal(0.0, 1.0, len(scores)),
}


def monitor_delays(
    model: RatioModel,
    *,
    rows: Holdout | None = None,
    positive: int = 1,
    random_state: int = 0,
    n_streams: int = N_STREAMS,
) -> dict[str, int | None]:
    """Return, for each change of the scores, the median rows until the monitor's alarm; None beyond 20,000.

    Streams are drawn from `rows`, raw scores and labels, the model's held-out ones if None, at the training prior. Each
    has changed from its first row on, before calibration. The unit is the standard deviation of the raw score within
    the classes.

    >>> from obil import RatioClassifier
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.random(2_000) < 0.3
    >>> model = RatioClassifier.from_scores(rng.normal(size=2_000) + 2.0 * labels, labels.astype(int)).model_
    >>> delays = monitor_delays(model, n_streams=3)
    >>> delays["noise of one standard deviation is added"] is not None
    True
    """
    score_map, held_out = model.evidence_maps[0]
    if rows is None:
        rows = Holdout(held_out, model.holdout_.labels, model.holdout_.weights)
    scores, labels, weights = rows.log_ratios, rows.labels, rows.weights_at(model.prior_)
    rng, column = np.random.default_rng(random_state), positive or 1  # the first is 0 throughout
    means = np.bincount(labels, weights=weights * scores[:, column]) / np.bincount(labels, weights=weights)
    spread = float(np.sqrt(weights @ (scores[:, column] - means[labels]) ** 2)) or 1.0

    def drawn(n_rows: int, change: Change) -> FloatArray:
        stream = scores[rng.choice(len(scores), size=n_rows, p=weights)]
        stream[:, column] = spread * change(stream[:, column] / spread, rng)
        return score_map.apply(stream)

    def delay(change: Change) -> int:
        monitor, size = LabelShiftMonitor.for_model(model), FIRST_MONITORED
        while monitor.alarm_row is None and monitor.n_rows < MOST_MONITORED:
            monitor.update_many(drawn(min(size, MOST_MONITORED - monitor.n_rows), change))
            size *= 2
        return MOST_MONITORED if monitor.alarm_row is None else monitor.alarm_row

    medians = {name: int(np.median([delay(change) for _ in range(n_streams)])) for name, change in CHANGES.items()}
    return {name: None if median >= MOST_MONITORED else median for name, median in medians.items()}
