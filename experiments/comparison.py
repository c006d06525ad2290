"""Hold OBIL against every baseline on the paper's sets, matched and shifted.

Each method is fitted once a split, tuned on a validation part, and decides streams drawn from the held-out rows at
five imbalance ratios; the paper's own protocol, thinning the held-out rows, is scored beside it. Every model decides
by both policies, F1 and least cost, so that a comparison is of models or of policies, never of both.
"""

import time
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments import comparison_page
from experiments.baselines.corrected import corrected
from experiments.baselines.names import (
    COMPARED,
    HINDSIGHT,
    ORACLE,
    PLANNED,
    STATIC,
    TUNED_BOOSTING,
    is_plain,
    other_form,
    policy_of,
)
from experiments.baselines.network import prepare
from experiments.baselines.ours import FORMS, fit_ours
from experiments.baselines.trained import ON_UNFILLED, TRAINED, VANILLA
from experiments.baselines.tuning import Tuned, decisions, tuned, tuned_twice
from experiments.comparison_plot import WITH_BARS, severity
from experiments.one_thread import one_thread
from experiments.protocol import (
    STAND_INS,
    Arrivals,
    Decider,
    Judged,
    missing_networks_or_sets,
    score,
    score_in_hindsight,
    split_set,
    with_stand_ins,
)
from experiments.runner import Cell, Settings
from experiments.significance import corrected_two_sided, holm
from obil.arrays import FloatArray

VANILLA_FAMILY = "vanilla"
BASELINES = (VANILLA_FAMILY, *TRAINED)
PAPER_METHOD, BBSE = "OBIL paper, Algorithm 2", "BBSE"
CROSS_SITE = "thyroid_ann"  # the set that has a table of its own at the highest ratio

Results = list[tuple[Cell, dict[str, Any]]]


def missing(settings: Settings) -> str | None:
    """Return why this experiment cannot run here, or None; a set that is not at hand is left out."""
    return missing_networks_or_sets(with_stand_ins(settings["sets"]))


def cells(settings: Settings) -> list[Cell]:
    """List the work: one family of methods on one split of one set, the slow ones first."""
    families = dict.fromkeys(("default", "OverBagging", *FORMS, *BASELINES))
    return [
        {"set": name, "split": split, "family": family}
        for split in range(settings["splits"])
        for name in with_stand_ins(settings["sets"])
        for family in families
        if split < min(splits_of(name, settings), splits_of(family, settings))
    ]


def splits_of(name: str, settings: Settings) -> int:
    """Return the number of splits of a set or of a family: fewer where one split takes long."""
    return int(settings["few_splits"].get(name, settings["splits"]))


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Fit one family and score its members; scores are nested by method."""
    most_rows = settings["most_rows"].get(cell["set"])
    split = split_set(cell["set"], cell["split"], settings["test_share"], most_rows)
    data, family = prepare(split), cell["family"]
    started = time.perf_counter()
    with one_thread():
        deciders: dict[str, Decider]
        ranks: FloatArray | None = None
        setting = ""
        if family in FORMS:
            deciders, ranks = fit_ours(family, split, data)
        else:
            unfilled = family in ON_UNFILLED
            test = data.unfilled_test if unfilled else data.test
            if family in (VANILLA_FAMILY, TUNED_BOOSTING):  # the F1 form of the first is threshold moving
                found = tuned(TRAINED.get(family, VANILLA), data, seed=split.seed, unfilled=unfilled)
                deciders = {family: _static(found, test)}
            else:
                found, by_f1 = tuned_twice(TRAINED[family], data, seed=split.seed, unfilled=unfilled)
                deciders = {family: _static(found, test), other_form(family): _static(by_f1, test)}
            setting = found.setting
            if family == TUNED_BOOSTING:
                deciders[other_form(family)] = _static(found._replace(threshold=0.5), test)
            if family == VANILLA_FAMILY:
                deciders |= corrected(found, data, seed=split.seed)
                ranks = found.model.predict_proba(data.test)[:, 1]
        seconds = time.perf_counter() - started
        scores = {method: score(decider, split, settings) for method, decider in deciders.items()}
    if family in HINDSIGHT and ranks is not None:
        scores[HINDSIGHT[family]] = score_in_hindsight(ranks, split, settings)
    counts = {"positives": int(split.test_labels.sum()), "rows": len(split.test_labels)}
    return {"scores": scores, "setting": setting, "seconds": seconds, **counts}


def _static(found: Tuned, test: FloatArray) -> Decider:
    """Return a decider that never adapts: at a threshold that was tuned, or by the model's own rule."""
    probabilities = np.asarray(found.model.predict_proba(test)[:, 1])
    own_rule = found.threshold is None
    alerts = decisions(found.model, test).astype(bool) if own_rule else probabilities > found.threshold

    def decide(arrivals: Arrivals) -> Judged:
        own = probabilities[arrivals.rows]
        return Judged(alerts[arrivals.rows], own, own)

    return decide


