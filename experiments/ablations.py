"""Take the paper's ensemble apart: how many members, which loss, which learning rate of Algorithm 2.

Every variant is fitted once a split and decides the same streams. Beside the paper's tracker stand the bank and the
true prior, and beside all of them the best threshold chosen in hindsight: what is left for a part to matter.
"""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from experiments.ablation_tables import FIRST_SET, HINDSIGHT, MEAN, OWN_MEMBERS, TABLES, ablation_tables
from experiments.one_thread import one_thread
from experiments.protocol import Arrivals, Judged, SplitSet, arriving, best_f1, present_sets, score, split_set, streams
from experiments.runner import Cell, Settings
from experiments.significance import signed_rank_p_value
from experiments.spread import standard_deviation
from experiments.temperature import paper_calibrations
from obil.arrays import FloatArray
from obil.estimators.obil_classifier import OBILClassifier
from obil.policies import BoundPolicy, CostPolicy, FBetaPolicy
from obil.serving.holdout import Holdout
from obil.serving.ratio_model import RatioModel, Scores
from obil.trackers import Algorithm2, BayesBank
from obil.trackers.tracker import CompiledTracker

OWN_CALIBRATION = "affine"
KEPT = ("f1", "cost", "thinned")
CLAMP = 0.02  # the largest step of Algorithm 2, as the paper's experiments have it
Priors = Callable[[Arrivals], FloatArray]  # P1 before each arriving row, (n,)


def missing(settings: Settings) -> str | None:
    """Return why this experiment cannot run here, or None; other sets that are not at hand are left out."""
    if find_spec("torch") is None:
        return "networks are trained with torch: pip install 'obil[torch]'"
    return None if FIRST_SET in present_sets(settings["sets"]) else f"{FIRST_SET} is not at hand: set OBIL_DATA"


def cells(settings: Settings) -> list[Cell]:
    """List the work: one split of one set."""
    sets = present_sets(settings["sets"])
    return [{"set": name, "split": split} for split in range(settings["splits"]) for name in sets]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Fit every variant on one split, and decide its streams by every method."""
    split = split_set(cell["set"], cell["split"], settings["test_share"])
    found: dict[str, float] = {}
    with one_thread():
        own = calibrated(fitted(split, n_members=OWN_MEMBERS), split.test)
        for count in settings["members"]:
            methods = own if count == OWN_MEMBERS else calibrated(fitted(split, n_members=count), split.test)
            found |= _measures(f"members/{count}", *methods[OWN_CALIBRATION], split, settings)
        found |= _rates(own[OWN_CALIBRATION][0], split, settings)
        other = calibrated(fitted(split, n_members=OWN_MEMBERS, loss="cross_entropy"), split.test)
        for loss, methods in (("cross-entropy", other), ("squared error", own)):
            for method, scores_and_rows in methods.items():
                found |= _measures(f"losses/{loss}, {method}", *scores_and_rows, split, settings)
    return found


def fitted(split: SplitSet, **changes: Any) -> RatioModel:
    """Return the paper's ensemble with one thing changed, fitted on the rows that train."""
    model = OBILClassifier(member="paper", random_state=split.seed, **changes)
    return model.fit(split.train, split.train_labels).model_


def calibrated(model: RatioModel, test: pd.DataFrame) -> dict[str, tuple[Scores, Holdout]]:
    """Return the scores of held-out rows with the model's held-out rows: raw, and calibrated by each method.

    The mean of the folds decides and each fold is evidence; obil's own calibration has the model's evidence.
    """
    held_out = model.holdout_
    fresh = paper_calibrations(model, model.scores(test))
    own = paper_calibrations(model, model.calibrator.invert(held_out.log_ratios))
    of_folds = model.fold_scores(test)  # (n, F, K)
    by_fold = paper_calibrations(model, of_folds.reshape(-1, of_folds.shape[2]))
    evidence = {method: ratios.reshape(of_folds.shape)[:, :, None] for method, ratios in by_fold.items()}
    evidence[OWN_CALIBRATION] = model.score(test).evidence
    return {
        method: (Scores(ratios, evidence[method]), Holdout.of(own[method], held_out.labels, held_out.weights))
        for method, ratios in fresh.items()
    }


def _measures(place: str, scores: Scores, held_out: Holdout, split: SplitSet, settings: Settings) -> dict[str, float]:
    """Return what each method reaches, and the F1 of the best threshold chosen in hindsight."""
    by_cost, by_f1 = CostPolicy().bind(), FBetaPolicy().bind(held_out)
    log_ratios, bank = scores.log_ratios, _followed(BayesBank(), scores, split)
    methods: dict[str, tuple[Priors, BoundPolicy]] = {
        "Algorithm 2": (_followed(Algorithm2(), scores, split), by_cost),
        "bank": (bank, by_cost),
        "true prior": (_known, by_cost),
        "bank, F1 policy": (bank, by_f1),
    }
    found: dict[str, float] = {}
    for method, (priors, policy) in methods.items():
        found |= _scored(f"{place}/{method}", log_ratios, priors, policy, split, settings)
    return found | _over_streams(
        f"{place}/{HINDSIGHT}/f1",
        lambda arrivals: best_f1(log_ratios[arrivals.rows, 1], split.test_labels[arrivals.rows]),
        split,
        settings,
    )


