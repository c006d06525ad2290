"""Measure whether prediction sets hold the true class as often as they promise while the class prior moves.

CIFAR-10 rows are divided and drawn as in `cifar_stream`; two-class sets are split in halves, and their prevalence moves
between that of training and one of several times its odds, along the same paths.
"""

import os
import warnings
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.cifar_scores import divide, why_missing
from experiments.cifar_stream import COMMON, RARE, SECOND_CLASS, draw_rows, prior_path
from experiments.conformal_libraries import library_sets
from experiments.protocol import present_sets, split_set
from experiments.runner import Cell, Settings
from experiments.sets_page import sets_page
from obil import OnlineClassifier, PredictionSets, RatioClassifier, RatioModel, Scores
from obil.arrays import BoolArray, FloatArray, IntArray
from obil.bayes.posterior import posterior
from obil.serving.calibrators import LinearCalibrator
from obil.serving.holdout import Holdout
from obil.serving.scorers import ColumnScorer
from obil.trackers import BayesBank

CIFAR = "cifar"
BLOCK = 200  # rows between two looks at the interval of the prior
STANDARD_ERRORS = 3.0


def missing(settings: Settings) -> str | None:
    """Return why this experiment cannot run here, or None."""
    return why_missing()


def cells(settings: Settings) -> list[Cell]:
    """List the divisions of each set that is at hand."""
    names = [CIFAR, *present_sets(settings["binary_sets"])]
    return [{"set": name, "division": number} for name in names for number in range(settings["n_divisions"])]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Return coverage and size of every method on every path of one division."""
    warnings.filterwarnings("ignore", message="class .* is in every set")
    return _run_cifar(cell["division"], settings) if cell["set"] == CIFAR else _run_binary(cell, settings)


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name coverage and size by set, method and path, and how far coverage is off beyond its standard errors."""
    found: dict[str, float] = {}
    for name in dict.fromkeys(cell["set"] for cell, _ in results):
        runs = [result for cell, result in results if cell["set"] == name]
        wanted = settings["coverage" if name == CIFAR else "binary_coverage"]
        for method in runs[0]["methods"]:
            of_method = [one for one in runs if method in one["methods"]]
            judged = _judged(of_method, method, wanted, settings)
            found |= {f"{name}.{method}.{key}": value for key, value in judged.items()}
    size = found[f"{CIFAR}.marginal.size"]
    found[f"{CIFAR}.marginal.relative_size"] = size / found[f"{CIFAR}.class_fixed.size"]
    found[f"{CIFAR}.marginal.against_class"] = size / found[f"{CIFAR}.class.size"]
    libraries = {key.split(".")[1] for key in found if key.startswith((f"{CIFAR}.mapie", f"{CIFAR}.crepes"))}
    reached = [
        found[f"{CIFAR}.{method}.size"]
        for method in libraries
        if found[f"{CIFAR}.{method}.short"] <= settings["tolerance"]
    ]
    if reached:
        found[f"{CIFAR}.marginal.against_libraries"] = size / min(reached)
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    return sets_page(figures, settings)


def _run_cifar(division: int, settings: Settings) -> dict[str, Any]:
    divided, wanted = divide(os.environ["OBIL_DATA"], division), settings["coverage"]
    fixed, labels = divided.training_prior, divided.stream_labels
    n_classes = fixed.size
    model = RatioModel(
        ColumnScorer("margin", fixed), LinearCalibrator.identity(n_classes), np.arange(n_classes), fixed,
        Holdout.of(divided.calibration, divided.calibration_labels),
    )  # fmt: skip
    marginal, by_class = (PredictionSets(model, coverage=wanted, kind=kind) for kind in ("marginal", "class"))
    at_fixed = {
        "split": marginal.predict_log_ratios(divided.stream, prior=fixed),
        "class_fixed": by_class.predict_log_ratios(divided.stream, prior=fixed),
    }
    probabilities = [posterior(rows, fixed) for rows in (divided.calibration, divided.stream)]
    if division < settings["n_library_divisions"]:
        at_fixed |= library_sets(
            probabilities[0], divided.calibration_labels, probabilities[1], coverage=wanted, seed=division
        )
    methods: dict[str, Any] = {}
    for place, shift in enumerate(settings["shifts"]):
        path = prior_path(shift, settings["n_rows"], n_classes=n_classes)
        rows = draw_rows(path, labels, random_state=100 * division + place)
        drawn = divided.stream[rows]
        priors = BayesBank(fixed).update_many(drawn, evidence=divided.evidence[rows][:, None])
        sets = {name: found[rows] for name, found in at_fixed.items()} | {
            "marginal": marginal.predict_log_ratios(drawn, prior=priors),
            "class": by_class.predict_log_ratios(drawn, prior=priors),
            "oracle": marginal.predict_log_ratios(drawn, prior=path),
        }
        for method, found in sets.items():
            methods.setdefault(method, {})[shift] = _measured(found, labels[rows], settings["window"])
    return {"methods": methods, "held_out": model.holdout_.counts.tolist()}


