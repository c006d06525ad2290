"""Fitted models of every kind that a file has to keep."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from obil.arrays import FloatArray, IntArray
from obil.calibration.evidence_map import fit_bins
from obil.datasets.gaussian_stream import GaussianClasses
from obil.estimators.ratio_classifier import RatioClassifier
from obil.serving.binned_calibrator import MixedCalibrator
from obil.serving.columns import ColumnEncoder
from obil.serving.ratio_model import RatioModel

TRIANGLE = GaussianClasses(np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 1.0], [0.0, 2.0, 1.0]]), np.eye(3))
PAIR = GaussianClasses.spread(2.0, n_features=3)


def pair_rows(n: int = 200, seed: int = 0) -> tuple[FloatArray, IntArray]:
    """Return rows of two classes in three features, a quarter of them positive."""
    stream = PAIR.draw(np.full(n, 0.25), random_state=seed)
    return stream.features, stream.labels


def triangle_rows(n: int = 240, seed: int = 0) -> tuple[FloatArray, IntArray]:
    """Return rows of three classes."""
    stream = TRIANGLE.draw(np.tile([0.5, 0.3, 0.2], (n, 1)), random_state=seed)
    return stream.features, stream.labels


def _fitted(estimator: Any, **settings: Any) -> RatioModel:
    return RatioClassifier(estimator, random_state=0, **{"views": False} | settings).fit(*pair_rows()).model_


def _named(labels: list[Any], estimator: Any = None) -> RatioModel:
    rows, numbers = pair_rows()
    classifier = RatioClassifier(estimator or LogisticRegression(), views=False, random_state=0)
    return classifier.fit(rows, np.array(labels)[numbers]).model_


def _scores(kind: str, **settings: Any) -> RatioModel:
    stream = GaussianClasses.pair(2.0).draw(np.full(200, 0.3), random_state=0)
    margin = stream.log_ratios[:, 1]
    scores = margin if kind == "margin" else 1.0 / (1.0 + np.exp(-margin))
    return RatioClassifier.from_scores(scores, stream.labels, kind=kind, random_state=0, **settings).model_


def _three_classes(calibration: str) -> RatioModel:
    classifier = RatioClassifier(LogisticRegression(), calibration=calibration, views=False, random_state=0)
    return classifier.fit(*triangle_rows()).model_


def _frozen() -> RatioModel:
    rows, labels = pair_rows()
    fitted = FrozenEstimator(LogisticRegression().fit(rows[:100], labels[:100]))
    return RatioClassifier(fitted, views=False).fit(rows[100:], labels[100:]).model_


def _in_bins(model: RatioModel, *, mix: bool = False) -> RatioModel:
    """Return the model with the prior read from bins, or from a mixture of them with its own calibrator."""
    assert model.evidence is not None
    scores, labels, weights = model.evidence.scores, model.holdout_.labels, model.holdout_.weights
    bins = fit_bins(scores, labels, weights)
    score_map = MixedCalibrator(model.calibrator, bins, model.prior_) if mix else bins
    return replace(model, evidence=replace(model.evidence, calibrator=score_map))


def table(n: int = 200, seed: int = 0) -> tuple[pd.DataFrame, IntArray]:
    """Return rows with two numbers and a category."""
    rows, labels = pair_rows(n, seed)
    wards = np.array(["low", "middle", "high"])[np.digitize(rows[:, 2], [0.0, 1.0])]
    return pd.DataFrame({"age": rows[:, 0], "ward": wards, "marker": rows[:, 1]}), labels


def _with_encoder() -> RatioModel:
    frame, labels = table()
    encoder = ColumnEncoder.fit(frame)
    booster = HistGradientBoostingClassifier(max_iter=5, categorical_features=encoder.categories, random_state=0)
    return (
        RatioClassifier(booster, views=False, random_state=0).fit(encoder.encode(frame), labels).with_encoder(encoder)
    )


def _data_frame() -> RatioModel:
    rows, labels = pair_rows()
    frame = pd.DataFrame(rows, columns=["age", "marker", "weight"])
    return RatioClassifier(LogisticRegression(), views=False, random_state=0).fit(frame, labels).model_


MODELS: dict[str, Callable[[], RatioModel]] = {
    "logistic, affine": lambda: _fitted(LogisticRegression()),
    "logistic, temperature": lambda: _fitted(LogisticRegression(), calibration="temperature"),
    "logistic, isotonic": lambda: _fitted(LogisticRegression(), calibration="isotonic"),
    "three classes, affine": lambda: _three_classes("affine"),
    "three classes, vector": lambda: _three_classes("vector"),
    "with views": lambda: _fitted(LogisticRegression(), views=True),
    "refitted, with views": lambda: _fitted(LogisticRegression(), cv=2, ensemble=False, views=True),
    "held out once": lambda: _fitted(GaussianNB(), cv=0.5),
    "bins": lambda: _in_bins(_fitted(LogisticRegression())),
    "bins and a line": lambda: _in_bins(_fitted(LogisticRegression()), mix=True),
    "bins and a monotone map": lambda: _in_bins(_fitted(LogisticRegression(), calibration="isotonic"), mix=True),
    "three classes, bins": lambda: _in_bins(_three_classes("affine")),
    "without evidence of its own": lambda: replace(_fitted(LogisticRegression()), evidence=None),
    "with an encoder": _with_encoder,
    "data frame": _data_frame,
    "frozen": _frozen,
    "scores, margin": lambda: _scores("margin"),
    "scores, probability": lambda: _scores("probability"),
    "scores, isotonic": lambda: _scores("margin", calibration="isotonic"),
    "classes of strings": lambda: _named(["ok", "fraud"]),
    "classes of numbers": lambda: _named([7, 3]),
    "classes of truth values": lambda: _named([False, True]),
    "boosting": lambda: _fitted(HistGradientBoostingClassifier(max_iter=5, random_state=0)),
    "forest": lambda: _fitted(RandomForestClassifier(5, random_state=0)),
    "tree": lambda: _fitted(DecisionTreeClassifier(max_depth=3, random_state=0)),
    "linear SVC in a pipeline": lambda: _fitted(make_pipeline(StandardScaler(), LinearSVC(random_state=0))),
    "SVC": lambda: _fitted(SVC()),
    "naive Bayes": lambda: _fitted(GaussianNB()),
    "neighbours": lambda: _fitted(KNeighborsClassifier()),
    "network": lambda: _fitted(MLPClassifier([4], solver="lbfgs", max_iter=500, alpha=1.0, random_state=0)),
}


def service_rows(name: str) -> Any:
    """Return fresh rows as the model of that name takes them."""
    if name.startswith("scores"):
        values = np.linspace(-5.0, 5.0, 40)
        return 1.0 / (1.0 + np.exp(-values)) if "probability" in name else values
    if name == "with an encoder":
        return table(60, seed=1)[0]
    rows = triangle_rows(60, seed=1)[0] if name.startswith("three") else pair_rows(60, seed=1)[0]
    return pd.DataFrame(rows, columns=["age", "marker", "weight"]) if name == "data frame" else rows
