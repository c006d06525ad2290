"""Name every tracker that is compared, each at fixed settings."""

from collections.abc import Callable
from typing import Any

from experiments.peers import FLHFTL, FTFWH, FTH, RLLS, ROGD
from obil.datasets.gaussian_stream import Stream
from obil.trackers import BBSE, Algorithm2, BayesBank, FixedPrior, GridFilter, OnlineEM, WindowEM
from obil.trackers.bbse import confusion_of_predictions
from obil.trackers.tracker import CompiledTracker

Contender = Callable[[float, Stream], CompiledTracker]


def _inverted(start: float, holdout: Stream) -> CompiledTracker:
    return Algorithm2(start, confusion=confusion_of_predictions(holdout.log_ratios, holdout.labels))


def _from_holdout(build: Callable[..., CompiledTracker], **settings: Any) -> Contender:
    return lambda start, holdout: build(holdout.log_ratios, holdout.labels, prior=start, **settings)


CONTENDERS: dict[str, Contender] = {
    "bank": lambda start, _: BayesBank(start),
    "grid, learned reset": lambda start, _: GridFilter(start, n_points=129),
    "grid, no reset": lambda start, _: GridFilter(start, reset_rates=()),
    "one endless filter": lambda start, _: BayesBank(start, memories=(None,), n_snapshots=0),
    "Algorithm 2, as printed": lambda start, _: Algorithm2(start),
    "Algorithm 2, frequency inverted": _inverted,
    "online EM .05": lambda start, _: OnlineEM(start, rate=0.05),
    "online EM .01": lambda start, _: OnlineEM(start, rate=0.01),
    "online EM .002": lambda start, _: OnlineEM(start, rate=0.002),
    "window EM 20": lambda start, _: WindowEM(start, window=20),
    "window EM 200": lambda start, _: WindowEM(start, window=200),
    "window EM 1,000": lambda start, _: WindowEM(start, window=1_000),
    "BBSE hard 1,000": _from_holdout(BBSE.from_holdout, soft=False, window=1_000),
    "BBSE soft 1,000": _from_holdout(BBSE.from_holdout, soft=True, window=1_000),
    "RLLS 1,000": _from_holdout(RLLS.from_holdout, window=1_000),
    "FTH": _from_holdout(FTH.from_holdout),
    "FTFWH 1,000": _from_holdout(FTFWH.from_holdout, window=1_000),
    "ROGD .003": _from_holdout(ROGD.from_holdout, step_size=3e-3, floor=1e-3),
    "FLH-FTL, textbook rate": _from_holdout(FLHFTL.from_holdout),
    "FLH-FTL, rate 1": _from_holdout(FLHFTL.from_holdout, learning_rate=1.0),
    "no adaptation": lambda start, _: FixedPrior(start),
}
