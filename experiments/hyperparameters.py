"""Sweep the paper's recommended hyperparameters over the ranges it states: Algorithm 2's, and those of the fusion.

Algorithm 2 follows the six simulated scenarios with exact ratios, so that its cost has a closed form; the fusion is
that of the paper's ensemble on two small sets. The ensemble size K, and the learning rate on real streams, are in
`experiments.ablations`; the class ratios have no range.
"""

from itertools import product
from typing import Any

import numpy as np

from experiments import hyperparameters_page
from experiments.dropout_fusion import fusion_measures
from experiments.gaussian_pair import GaussianPair
from experiments.hyperparameters_page import GRID, MEAN, SWEPT, TAKEN, label_of
from experiments.one_thread import one_thread
from experiments.protocol import missing_networks_or_sets, present_sets
from experiments.runner import Cell, Settings
from experiments.scenarios import SCENARIOS, SIX
from experiments.spread import standard_deviation
from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.trackers import Algorithm2, BayesBank

Results = list[tuple[Cell, dict[str, Any]]]
table = hyperparameters_page.table


def missing(settings: Settings) -> str | None:
    """Return why this experiment cannot run here, or None; a set that is not at hand is left out."""
    return missing_networks_or_sets(settings["sets"])


def cells(settings: Settings) -> list[Cell]:
    """List the work: one split of one set, one stream of one scenario."""
    fusion = [
        {"part": "fusion", "set": name, "split": split}
        for split in range(settings["splits"])
        for name in present_sets(settings["sets"])
    ]
    streams = [
        {"part": "tracker", "scenario": scenario, "seed": seed} for scenario in SIX for seed in range(settings["seeds"])
    ]
    return fusion + streams


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Measure one cell."""
    if cell["part"] == "tracker":
        return _excess(cell["scenario"], cell["seed"], settings)
    with one_thread():
        return fusion_measures(cell["set"], cell["split"], settings)


def one_at_a_time(settings: Settings) -> list[dict[str, float]]:
    """Return the paper's values with one of them moved over its range."""
    return [TAKEN | {name: value} for name in SWEPT for value in settings[name]]


def grid(settings: Settings) -> list[dict[str, float]]:
    """Return every combination of both ends of each range and the paper's value."""
    levels = [sorted({min(settings[name]), TAKEN[name], max(settings[name])}) for name in SWEPT]
    return [dict(zip(SWEPT, values, strict=True)) for values in product(*levels)]


def _excess(scenario: str, seed: int, settings: Settings) -> dict[str, float]:
    """Return the excess cost over the oracle in percent of every setting, and of the bank, on one stream."""
    truth = SCENARIOS[scenario](settings["n_rows"])
    pair = GaussianPair(settings["separation"])
    ratios = GaussianClasses.pair(settings["separation"]).draw(truth, random_state=seed).log_ratios

    def excess(estimate: FloatArray) -> float:
        return 100.0 * pair.excess(estimate, truth)

    tried = {label_of(choice): choice for choice in [*one_at_a_time(settings), *grid(settings)]}
    found = {
        label: excess(Algorithm2(settings["start_prior"], **choice).update_many(ratios)[:, 1])  # type: ignore[arg-type]
        for label, choice in tried.items()
    }
    return found | {"bank": excess(BayesBank(settings["start_prior"]).update_many(ratios)[:, 1])}


def figures(results: Results, settings: Settings) -> dict[str, float]:
    """Name the means over streams and splits; the best and the worst of the grid are chosen from these means."""
    return _tracker_figures(results, settings) | _fusion_figures(results, settings)


def _tracker_figures(results: Results, settings: Settings) -> dict[str, float]:
    by_scenario: dict[str, list[dict[str, float]]] = {}
    for cell, result in results:
        if cell["part"] == "tracker":
            by_scenario.setdefault(cell["scenario"], []).append(result)
    means = {
        scenario: {label: float(np.mean([one[label] for one in runs])) for label in runs[0]}
        for scenario, runs in by_scenario.items()
    }
    means[MEAN] = {label: float(np.mean([means[s][label] for s in SIX])) for label in means[SIX[0]]}
    found: dict[str, float] = {}
    tried = {label_of(choice): choice for choice in grid(settings)}
    for scenario, own in means.items():
        found[f"excess/{scenario}/bank"] = own["bank"]
        found |= {f"excess/{scenario}/{label_of(choice)}": own[label_of(choice)] for choice in one_at_a_time(settings)}
        order = sorted(tried, key=own.__getitem__)
        for which, label in (("best", order[0]), ("worst", order[-1])):
            found[f"excess/{scenario}/{which}"] = own[label]
            found |= {f"{which}/{scenario}/{name}": value for name, value in tried[label].items()}
        found[f"below bank/{scenario}"] = float(sum(own[label] < own["bank"] for label in tried))
    return found | {GRID: float(len(tried))}


def _fusion_figures(results: Results, settings: Settings) -> dict[str, float]:
    found: dict[str, float] = {}
    for name in dict.fromkeys(cell["set"] for cell, _ in results if cell["part"] == "fusion"):
        own = [result for cell, result in results if cell["part"] == "fusion" and cell["set"] == name]
        for key in own[0]:
            values = [result[key] for result in own]
            found[f"fusion/{name}/{key}"] = float(np.mean(values))
            found[f"sd fusion/{name}/{key}"] = standard_deviation(values)
    return found
