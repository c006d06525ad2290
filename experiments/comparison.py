"""Hold OBIL against every baseline on the paper's sets, matched and shifted.

Each method is fitted once a split, tuned on a validation part, and decides streams drawn from the held-out rows at
five imbalance ratios; the paper's own protocol, thinning the held-out rows, is scored beside it.
"""

import time
from importlib.util import find_spec
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments import comparison_page
from experiments.baselines.corrected import corrected
from experiments.baselines.names import CEILINGS, COMPARED, HINDSIGHT, ORACLE, PLANNED, STATIC, TUNED_BOOSTING
from experiments.baselines.network import prepare
from experiments.baselines.ours import FORMS, fit_ours
from experiments.baselines.trained import ON_UNFILLED, TRAINED, VANILLA
from experiments.baselines.tuning import Tuned, decisions, tuned
from experiments.comparison_plot import LINES, severity
from experiments.one_thread import one_thread
from experiments.protocol import Arrivals, Decider, Judged, present_sets, score, score_in_hindsight, split_set
from experiments.runner import Cell, Settings
from experiments.significance import corrected_two_sided, holm, signed_rank_p_value
from obil.arrays import FloatArray

BASELINES = ("vanilla", *TRAINED)
CROSS_SITE = "thyroid_ann"  # the set that has a table of its own at the highest ratio

Results = list[tuple[Cell, dict[str, Any]]]


def missing(settings: Settings) -> str | None:
    """Return why this experiment cannot run here, or None; a set that is not at hand is left out."""
    if find_spec("torch") is None:
        return "networks are trained with torch: pip install 'obil[torch]'"
    return None if present_sets(settings["sets"]) else "none of the data sets is at hand: set OBIL_DATA"


