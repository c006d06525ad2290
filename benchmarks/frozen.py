"""Time decisions of frozen models of five folds, end to end, against the libraries' own `predict_proba`.

One decision needs the scores of all five: a row is held against one booster, and against the five pipelines; a batch
against the five boosters. Models have no views here, but for one, which shows what those cost on top.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from obil.datasets.gaussian_stream import GaussianClasses
from obil.estimators.ratio_classifier import RatioClassifier
from obil.online.online_classifier import OnlineClassifier
from obil.trackers import SafeTracker

N_CODES = 2  # columns of the pipeline's rows that hold codes


def measure(settings: dict[str, Any]) -> dict[str, float]:
    """Return microseconds per row, each the fastest of a few runs taken in turns on one thread, and their ratios."""
    n_rows, n_features = settings["n_rows"], settings["n_features"]
    classes = GaussianClasses.spread(settings["separation"], n_features=n_features)
    training = classes.draw(np.full(settings["training_rows"], settings["prior"]), random_state=0)
    batch = classes.draw(np.full(settings["batch_rows"], settings["prior"]), random_state=1).features
    mixed, mixed_training = _with_codes(batch[:n_rows]), _with_codes(training.features)
    with threadpool_limits(1):
        boosted, viewed = (
            RatioClassifier(HistGradientBoostingClassifier(random_state=0), views=views, random_state=0).fit(
                training.features, training.labels
            )
            for views in (False, True)
        )
        piped = RatioClassifier(_pipeline(n_features), views=False, random_state=0)
        piped.fit(mixed_training, training.labels)
        booster, pipelines = boosted.estimators_[0], piped.estimators_
        by_booster, with_views, by_pipeline, of_batch = (
            OnlineClassifier(model, tracker=SafeTracker.for_model(model.model_))
            for model in (boosted, viewed, piped, boosted)
        )
        single, single_mixed = [row[None] for row in batch[:n_rows]], [row[None] for row in mixed]
        works: dict[str, tuple[int, Callable[[], object]]] = {
            "booster_row": (n_rows, lambda: [booster.predict_proba(row) for row in single]),
            "decide_booster": (n_rows, lambda: [by_booster.decide(row) for row in batch[:n_rows]]),
            "decide_with_views": (n_rows, lambda: [with_views.decide(row) for row in batch[:n_rows]]),
            "pipeline_rows": (n_rows, lambda: [one.predict_proba(row) for row in single_mixed for one in pipelines]),
            "decide_pipeline": (n_rows, lambda: [by_pipeline.decide(row) for row in mixed]),
            "booster_batches": (len(batch), lambda: [one.predict_proba(batch) for one in boosted.estimators_]),
            "decide_many": (len(batch), lambda: of_batch.decide_many(batch)),
        }
        for online, rows in (
            (by_booster, batch),
            (with_views, batch),
            (by_pipeline, mixed),
        ):  # compile before the clock starts
            online.decide(rows[0])
            online.decide_many(rows[:10])
        fastest = dict.fromkeys(works, np.inf)
        for _ in range(settings["repeats"]):  # in turns, so that a slow moment of the machine hits all alike
            for name, (n, work) in works.items():
                started = time.perf_counter()
                work()
                fastest[name] = min(fastest[name], (time.perf_counter() - started) * 1e6 / n)
    return {
        "decide_over_booster_row": fastest["decide_booster"] / fastest["booster_row"],
        "decide_with_views_over_booster_row": fastest["decide_with_views"] / fastest["booster_row"],
        "decide_over_pipeline_rows": fastest["decide_pipeline"] / fastest["pipeline_rows"],
        "decide_many_over_booster_batches": fastest["decide_many"] / fastest["booster_batches"],
    } | {f"{name}_microseconds": value for name, value in fastest.items()}


def _with_codes(rows: Any) -> Any:
    """Return the rows with the last columns as codes and every tenth cell missing."""
    mixed = rows.copy()
    mixed[:, -N_CODES:] = np.floor(2.0 * mixed[:, -N_CODES:])
    mixed[np.random.default_rng(0).random(mixed.shape) < 0.1] = np.nan
    return mixed


def _pipeline(n_features: int) -> Any:
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    codes = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    places = list(range(n_features))
    encode = ColumnTransformer([("numbers", numbers, places[:-N_CODES]), ("codes", codes, places[-N_CODES:])])
    return make_pipeline(encode, LogisticRegression(max_iter=500))
