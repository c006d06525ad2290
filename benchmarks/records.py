"""Time a stream's state, a new stream, and a fleet of keyed streams against deciding the same rows as one stream."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from benchmarks.ensemble import _fastest
from obil.datasets.gaussian_stream import GaussianClasses
from obil.estimators.ratio_classifier import RatioClassifier
from obil.online.online_classifier import OnlineClassifier
from obil.online.online_fleet import OnlineFleet


def measure(settings: dict[str, Any]) -> dict[str, float]:
    """Return microseconds and bytes of a state of two classes and four views, and what a fleet of many keys takes."""
    classes = GaussianClasses.spread(settings["separation"], n_features=settings["n_features"])
    training = classes.draw(np.full(settings["training_rows"], settings["prior"]), random_state=0)
    rows = classes.draw(np.full(settings["n_rows"], settings["prior"]), random_state=1)
    network = MLPClassifier([128, 64, 32], max_iter=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # its speed does not depend on how well it learned
        model = RatioClassifier(network, random_state=0).fit(training.features, training.labels)
        network.fit(training.features, training.labels)
    online = OnlineClassifier(model, horizon=0)
    online.decide_many(rows.features)
    state, fresh = online.state(), OnlineClassifier(model, horizon=0)
    row = rows.features[:1]
    works: dict[str, Callable[[], object]] = {
        "mlp_row": lambda: [network.predict_proba(row) for _ in range(100)],
        "write_state": lambda: [online.state() for _ in range(100)],
        "restore_state": lambda: [OnlineClassifier.from_state(model, state) for _ in range(100)],
        "new_stream": lambda: [fresh.copied() for _ in range(100)],
    }
    micro = {name: 1e4 * seconds for name, seconds in _fastest(works, settings["repeats"]).items()}
    figures = {f"{name}_microseconds": value for name, value in micro.items()}
    figures["state_over_mlp_row"] = (micro["write_state"] + micro["restore_state"]) / micro["mlp_row"]
    figures |= {"state_bytes": float(len(state)), "record_bytes": float(online.parts()[0].nbytes)}
    return figures | _fleet(model, settings)


def _fleet(model: RatioClassifier, settings: dict[str, Any]) -> dict[str, float]:
    """Time the same log ratios as one stream, and as those of many keys in random order, the new keys included."""
    n_rows, n_keys = settings["fleet_rows"], settings["fleet_keys"]
    drawn = GaussianClasses.pair(settings["separation"]).draw(np.full(n_rows, settings["prior"]), random_state=2)
    keys = np.random.default_rng(3).integers(0, n_keys, n_rows).tolist()
    OnlineClassifier(model, horizon=0).decide_log_ratios(drawn.log_ratios[:1_000])
    OnlineFleet(model, horizon=0).decide_log_ratios(drawn.log_ratios[:1_000], keys=keys[:1_000])
    single, fleet = OnlineClassifier(model, horizon=0), OnlineFleet(model, horizon=0)
    started = time.perf_counter()
    single.decide_log_ratios(drawn.log_ratios)
    middle = time.perf_counter()
    fleet.decide_log_ratios(drawn.log_ratios, keys=keys)
    ended = time.perf_counter()
    return {
        "fleet_over_single": (ended - middle) / (middle - started),
        "fleet_seconds": ended - middle,
        "fleet_microseconds_a_key": 1e6 * (ended - middle) / n_keys,
    }