def cells(settings: Settings) -> list[Cell]:
    """List the work: one family of methods on one split of one set, the slow ones first."""
    families = ("default", "OverBagging", *FORMS, *BASELINES)
    return [
        {"set": name, "split": split, "family": family}
        for split in range(settings["splits"])
        for name in present_sets(settings["sets"])
        for family in dict.fromkeys(families)
    ]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Fit one family and score its members; scores are nested by method."""
    split = split_set(cell["set"], cell["split"], settings["test_share"])
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
            found = tuned(TRAINED.get(family, VANILLA), data, seed=split.seed, unfilled=unfilled)
            setting = found.setting
            deciders = {family: _static(found, data.unfilled_test if unfilled else data.test)}
            if family == "vanilla":
                deciders |= corrected(found, data, seed=split.seed)
                ranks = found.model.predict_proba(data.test)[:, 1]
        seconds = time.perf_counter() - started
        scores = {method: score(decider, split, settings) for method, decider in deciders.items()}
    if family in HINDSIGHT and ranks is not None:
        scores[HINDSIGHT[family]] = score_in_hindsight(ranks, split, settings)
    counts = {"positives": int(split.test_labels.sum()), "rows": len(split.test_labels)}
    return {"scores": scores, "setting": setting, "seconds": seconds, **counts}


def _static(found: Tuned, test: FloatArray) -> Decider:
    """Return a decider that never adapts."""
    alerts = decisions(found.model, test).astype(bool)
    probabilities = np.asarray(found.model.predict_proba(test)[:, 1])

    def decide(arrivals: Arrivals) -> Judged:
        own = probabilities[arrivals.rows]
        return Judged(alerts[arrivals.rows], own, own)

    return decide


def figures(results: Results, settings: Settings) -> dict[str, float]:
    """Name means over splits, their spread, the tests against the best, and the figures that have bounds."""
    names = [name for name in settings["sets"] if any(cell["set"] == name for cell, _ in results)]
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
        for measure in ("f1", "gmean", "auprc"):
            for factor in _shown(settings) if measure == "f1" else (1.0,):
                found |= _against_best(own, f"{measure}.{factor}", name, settings)
        for factor in _shown(settings):
            found |= _planned(own, f"f1.{factor}", name, settings)
        of_set = [result for cell, result in results if cell["set"] == name]
        found[f"positives.{name}"] = float(np.mean([result["positives"] for result in of_set]))
        found[f"held_out.{name}"] = float(np.mean([result["rows"] for result in of_set]))
        for family in dict.fromkeys(cell["family"] for cell, _ in results):
            spent = [r["seconds"] for c, r in results if c["set"] == name and c["family"] == family]
            found[f"seconds.{family}.{name}"] = float(np.mean(spent))
    return found | _bounded(pooled, settings)


def _is_shown(key: str, name: str, settings: Settings) -> bool:
    """Return whether a measure, of a factor and a method on one set, stands in a table or in the plot."""
    measure = key.split(".", 1)[0]
    if measure == "f1":
        return True
    factors = _shown(settings)
    if measure in ("gmean", "auprc"):  # matched, and across sites
        factors = (1.0, factors[-1]) if name == CROSS_SITE else (1.0,)
    return any(key.startswith(f"{measure}.{factor}.") for factor in factors)


def _has_spread(key: str, settings: Settings) -> bool:
    """Return whether the spread over splits stands beside the mean, in a table or in the plot."""
    if key.startswith(("ece.", "cost.")):
        return False
    return any(f".{factor}." in key for factor in _shown(settings)) or key.endswith(tuple(LINES))


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


def _against_best(own: dict[str, FloatArray], key: str, name: str, settings: Settings) -> dict[str, float]:
    """Return the p value of each contender against the best one, corrected for overlapping splits and by Holm.

    Signed ranks of ten splits cannot reach 5 % once they are corrected for so many methods: see `_planned`.
    """
    values = {
        method: own[found]
        for found in own
        if found.startswith(f"{key}.") and (method := found.removeprefix(f"{key}.")) not in CEILINGS
    }
    best = max(values, key=lambda method: values[method].mean())
    others = [method for method in values if method != best]
    fraction = settings["test_share"]
    corrected_ = holm(np.array([corrected_two_sided(values[m] - values[best], test_size=fraction) for m in others]))
    return {f"p.{key}.{best}.{name}": 1.0} | {
        f"p.{key}.{method}.{name}": float(p) for method, p in zip(others, corrected_, strict=True)
    }


def _planned(own: dict[str, FloatArray], key: str, name: str, settings: Settings) -> dict[str, float]:
    """Return the default with the safe tracker against the baselines that were named beforehand.

    By signed ranks and by the test for overlapping splits, both with Holm's correction.
    """
    ours = own[f"{key}.{COMPARED['safe']}"]
    differences = {method: ours - own[f"{key}.{method}"] for method in PLANNED}
    fraction = settings["test_share"]
    tests = {
        "ranks": holm(np.array([signed_rank_p_value(d) for d in differences.values()])),
        "overlap": holm(np.array([corrected_two_sided(d, test_size=fraction) for d in differences.values()])),
    }
    found = {f"lead.{key}.{method}.{name}": float(d.mean()) for method, d in differences.items()}
    for test, p_values in tests.items():
        found |= {f"{test}.{key}.{m}.{name}": float(p) for m, p in zip(differences, p_values, strict=True)}
    return found


def _bounded(pooled: dict[str, dict[str, FloatArray]], settings: Settings) -> dict[str, float]:
    """Return what the default owes: nearness to the oracle, the tuned boosting, and gains over not adapting."""

    def everywhere(method: str) -> FloatArray:
        return np.array([pooled[name][f"f1.{f}.{method}"].mean() for name in pooled for f in settings["factors"]])

    found: dict[str, float] = {}
    for short, method in COMPARED.items():
        found[f"below_oracle.{short}"] = float((everywhere(ORACLE) - everywhere(method)).mean())
        found[f"above_boosting.{short}"] = float((everywhere(method) - everywhere(TUNED_BOOSTING)).mean())
        for factor in (min(settings["factors"]), max(settings["factors"])):
            key = f"f1.{factor}"
            gains = {name: own[f"{key}.{method}"] - own[f"{key}.{STATIC}"] for name, own in pooled.items()}
            every = np.concatenate(list(gains.values()))
            by_split = np.mean(list(gains.values()), axis=0)
            fraction = settings["test_share"]
            found[f"overlap.adapting.{factor}.{short}"] = corrected_two_sided(by_split, test_size=fraction)
            found[f"gain.adapting.{factor}.{short}"] = float(every.mean())
            found[f"p.adapting.{factor}.{short}"] = signed_rank_p_value(every, alternative="greater")
            for name, gain in gains.items():
                found[f"gain.adapting.{factor}.{short}.{name}"] = float(gain.mean())
    return found


def series(results: Results, settings: Settings) -> dict[str, list[float]]:
    """Keep F1 of every split at the ratios that tables show."""
    found: dict[str, list[float]] = {}
    for name in settings["sets"]:
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