def figures(results: Results, settings: Settings) -> dict[str, float]:
    """Name means over splits, their spread, the leads with their tests, and the figures that have bounds."""
    names = [name for name in shown_sets(settings) if any(cell["set"] == name for cell, _ in results)]
    found: dict[str, float] = {}
    pooled: dict[str, dict[str, FloatArray]] = {}
    for name in names:
        own = _by_method([(cell, result) for cell, result in results if cell["set"] == name])
        pooled[name] = own
        for key, values in own.items():
            if not _is_shown(key, name, settings):
                continue
            found[f"{key}.{name}"] = float(np.nanmean(values))
            if _has_spread(key, settings):
                found[f"sd.{key}.{name}"] = float(np.nanstd(values, ddof=1)) if len(values) > 1 else 0.0
        for factor in _shown(settings):
            found |= _planned(own, f"f1.{factor}", name, settings)
            found |= _over_bbse(own, f"f1.{factor}", name)
        of_set = [result for cell, result in results if cell["set"] == name]
        found[f"splits.{name}"] = float(len({cell["split"] for cell, _ in results if cell["set"] == name}))
        found[f"positives.{name}"] = float(np.mean([result["positives"] for result in of_set]))
        found[f"held_out.{name}"] = float(np.mean([result["rows"] for result in of_set]))
        for family in dict.fromkeys(cell["family"] for cell, _ in results):
            spent = [r["seconds"] for c, r in results if c["set"] == name and c["family"] == family]
            found[f"seconds.{family}.{name}"] = float(np.mean(spent))
    return found | _bounded(pooled, settings)


def shown_sets(settings: Settings) -> list[str]:
    """Return the sets of the tables in their order, with those that may stand in for them."""
    return [own for name in settings["sets"] for own in (name, STAND_INS.get(name)) if own is not None]


def _is_shown(key: str, name: str, settings: Settings) -> bool:
    """Return whether a measure, of a factor and a method on one set, stands in a table or in the plot."""
    measure = key.split(".", 1)[0]
    if measure == "f1":
        return True
    if measure in ("auprc", "ece", "cost") and not is_plain(key):  # of the scores, whatever the policy
        return False
    factors = _shown(settings)
    if measure in ("gmean", "auprc"):  # matched, and across sites
        factors = (1.0, factors[-1]) if name == CROSS_SITE else (1.0,)
    return any(key.startswith(f"{measure}.{factor}.") for factor in factors)


def _has_spread(key: str, settings: Settings) -> bool:
    """Return whether the spread over splits stands beside the mean, in a table or in the plot."""
    if key.startswith(("ece.", "cost.")):
        return False
    return any(f".{factor}." in key for factor in _shown(settings)) or key.endswith(f".{WITH_BARS}")


def _shown(settings: Settings) -> tuple[float, ...]:
    return min(settings["factors"]), 1.0, max(settings["factors"])


def _by_method(results: Results) -> dict[str, FloatArray]:
    """Return the values over splits of each measure, factor and method."""
    found: dict[str, list[float]] = {}
    for _, result in sorted(results, key=lambda one: one[0]["split"]):
        for method, scores in result["scores"].items():
            for key, value in scores.items():
                found.setdefault(f"{key}.{method}", []).append(value)
    return {key: np.array(values) for key, values in found.items()}


