"""Measure every tracker on streams whose exact ratios and expected costs are known."""

from typing import Any

import numpy as np

from experiments.contenders import CONTENDERS
from experiments.gaussian_pair import GaussianPair
from experiments.markdown import markdown_table
from experiments.runner import Cell, Settings
from experiments.scenarios import SCENARIOS, SIX
from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses, Stream
from obil.trackers import BayesBank

REGRET_TRACKERS = ("bank", "one endless filter", "Algorithm 2, as printed")
BIAS_TRACKERS = ("bank", "Algorithm 2, as printed", "Algorithm 2, frequency inverted")
HOLDOUT_SEED = 1_000_003


def cells(settings: Settings) -> list[Cell]:
    """List the work: excess by scenario, regret by seed, coverage and bias by prior and separation."""
    work: list[Cell] = [
        {"measure": "excess", "separation": separation, "scenario": scenario, "tracker": tracker}
        for separation in settings["separations"]
        for scenario in SCENARIOS
        for tracker in CONTENDERS
    ]
    work += [
        {"measure": "regret", "tracker": tracker, "seed": seed}
        for tracker in REGRET_TRACKERS
        for seed in range(settings["regret_seeds"])
    ]
    work += [
        {"measure": "coverage", "rows": rows, "prior": prior, "separation": separation}
        for rows in settings["coverage_rows"]
        for prior in settings["coverage_priors"]
        for separation in settings["coverage_separations"]
    ]
    work += [
        {"measure": "bias", "tracker": tracker, "prior": prior, "separation": separation}
        for tracker in BIAS_TRACKERS
        for prior in settings["bias_priors"]
        for separation in settings["bias_separations"]
    ]
    return work


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Measure one cell."""
    measures = {"excess": _excess, "regret": _regret, "coverage": _coverage, "bias": _bias}
    return measures[cell["measure"]](cell, settings)


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the means over seeds, and count the peers that beat the bank everywhere."""
    found: dict[str, float] = {}
    regrets: dict[str, list[list[float]]] = {}
    for cell, result in results:
        match cell["measure"]:
            case "excess":
                found[f"excess.{cell['separation']}.{cell['tracker']}.{cell['scenario']}"] = result["excess"]
            case "regret":
                regrets.setdefault(cell["tracker"], []).append(result["regret"])
            case "coverage":
                found[f"coverage.{cell['rows']}.{cell['prior']}.{cell['separation']}"] = result["coverage"]
            case "bias":
                found[f"bias.{cell['separation']}.{cell['tracker']}.{cell['prior']}"] = result["estimate"]
    for tracker, values in regrets.items():
        means = np.mean(values, axis=0)
        for horizon, mean in zip(settings["regret_horizons"], means, strict=True):
            found[f"regret.{tracker}.{horizon}"] = float(mean)
        decades = np.diff(means)
        found[f"regret.{tracker}.growth"] = float(decades[-1] / decades[-2])
    first = settings["separations"][0]
    found["peers_at_or_below_the_bank_on_all_six"] = sum(
        all(found[f"excess.{first}.{peer}.{path}"] <= found[f"excess.{first}.bank.{path}"] for path in SIX)
        for peer in CONTENDERS
        if peer != "bank"
    )
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    parts = []
    for separation in settings["separations"]:
        parts.append(
            f"**Excess expected cost over the oracle, %**, separation {separation}, {settings['seeds']} seeds of "
            f"{settings['n_rows']:,} rows, every tracker started at {settings['start_prior']}.\n"
        )
        rows = [
            [tracker, *(f"{figures[f'excess.{separation}.{tracker}.{scenario}']:.2f}" for scenario in SCENARIOS)]
            for tracker in CONTENDERS
        ]
        parts.append(markdown_table(["tracker", *SCENARIOS], rows))
    parts.append(
        f"**Regret**, stationary prior {settings['regret_prior']}, separation {settings['regret_separation']:g}, "
        f"{settings['regret_seeds']} seeds: expected cost beyond the oracle's after T rows.\n"
    )
    horizons = settings["regret_horizons"]
    rows = [[name, *(f"{figures[f'regret.{name}.{horizon}']:.1f}" for horizon in horizons)] for name in REGRET_TRACKERS]
    parts.append(markdown_table(["tracker", *(f"T = {horizon:,}" for horizon in horizons)], rows))
    parts.append(
        f"**What a 90 % interval of the bank covers**, {settings['coverage_streams']} stationary streams each.\n"
    )
    separations = settings["coverage_separations"]
    rows = [
        [
            f"{n:,}",
            f"{prior:g}",
            *(f"{figures[f'coverage.{n}.{prior}.{separation}']:.1%}" for separation in separations),
        ]
        for n in settings["coverage_rows"]
        for prior in settings["coverage_priors"]
    ]
    parts.append(markdown_table(["rows", "prior", *(f"separation {separation:g}" for separation in separations)], rows))
    parts.append(f"**Mean estimate of a stationary prior** over the second half of {settings['bias_rows']:,} rows.\n")
    rows = [
        [
            tracker,
            f"{separation:g}",
            *(f"{figures[f'bias.{separation}.{tracker}.{p}']:.4f}" for p in settings["bias_priors"]),
        ]
        for separation in settings["bias_separations"]
        for tracker in BIAS_TRACKERS
    ]
    parts.append(markdown_table(["tracker", "separation", *(f"truth {p:g}" for p in settings["bias_priors"])], rows))
    return "\n".join(parts)


