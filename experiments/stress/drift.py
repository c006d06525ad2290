"""Let the prior move faster and faster, with exact ratios, and measure what each tracker costs."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from experiments.gaussian_pair import GaussianPair
from experiments.paper_formulas import rate_for_drift
from experiments.safety import exact_model
from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.datasets.prior_paths import bounded_walk
from obil.trackers import Algorithm2, BayesBank, FixedPrior, PriorTracker, SafeTracker, WindowEM
from obil.trackers.view_reference import ViewReference


class Known(NamedTuple):
    """What a tracker may be told before the first row."""

    start: float
    drift: float  # a row
    view_reference: ViewReference
    mean: float  # of the path


TRACKERS: dict[str, Callable[[Known], PriorTracker]] = {
    "Algorithm 2": lambda known: Algorithm2(known.start),
    "Algorithm 2, rate sqrt(drift)": lambda known: Algorithm2(known.start, rate=rate_for_drift(known.drift)),
    "bank": lambda known: BayesBank(known.start),
    "safe": lambda known: SafeTracker(known.start, view_reference=known.view_reference),
    "window EM 20": lambda known: WindowEM(known.start, window=20),
    "window EM 200": lambda known: WindowEM(known.start, window=200),
    "mean of the path": lambda known: FixedPrior(known.mean),
}
HOLDOUT_SEED = 8_000_009


def run(cell: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Return, for each drift a row, the excess cost of every tracker over the oracle in percent."""
    seed, start, n_features = cell["seed"], settings["start_prior"], settings["drift_features"]
    classes = GaussianClasses.spread(settings["separation"], n_features=n_features)
    orders = [np.random.default_rng([seed, half]).permutation(n_features) for half in range(2)]
    halves = [half.tolist() for order in orders for half in np.array_split(order, 2)]

    def views_of(features: FloatArray) -> FloatArray:
        return np.stack([classes.log_ratios(features, subset=half) for half in halves], axis=1)

    held_out = classes.draw(np.full(settings["drift_holdout"], start), random_state=HOLDOUT_SEED + seed)
    model = exact_model(held_out.log_ratios, held_out.labels, views_of(held_out.features))
    view_reference, pair = ViewReference.of_model(model), GaussianPair(settings["separation"])
    found: dict[str, Any] = {}
    for drift in settings["drifts"]:
        truth = bounded_walk(
            settings["drift_rows"], start=settings["drift_start"], step_size=drift,
            flip_probability=settings["flip_probability"], low=settings["lowest_prior"],
            high=settings["highest_prior"], random_state=seed,
        )  # fmt: skip
        stream = classes.draw(truth, random_state=seed)
        known = Known(start, drift, view_reference, float(truth.mean()))
        evidence = np.concatenate([stream.log_ratios[:, None], views_of(stream.features)], axis=1)
        found[f"{drift:g}"] = {
            name: 100.0 * pair.excess(make(known).update_many(stream.log_ratios, evidence=evidence)[:, 1], truth)
            for name, make in TRACKERS.items()
        }
    return found