def _planned(own: dict[str, FloatArray], key: str, name: str, settings: Settings) -> dict[str, float]:
    """Return the default with the safe tracker against the baselines that were named beforehand.

    By the test for overlapping splits with Holm's correction; on a set with few splits there is no test.
    """
    ours = own[f"{key}.{COMPARED['safe']}"]
    differences = {method: ours - own[f"{key}.{method}"] for method in PLANNED}
    found = {f"lead.{key}.{method}.{name}": float(d.mean()) for method, d in differences.items()}
    if len(ours) == settings["splits"]:
        fraction = settings["test_share"]
        p_values = holm(np.array([corrected_two_sided(d, test_size=fraction) for d in differences.values()]))
        found |= {f"overlap.{key}.{m}.{name}": float(p) for m, p in zip(differences, p_values, strict=True)}
    return found


def _over_bbse(own: dict[str, FloatArray], key: str, name: str) -> dict[str, float]:
    """Return the lead of the paper's method and of the default over BBSE under each policy, on the splits of both."""
    found: dict[str, float] = {}
    for model in (PAPER_METHOD, COMPARED["safe"]):
        for method in (model, other_form(model)):
            rival = BBSE if policy_of(method) == policy_of(BBSE) else other_form(BBSE)
            n = min(len(own[f"{key}.{method}"]), len(own[f"{key}.{rival}"]))  # splits come in order
            lead = own[f"{key}.{method}"][:n] - own[f"{key}.{rival}"][:n]
            found[f"over BBSE.{key}.{method}.{name}"] = float(lead.mean())
    return found


def _bounded(pooled: dict[str, dict[str, FloatArray]], settings: Settings) -> dict[str, float]:
    """Return what the default owes: nearness to the oracle, the tuned boosting, and gains over not adapting.

    Over the sets with all splits; the gains have their test over the means of these, split by split.
    """
    most = max(len(own[f"f1.1.0.{ORACLE}"]) for own in pooled.values())
    full = [own for own in pooled.values() if len(own[f"f1.1.0.{ORACLE}"]) == most]

    def everywhere(method: str) -> FloatArray:
        return np.array([own[f"f1.{f}.{method}"].mean() for own in full for f in settings["factors"]])

    found: dict[str, float] = {}
    for short, method in COMPARED.items():
        found[f"below_oracle.{short}"] = float((everywhere(ORACLE) - everywhere(method)).mean())
        found[f"above_boosting.{short}"] = float((everywhere(method) - everywhere(TUNED_BOOSTING)).mean())
        for factor in (min(settings["factors"]), max(settings["factors"])):
            key = f"f1.{factor}"
            gains = {name: own[f"{key}.{method}"] - own[f"{key}.{STATIC}"] for name, own in pooled.items()}
            by_split = np.mean([gain for gain in gains.values() if len(gain) == most], axis=0)
            fraction = settings["test_share"]
            found[f"overlap.adapting.{factor}.{short}"] = corrected_two_sided(by_split, test_size=fraction)
            found[f"gain.adapting.{factor}.{short}"] = float(by_split.mean())
            for name, gain in gains.items():
                found[f"gain.adapting.{factor}.{short}.{name}"] = float(gain.mean())
    return found


def series(results: Results, settings: Settings) -> dict[str, list[float]]:
    """Keep F1 of every split at the ratios that tables show."""
    found: dict[str, list[float]] = {}
    for name in shown_sets(settings):
        own = _by_method([(cell, result) for cell, result in results if cell["set"] == name])
        for factor in _shown(settings):
            found |= {f"{key}.{name}": own[key].tolist() for key in own if key.startswith(f"f1.{factor}.")}
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write every table as Markdown."""
    return comparison_page.tables(figures, settings)


def plots(record: dict[str, Any]) -> dict[str, Figure]:
    """Draw F1 against the shift."""
    return {"shift_severity": severity(record["figures"], record["settings"])}