def _run_binary(cell: Cell, settings: Settings) -> dict[str, Any]:
    split, wanted = split_set(cell["set"], cell["division"], 0.5), settings["binary_coverage"]
    learner = make_pipeline(StandardScaler(), LogisticRegression())
    model = RatioClassifier(learner, views=False, random_state=cell["division"]).fit(split.train, split.train_labels)
    scores, labels, fixed = model.model_.score(split.test), split.test_labels, model.prior_
    marginal, by_class = (PredictionSets(model, coverage=wanted, kind=kind) for kind in ("marginal", "class"))
    odds = settings["odds_factor"] * fixed[1] / fixed[0]
    high = odds / (1.0 + odds)
    methods: dict[str, Any] = {}
    for place, shift in enumerate(settings["shifts"]):
        of_second = (prior_path(shift, settings["n_rows"], n_classes=10)[:, SECOND_CLASS] - RARE) / (COMMON - RARE)
        positive = fixed[1] + of_second * (high - fixed[1])
        path = np.stack([1.0 - positive, positive], axis=1)
        rows = draw_rows(path, labels, random_state=100 * cell["division"] + place)
        drawn = Scores(scores.log_ratios[rows], scores.evidence[rows])
        priors, ends = _tracked(model.model_, drawn)
        sets = {
            "marginal": marginal.predict_log_ratios(drawn.log_ratios, prior=priors),
            "class": by_class.predict_log_ratios(drawn.log_ratios, prior=priors),
            "oracle": marginal.predict_log_ratios(drawn.log_ratios, prior=path),
            "split": marginal.predict_log_ratios(drawn.log_ratios, prior=fixed),
            "ends": np.logical_or(*(marginal.predict_log_ratios(drawn.log_ratios, prior=end) for end in ends)),
        }
        for method, found in sets.items():
            methods.setdefault(method, {})[shift] = _measured(found, labels[rows], settings["window"])
    return {"methods": methods, "held_out": model.holdout_.counts.tolist()}


def _tracked(model: RatioModel, drawn: Scores) -> tuple[FloatArray, list[FloatArray]]:
    """Return the prior of each row from before it, (n, 2), and both ends of its interval at the start of each block."""
    online = OnlineClassifier(model, tracker=BayesBank(), monitor=False, horizon=0)
    priors, ends = [], []
    for start in range(0, len(drawn.log_ratios), BLOCK):
        interval = online.interval()
        assert interval is not None  # a bank has one
        rows = slice(start, start + BLOCK)
        decisions = online.decide_scores(Scores(drawn.log_ratios[rows], drawn.evidence[rows]))
        priors.append(decisions.effective_priors)
        ends.append(np.tile(interval[1], (len(decisions), 1)))
    positive = np.concatenate(ends)
    return np.concatenate(priors), [np.stack([1.0 - end, end], axis=1) for end in positive.T]


def _measured(found: BoolArray, labels: IntArray, window: int) -> dict[str, Any]:
    """Return size and coverage of sets: of all rows, of each window, and of each class."""
    hits = found[np.arange(len(labels)), labels].astype(np.float64)
    counts = np.bincount(labels, minlength=found.shape[1])
    sizes = found.sum(axis=1)
    return {
        "size": float(sizes.mean()),
        "not_one": float((sizes != 1).mean()),
        "coverage": float(hits.mean()),
        "windows": hits.reshape(-1, window).mean(axis=1).tolist(),
        "by_class": (np.bincount(labels, weights=hits, minlength=counts.size) / np.maximum(counts, 1)).tolist(),
        "prior": (counts / len(labels)).tolist(),
    }


def _judged(runs: list[dict[str, Any]], method: str, wanted: float, settings: Settings) -> dict[str, float]:
    """Return the figures of one method over all divisions of a set.

    A standard error has two parts: the spread over divisions, and what the number of held-out rows of each class leaves
    open, which more divisions of the same rows do not make smaller.
    """
    held_out = np.array(runs[0]["held_out"], dtype=np.float64)
    found: dict[str, float] = {}
    errors, short, short_of_class, windows, classes = [], [], [], [], []
    for shift in settings["shifts"]:
        of_path = [one["methods"][method][shift] for one in runs]
        prior = np.mean([one["prior"] for one in of_path], axis=0)
        found[f"coverage.{shift}"] = float(np.mean([one["coverage"] for one in of_path]))
        found[f"size.{shift}"] = float(np.mean([one["size"] for one in of_path]))
        found[f"not_one.{shift}"] = float(np.mean([one["not_one"] for one in of_path]))
        of_all = np.array([[one["coverage"], *one["windows"]] for one in of_path])
        open_of_all = wanted * (1.0 - wanted) * float((prior**2 / held_out).sum())
        off = of_all.mean(axis=0) - wanted
        allowed = STANDARD_ERRORS * np.sqrt(of_all.var(axis=0, ddof=1) / len(of_path) + open_of_all)
        errors.append(float((abs(off) - allowed).max()))
        short.append(float((-off - allowed).max()))
        windows += of_all[:, 1:].mean(axis=0).tolist()
        of_class = np.array([one["by_class"] for one in of_path])
        open_of_class = wanted * (1.0 - wanted) / held_out
        allowed = STANDARD_ERRORS * np.sqrt(of_class.var(axis=0, ddof=1) / len(of_path) + open_of_class)
        short_of_class.append(float((wanted - of_class.mean(axis=0) - allowed).max()))
        classes.append(float(of_class.mean(axis=0).min()))
    for name in ("coverage", "size", "not_one"):
        found[name] = float(np.mean([found[f"{name}.{shift}"] for shift in settings["shifts"]]))
    return found | {
        "off": max(errors),
        "short": max(short),
        "short_of_class": max(short_of_class),
        "window.least": min(windows),
        "window.most": max(windows),
        "class.least": min(classes),
    }