def _rates(scores: Scores, split: SplitSet, settings: Settings) -> dict[str, float]:
    """Return what Algorithm 2 reaches at each learning rate, and the prior that it believes in over the true one."""
    trackers: dict[str, CompiledTracker] = {
        f"{rate:g}": Algorithm2(rate=rate, clamp=CLAMP) for rate in settings["rates"]
    }
    found: dict[str, float] = {}
    for name, tracker in (trackers | {"bank": BayesBank()}).items():
        priors = _followed(tracker, scores, split)
        place = f"rates/{name}/tracked"
        found |= _scored(place, scores.log_ratios, priors, CostPolicy().bind(), split, settings)
        found |= _over_streams(f"{place}/estimate", partial(_believed, priors), split, settings)
        if isinstance(tracker, Algorithm2):
            found |= _over_streams(f"{place}/used", partial(_rate_used, priors), split, settings)
    return found


def _followed(tracker: CompiledTracker, scores: Scores, split: SplitSet) -> Priors:
    """Return how a tracker, started at the training prior, sees the prior of arriving rows."""

    def priors(arrivals: Arrivals) -> FloatArray:
        arrived = arriving(scores, arrivals.rows)
        return tracker.start(split.prior).update_many(arrived.log_ratios, evidence=arrived.evidence_from(0))[:, 1]

    return priors


def _known(arrivals: Arrivals) -> FloatArray:
    return np.full(len(arrivals.rows), arrivals.prior)


def _believed(priors: Priors, arrivals: Arrivals) -> float:
    """Return the mean estimate over the second half of the rows, over the truth."""
    return float(priors(arrivals)[len(arrivals.rows) // 2 :].mean() / arrivals.prior)


def _rate_used(priors: Priors, arrivals: Arrivals) -> float:
    """Return the fraction of rows at which Algorithm 2 moves by less than its clamp: there alone its rate matters."""
    steps = np.abs(np.diff(priors(arrivals)))
    return float(((steps > 0.0) & (steps < 0.999 * CLAMP)).mean())


def _scored(
    place: str, log_ratios: FloatArray, priors: Priors, policy: BoundPolicy, split: SplitSet, settings: Settings
) -> dict[str, float]:
    """Return what is kept of the protocol's measures of one method."""

    def decide(arrivals: Arrivals) -> Judged:
        ratios, before = log_ratios[arrivals.rows, 1], priors(arrivals)
        return Judged(ratios > policy.log_thresholds(before), expit(ratios + logit(before)), ratios)

    found = score(decide, split, settings)
    return {f"{place}/{name}": value for name, value in found.items() if name.split(".", 1)[0] in KEPT}


def _over_streams(
    place: str, measure: Callable[[Arrivals], float], split: SplitSet, settings: Settings
) -> dict[str, float]:
    """Return the mean of one measure over the draws at each factor."""
    found: dict[str, list[float]] = {}
    for arrivals in streams(split, factors=settings["factors"], n_draws=settings["draws"], n_rows=settings["n_rows"]):
        found.setdefault(f"{place}.{arrivals.factor}", []).append(measure(arrivals))
    return {name: float(np.mean(values)) for name, values in found.items()}


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the means over splits, their standard deviations, and the p values of neighbours in a table."""
    by_set: dict[str, list[dict[str, float]]] = {}
    for cell, result in results:
        by_set.setdefault(cell["set"], []).append(result)
    found: dict[str, float] = {"sets": len(by_set)}
    for name in (FIRST_SET, MEAN):
        chosen = list(by_set.values()) if name == MEAN else [by_set[FIRST_SET]]
        # (splits,) each: the mean over the sets comes first, so that a split is one observation
        values = {key: np.mean([[result[key] for result in own] for own in chosen], axis=0) for key in chosen[0][0]}
        for key, over_splits in values.items():
            found[f"{name}/{key}"] = float(over_splits.mean())
            found[f"sd {name}/{key}"] = standard_deviation(over_splits)
        for ablation in TABLES:
            for first, second, key in ablation.compared(settings):
                before, after = (values[f"{ablation.name}/{variant}/{key}"] for variant in (first, second))
                found[f"p {name}/{ablation.name}/{first} to {second}/{key}"] = signed_rank_p_value(after - before)
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    return ablation_tables(figures, settings)