def _excess(cell: Cell, settings: Settings) -> dict[str, Any]:
    truth = SCENARIOS[cell["scenario"]](settings["n_rows"])
    pair = GaussianPair(cell["separation"])
    excesses = []
    for seed in range(settings["seeds"]):
        estimate = _track(cell["tracker"], truth, cell["separation"], seed, settings)
        excesses.append(100.0 * pair.excess(estimate, truth))
    return {"excess": float(np.mean(excesses))}


def _regret(cell: Cell, settings: Settings) -> dict[str, Any]:
    separation, horizons = settings["regret_separation"], settings["regret_horizons"]
    truth = np.full(horizons[-1], settings["regret_prior"])
    estimate = _track(cell["tracker"], truth, separation, cell["seed"], settings)
    regret = GaussianPair(separation).regret(estimate, truth)
    return {"regret": [float(regret[horizon - 1]) for horizon in horizons]}


def _coverage(cell: Cell, settings: Settings) -> dict[str, Any]:
    covered = 0
    classes = GaussianClasses.pair(cell["separation"])
    for seed in range(settings["coverage_streams"]):
        stream = classes.draw(np.full(cell["rows"], cell["prior"]), random_state=seed)
        bank = BayesBank(settings["start_prior"])
        bank.update_many(stream.log_ratios)
        low, high = bank.interval(0.9)[1]
        covered += bool(low <= cell["prior"] <= high)
    return {"coverage": covered / settings["coverage_streams"]}


def _bias(cell: Cell, settings: Settings) -> dict[str, Any]:
    truth = np.full(settings["bias_rows"], cell["prior"])
    estimate = _track(cell["tracker"], truth, cell["separation"], 0, settings)
    return {"estimate": float(estimate[len(estimate) // 2 :].mean())}


def _track(tracker: str, truth: FloatArray, separation: float, seed: int, settings: Settings) -> FloatArray:
    """Return the prior before each row as one tracker saw it, (n,)."""
    stream = GaussianClasses.pair(separation).draw(truth, random_state=seed)
    started = CONTENDERS[tracker](settings["start_prior"], _holdout(separation, settings))
    return started.update_many(stream.log_ratios)[:, 1]


def _holdout(separation: float, settings: Settings) -> Stream:
    priors = np.full(settings["holdout_rows"], settings["start_prior"])
    return GaussianClasses.pair(separation).draw(priors, random_state=HOLDOUT_SEED)
