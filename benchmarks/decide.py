"""Time what deciding a row adds to scoring it, against scoring one row with a small network."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from obil.datasets.gaussian_stream import GaussianClasses
from obil.estimators.ratio_classifier import RatioClassifier
from obil.online.online_classifier import OnlineClassifier
from obil.policies import FBetaPolicy
from obil.trackers import BayesBank


def measure(settings: dict[str, Any]) -> dict[str, float]:
    """Return microseconds a row, each the fastest of a few runs taken in turns, and their ratios."""
    n_rows = settings["n_rows"]
    classes = GaussianClasses.spread(settings["separation"], n_features=settings["n_features"])
    training = classes.draw(np.full(settings["training_rows"], settings["prior"]), random_state=0)
    rows = classes.draw(np.full(n_rows, settings["prior"]), random_state=1)
    network = MLPClassifier([128, 64, 32], max_iter=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # its speed does not depend on how well it learned
        model = RatioClassifier(network, views=True, random_state=0).fit(training.features, training.labels)
        network.fit(training.features, training.labels)
    scored = RatioClassifier.from_scores(training.log_ratios[:, 1], training.labels, kind="margin")
    bare: dict[str, Any] = {"monitor": False, "horizon": 0}
    online = OnlineClassifier(model, tracker=BayesBank(), **bare)
    by_table = OnlineClassifier(model, tracker=BayesBank(), policy=FBetaPolicy(), **bare)
    from_scores = OnlineClassifier(scored, tracker=BayesBank(), **bare)
    everything = OnlineClassifier(
        model
    )  # the safe tracker with four views and labels, the monitor, the ledger, the tally
    evidence = model.model_.score(rows.features).evidence_from(0)
    everything.decide_log_ratios(rows.log_ratios[:100], evidence=evidence[:100])
    for row, label in enumerate(rows.labels[:100]):
        everything.feedback(row, label)
    scored_rows = list(zip(rows.log_ratios, evidence, strict=True))
    single_rows = [row[None] for row in rows.features]
    works: dict[str, Callable[[], object]] = {
        "mlp_row": lambda: [network.predict_proba(row) for row in single_rows],
        "bookkeeping": lambda: [online._decide_row(*row, None) for row in scored_rows],
        "bookkeeping_fbeta": lambda: [by_table._decide_row(*row, None) for row in scored_rows],
        "everything": lambda: [everything._decide_row(*row, None) for row in scored_rows],
        "decide": lambda: [online.decide(row) for row in rows.features],
        "decide_from_scores": lambda: [from_scores.decide(score) for score in rows.log_ratios[:, 1]],
        "decide_many": lambda: online.decide_many(rows.features),
    }
    fastest = dict.fromkeys(works, np.inf)
    for _ in range(settings["repeats"]):  # in turns, so that a slow moment of the machine hits all alike
        for name, work in works.items():
            started = time.perf_counter()
            work()
            fastest[name] = min(fastest[name], (time.perf_counter() - started) * 1e6 / n_rows)
    return {
        "bookkeeping_over_mlp_row": fastest["bookkeeping"] / fastest["mlp_row"],
        "everything_over_mlp_row": fastest["everything"] / fastest["mlp_row"],
        "bookkeeping_fbeta_over_mlp_row": fastest["bookkeeping_fbeta"] / fastest["mlp_row"],
        "decide_over_mlp_row": fastest["decide"] / fastest["mlp_row"],
        "decide_from_scores_over_mlp_row": fastest["decide_from_scores"] / fastest["mlp_row"],
    } | {f"{name}_microseconds": value for name, value in fastest.items()}
