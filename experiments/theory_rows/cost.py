"""Costs: one ratio for all of them, what training with them does, and which error the cost ratio weighs."""

from itertools import product

import numpy as np

from experiments.fitted_ratio import FittedRatio, balanced, fitted_ratio
from experiments.gaussian_pair import GaussianPair
from experiments.theory_rows.row import (
    CORRECTED,
    FAILS,
    HOLDS,
    NOT_AS_STATED,
    Figures,
    Measured,
    Row,
    Settings,
    judged,
    listed,
    named,
)
from obil.bayes.costs import Costs, log_threshold

PRIOR = 0.3
TRAINED_WEIGHT = 5.0  # on negatives, in cost-weighted training


def _excess(ratio: FittedRatio, cost_ratio: float, separation: float) -> float:
    """Return the expected cost over the oracle's, less 1, of a fitted ratio at the known prior."""
    costs, pair = Costs(false_positive=cost_ratio, false_negative=1.0), GaussianPair(separation)
    at = ratio.true_thresholds(np.array(log_threshold(PRIOR, costs)))
    return float(pair.expected_cost(at, PRIOR, costs) / pair.oracle_cost(PRIOR, costs)) - 1.0


def measure_costs(settings: Settings) -> Measured:
    """Fit once, decide at every cost; then train with a cost weight, divided out and not."""
    separation, rows = settings["separation"], balanced(settings["cost_rows"])
    found: dict[str, list[float]] = {}
    for seed, cost_ratio in product(range(settings["cost_seeds"]), settings["cost_ratios"]):
        weighted = fitted_ratio(separation, rows, seed=seed, negative_weight=TRAINED_WEIGHT)
        divided = FittedRatio(weighted.offset + float(np.log(TRAINED_WEIGHT)), weighted.slope)
        ratios = {"plain": fitted_ratio(separation, rows, seed=seed), "divided": divided, "twice": weighted}
        for name, ratio in ratios.items():
            found.setdefault(f"{name}.{cost_ratio}", []).append(_excess(ratio, cost_ratio, separation))
    figures = {key: float(np.mean(values)) for key, values in found.items()}
    for name in ("plain", "divided", "twice"):
        figures[f"{name}.largest"] = max(figures[f"{name}.{cost_ratio}"] for cost_ratio in settings["cost_ratios"])
    return Measured(figures, {})


def _percent(figures: Figures, name: str, settings: Settings) -> str:
    return ", ".join(f"{figures[f'{name}.{cost_ratio}']:.1%}" for cost_ratio in settings["cost_ratios"])


def _costs_verdict(figures: Figures) -> str:
    if figures["plain.largest"] > 0.05:
        return judged(FAILS, "one ratio does not serve all costs")
    if figures["twice.largest"] > 5.0 * figures["divided.largest"]:
        return judged(
            CORRECTED,
            "one ratio serves all costs without a refit; a cost weight in training does not integrate them but "
            "moves the prior: divided out it changes little, and with Qc in the threshold on top the cost counts "
            "twice",
        )
    return judged(HOLDS, "one ratio serves all costs, and weights in training do no harm")


def measure_oracle(settings: Settings) -> Measured:
    """Find the threshold of least cost under the loss as printed (Qc weighs the miss) and under the threshold's own."""
    pair, figures = GaussianPair(settings["separation"]), Figures()
    for cost_ratio in settings["cost_ratios"]:
        own = log_threshold(PRIOR, Costs(false_positive=cost_ratio, false_negative=1.0))
        for name, costs in (
            ("printed", Costs(false_positive=1.0, false_negative=cost_ratio)),
            ("corrected", Costs(false_positive=cost_ratio, false_negative=1.0)),
        ):
            least = pair.expected_cost(np.linspace(-12.0, 12.0, 24_001), PRIOR, costs).min()
            figures[f"{name}.{cost_ratio}"] = float(pair.expected_cost(own, PRIOR, costs) / least)
    return Measured(figures, {})


def _oracle_verdict(figures: Figures) -> str:
    def largest(name: str) -> float:
        return max(value for key, value in figures.items() if key.startswith(name))

    if largest("printed") < 1.01:
        return judged(HOLDS, "the threshold minimises the loss")
    if largest("corrected") < 1.01:
        return judged(
            NOT_AS_STATED,
            "the threshold is the oracle's when Qc weighs the false alarm; the loss printed weighs the miss",
        )
    return judged(FAILS, "the threshold minimises neither")


ROWS = (
    Row(
        name="oracle and loss",
        covers=("definition: oracle policy", "definition: regret"),
        claim="The oracle decides at Qc (1-P)/P, and regret counts Qc for a missed positive",
        measure=measure_oracle,
        measured=lambda f, s: (
            f"cost of the oracle's threshold over the least possible at Qc = {named(s['cost_ratios'])}: "
            f"{listed(f, 'printed', s['cost_ratios'])} under the printed loss, "
            f"{listed(f, 'corrected', s['cost_ratios'])} where Qc weighs the false alarm"
        ),
        verdict=_oracle_verdict,
        shown_by=(
            "experiments/test_gaussian_pair.py::test_the_threshold_minimises_the_loss_that_weighs_the_false_alarm_and_not_the_printed_one",
        ),
    ),
    Row(
        name="costs",
        covers=("observation: cost invariance", "tab:loss"),
        claim="The ratio does not depend on costs; cost-weighted squared error integrates them exactly",
        measure=measure_costs,
        measured=lambda f, s: (
            f"excess over the oracle at Qc = {named(s['cost_ratios'])}, {s['cost_seeds']} fits on {s['cost_rows']:,} "
            f"rows per class: one ratio for all {_percent(f, 'plain', s)}; trained with weight {TRAINED_WEIGHT:g} on "
            f"negatives and divided out {_percent(f, 'divided', s)}, with Qc applied on top {_percent(f, 'twice', s)}"
        ),
        verdict=_costs_verdict,
        shown_by=(
            "bayes/test_posterior.py::test_cost_weighted_training_needs_both_the_cost_and_the_prior_divided_out",
        ),
    ),
)
