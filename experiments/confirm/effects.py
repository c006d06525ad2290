"""Test what adapting gains and who ranks first, with the families of sets as the units."""

from typing import Any

import numpy as np

from experiments.confirm.deciding import ADAPTING, BAYES_BANK, NO_ADAPTATION
from experiments.confirm.families import ByFamily
from experiments.runner import Settings
from experiments.significance import (
    bootstrap_interval,
    critical_difference,
    friedman_p_value,
    holm,
    mean_ranks,
    sign_flip_p_value,
)
from obil.arrays import FloatArray

MEASURES = ("f1", "cost")
OURS = ("OBIL default", "OBIL boosting", "OBIL random forest", "OBIL logistic regression")
LEAGUES = {"without": NO_ADAPTATION, "with": ADAPTING}
SEED = 0


def means(values: ByFamily, settings: Settings) -> dict[str, float]:
    """Return the mean over families of each method, at each factor and over all."""
    return {f"mean.{key}": float(own.mean()) for key, own in {**values.at, **values.over_shifts}.items()}


def adaptation(values: ByFamily, settings: Settings) -> dict[str, float]:
    """Return the mean gain of adapting over the prior left where it is, with the same scores and policy.

    Over all base learners, with p corrected for the two measures; for each, corrected for all of them and both
    measures; and at each factor, without a test. The Bayes bank likewise.
    """
    found: dict[str, float] = {}
    for key, tracker in (("adapting", ADAPTING), ("bank", BAYES_BANK)):
        overall = {m: np.mean([_gain(values, m, model, tracker) for model in OURS], axis=0) for m in MEASURES}
        found |= _tested({f"{key}.{measure}": own for measure, own in overall.items()}, settings)
        single = {f"{key}.{m}.{model}": _gain(values, m, model, tracker) for m in MEASURES for model in OURS}
        found |= _tested(single, settings)
        for measure in MEASURES:
            better = overall[measure] > 0.0 if measure == "f1" else overall[measure] < 0.0
            found[f"better.{key}.{measure}"] = float(better.sum())
            for factor in settings["factors"]:
                at = np.mean([_gain(values, f"{measure}.{factor}", model, tracker) for model in OURS], axis=0)
                found |= _with_interval(f"{key}.{measure}.at.{factor}", at, settings)
    return found


def figures_of_ranks(values: ByFamily) -> dict[str, float]:
    """Return mean ranks, Friedman's p and the critical difference, without adaptation and with, by measure."""
    found: dict[str, float] = {}
    for measure in MEASURES:
        for league, methods in leagues(values).items():
            losses = np.stack([_loss(values, measure, method) for method in methods.values()], axis=1)
            ranks = mean_ranks(losses)
            difference = critical_difference(len(methods), len(values.names))
            key = f"{measure}.{league}"
            found |= {f"rank.{key}.{name}": float(rank) for name, rank in zip(methods, ranks, strict=True)}
            found[f"friedman.{key}"] = friedman_p_value(losses)
            found["critical_difference"] = difference
            own = float(ranks[list(methods).index(OURS[0])])
            found[f"behind_first.{key}"] = own - float(ranks.min()) - difference
    return found


def against_first(values: ByFamily, settings: Settings) -> dict[str, float]:
    """Return the default classifier less each other model, p corrected for how many there are."""
    found: dict[str, float] = {}
    for measure in MEASURES:
        for league, methods in leagues(values).items():
            own = values.over_shifts[f"{measure}.{methods[OURS[0]]}"]
            found |= _tested(
                {
                    f"lead.{measure}.{league}.{name}": own - values.over_shifts[f"{measure}.{method}"]
                    for name, method in methods.items()
                    if name != OURS[0]
                },
                settings,
            )
    return found


def leagues(values: ByFamily) -> dict[str, dict[str, str]]:
    """Return the models that are ranked together, and the method each stands for: OBIL's four, and the peers."""
    peers = [method for method in values.methods if not method.startswith("OBIL")]
    return {
        league: {**{model: f"{model}, {tracker}" for model in OURS}, **{peer: peer for peer in peers}}
        for league, tracker in LEAGUES.items()
    }


def _gain(values: ByFamily, key: str, model: str, tracker: str) -> FloatArray:
    found: Any = values.over_shifts if key in MEASURES else values.at
    gain: FloatArray = found[f"{key}.{model}, {tracker}"] - found[f"{key}.{model}, {NO_ADAPTATION}"]
    return gain


def _loss(values: ByFamily, measure: str, method: str) -> FloatArray:
    own = values.over_shifts[f"{measure}.{method}"]
    return np.round(-own if measure == "f1" else own, 9)  # ties that differ in the last bits are ties


def _tested(differences: dict[str, FloatArray], settings: Settings) -> dict[str, float]:
    """Return each mean with its interval, and p values corrected for how many there are."""
    found: dict[str, float] = {}
    raw = [sign_flip_p_value(own, n_draws=settings["permutations"], seed=SEED) for own in differences.values()]
    for (key, own), p in zip(differences.items(), holm(np.array(raw)), strict=True):
        found |= _with_interval(key, own, settings) | {f"p.{key}": float(p)}
    return found


def _with_interval(key: str, values: FloatArray, settings: Settings) -> dict[str, float]:
    low, high = bootstrap_interval(values, level=settings["level"], n_draws=settings["bootstraps"], seed=SEED)
    return {key: float(values.mean()), f"low.{key}": low, f"high.{key}": high}
