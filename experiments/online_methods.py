"""Name the methods of the paper's two online figures: each gives the prior that every row is decided with."""

from collections.abc import Callable

import numpy as np

from experiments.contenders import CONTENDERS
from experiments.paper_formulas import rate_for_horizon
from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses, Stream
from obil.trackers import Algorithm2, BayesBank, FixedPrior, SafeTracker
from obil.trackers.tracker import CompiledTracker

HOLDOUT_SEED = 1_000_003  # far from the seeds of the streams
ORACLE = "oracle"
PRINTED = "Algorithm 2, as printed"
THEOREM = "Algorithm 2, theorem's rate"
FROM_HOLDOUT = ("BBSE soft 1,000", "BBSE hard 1,000")
FROM_START: dict[str, Callable[[float, int], CompiledTracker]] = {  # of the start prior and the number of rows
    PRINTED: lambda start, _: Algorithm2(start),
    THEOREM: lambda start, n_rows: Algorithm2(start, rate=rate_for_horizon(n_rows)),
    "bank": lambda start, _: BayesBank(start),
    "SafeTracker": lambda start, _: SafeTracker(start),
    # trained on a balanced problem: an exact ratio is decided at prior 1/2, for ever
    "SMOTE": lambda _start, _n_rows: FixedPrior(0.5),
    "Vanilla": lambda start, _: FixedPrior(start),
}


def priors_used(
    method: str, stream: Stream, classes: GaussianClasses, *, start: float, holdout_rows: int, seed: int
) -> FloatArray:
    """Return the positive prior that a method decides each row of a stream with, (n,).

    Only BBSE has held-out rows, drawn at the start prior with a seed of their own.
    """
    if method == ORACLE:
        return stream.priors[:, 1]
    if method in FROM_HOLDOUT:
        holdout = classes.draw(np.full(holdout_rows, start), random_state=HOLDOUT_SEED + seed)
        tracker = CONTENDERS[method](start, holdout)
    else:
        tracker = FROM_START[method](start, len(stream.labels))
    return tracker.update_many(stream.log_ratios)[:, 1]
