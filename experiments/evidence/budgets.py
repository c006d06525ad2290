"""Compare the alert rate and the precision that policies promise with what held-out rows show."""

from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from experiments.evidence.halves import first_sets, halves
from experiments.markdown import markdown_table
from experiments.runner import Cell, Settings
from obil.estimators.ratio_classifier import RatioClassifier
from obil.policies import AlertBudget, PrecisionFloor


def cells(settings: Settings) -> list[Cell]:
    """List the work: one split of one set."""
    names = first_sets(
        settings["sets"], fewest_rows=settings["fewest_rows"], fewest_positives=settings["fewest_positives"]
    )
    return [{"set": name, "split": split} for split in range(settings["splits"]) for name in names]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Fit boosting on one half; count alerts and hits on the other, at its true prior."""
    data, seed = halves(cell["set"], cell["split"]), cell["split"]
    boosting = HistGradientBoostingClassifier(random_state=seed)
    model = RatioClassifier(boosting, views=False, random_state=seed).fit(data.train, data.train_labels).model_
    log_ratios = model.log_ratios(data.test)[:, 1]
    result: dict[str, Any] = {}
    for rate in settings["rates"]:
        threshold = AlertBudget(rate).bind(model.holdout_).log_threshold(data.test_prior)
        result[f"rate.{rate}"] = float((log_ratios > threshold).mean()) / rate
    floor = PrecisionFloor(settings["precision"]).bind(model.holdout_)
    alerts = log_ratios > floor.log_threshold(data.test_prior)
    result["reachable"] = bool(floor.reachable([data.test_prior])[0])
    result["alerts"], result["hits"] = int(alerts.sum()), int(data.test_labels[alerts].sum())
    return result


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the means over sets; the precision of a set is that of the alerts of all its splits."""
    found: dict[str, float] = {}
    by_set: dict[str, list[dict[str, Any]]] = {}
    for cell, result in results:
        by_set.setdefault(cell["set"], []).append(result)
    for rate in settings["rates"]:
        means = np.array([np.mean([result[f"rate.{rate}"] for result in own]) for own in by_set.values()])
        found |= _summary(f"rate.{rate}", means)
    reached = [[result for result in own if result["reachable"]] for own in by_set.values()]
    alerts = np.array([sum(result["alerts"] for result in own) for own in reached])
    hits = np.array([sum(result["hits"] for result in own) for own in reached])
    some = alerts > 0
    found |= _summary("precision", hits[some] / alerts[some] - settings["precision"])
    found["precision.sets"] = float(some.sum())
    found["precision.pooled"] = float(hits.sum() / alerts.sum()) - settings["precision"]
    found["precision.reachable"] = float(np.mean([result["reachable"] for _, result in results]))
    return found


def _summary(name: str, values: Any) -> dict[str, float]:
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
    return {
        f"{name}.mean": float(values.mean()),
        f"{name}.se": error,
        f"{name}.median": float(np.median(values)),
        f"{name}.least": float(values.min()),
        f"{name}.most": float(values.max()),
    }


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the means as Markdown."""
    names = {f"rate.{rate}": f"`AlertBudget({rate:g})`: realised / asked" for rate in settings["rates"]}
    names["precision"] = f"`PrecisionFloor({settings['precision']:g})`: realised - floor"
    shown = ("mean", "se", "median", "least", "most")
    rows = [[text, *(f"{figures[f'{name}.{measure}']:.3f}" for measure in shown)] for name, text in names.items()]
    return (
        "## Realised budgets and floors\n\n"
        f"Boosting on the {settings['sets']} sets, {settings['splits']} random halves each, thresholds at the true "
        f"prior of the other half. The floor was reachable in {figures['precision.reachable']:.0%} of the splits, with "
        f"alerts on {figures['precision.sets']:.0f} sets; over all alerts of all sets the precision differs from it by "
        f"{figures['precision.pooled']:+.3f}.\n\n"
        + markdown_table(["policy", "mean over sets", "standard error", "median", "least", "most"], rows)
    )
