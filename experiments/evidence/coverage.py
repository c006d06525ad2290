"""Check the intervals of the prior, and the threshold for F1, of models calibrated on few positives."""

from typing import Any

import numpy as np
from scipy.stats import norm

from experiments.markdown import markdown_table
from experiments.runner import Cell, Settings
from obil.arrays import FloatArray, IntArray
from obil.estimators.ratio_classifier import RatioClassifier
from obil.online.estimate_prior import estimate_prior
from obil.policies import FBetaPolicy
from obil.policies.operating_curve import OperatingCurve
from obil.policies.threshold_table import ThresholdTable, grid_priors

SEPARATION = 2.0  # of the classes' means, in standard deviations
SCORES = np.linspace(-8.0, 10.0, 18_001)


def cells(settings: Settings) -> list[Cell]:
    """List the work: one number of positives at one prior, and the thresholds."""
    intervals: list[Cell] = [
        {"policy": False, "positives": positives, "prior": prior}
        for positives in settings["positives"]
        for prior in settings["priors"]
    ]
    return [*intervals, {"policy": True, "positives": settings["f_beta_positives"]}]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Do one of them."""
    return thresholds(cell, settings) if cell["policy"] else intervals(cell, settings)


def intervals(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Count how often the prior lies in its interval, below it and above it."""
    counts = {"covered": 0, "below": 0, "above": 0}
    widths = []
    for repetition in range(settings["repetitions"]):
        rng = np.random.default_rng([cell["positives"], round(1e6 * cell["prior"]), repetition])
        model = calibrated(cell["positives"], settings["negatives_per_positive"], rng)
        labels = (rng.random(settings["n_rows"]) < cell["prior"]).astype(np.int64)
        low, high = estimate_prior(model, gaussian_scores(labels, rng)[:, None], level=settings["level"]).interval[1]
        place = "below" if cell["prior"] < low else "above" if cell["prior"] > high else "covered"
        counts[place] += 1
        widths.append(float(high - low))
    return {**counts, "width": float(np.median(widths))}


def thresholds(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Return the true F1 of thresholds by `FBetaPolicy`, by plugging in labels, and of the best one.

    The plug-in threshold has the largest F1 on the labels of the calibration rows; the policy's default replaces labels
    by posteriors.
    """
    prior = 1.0 / (1.0 + settings["negatives_per_positive"])
    found: dict[str, list[float]] = {"policy": [], "plug_in": []}
    for draw in range(settings["f_beta_draws"]):
        rng = np.random.default_rng([7, draw])
        model = calibrated(cell["positives"], settings["negatives_per_positive"], rng)
        holdout, policy = model.model_.holdout_, FBetaPolicy()
        hard = OperatingCurve.of(holdout, soft=False)
        log_ratios = model.log_ratios(SCORES[:, None])[:, 1]  # rising in the score
        for name, bound in (
            ("policy", policy.bind(holdout)),
            ("plug_in", ThresholdTable.of(policy.choose(hard, grid_priors()))),
        ):
            alerted = log_ratios > bound.log_threshold(prior)
            found[name].append(f1_of(SCORES[alerted][0] if alerted.any() else np.inf, prior))
    return {**found, "best": float(np.max([f1_of(score, prior) for score in SCORES[::10]]))}


def calibrated(positives: int, negatives_per_positive: int, rng: np.random.Generator) -> RatioClassifier:
    """Return a model calibrated on Gaussian scores."""
    labels = np.repeat([0, 1], [positives * negatives_per_positive, positives])
    return RatioClassifier.from_scores(gaussian_scores(labels, rng), labels, kind="margin", random_state=0)


def gaussian_scores(labels: IntArray, rng: np.random.Generator) -> FloatArray:
    """Return a score per row, (n,)."""
    scores: FloatArray = rng.normal(size=len(labels)) + SEPARATION * labels
    return scores


def f1_of(threshold: float, prior: float) -> float:
    """Return the F1 of alerting all scores above a threshold, in closed form.

    >>> round(f1_of(-np.inf, 0.5), 3)
    0.667
    """
    hits, false_alarms = prior * norm.sf(threshold - SEPARATION), (1.0 - prior) * norm.sf(threshold)
    return float(2.0 * hits / (prior + hits + false_alarms))


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the coverage and the mean F1."""
    found: dict[str, float] = {}
    for cell, result in results:
        if cell["policy"]:
            gains = np.array(result["policy"]) - np.array(result["plug_in"])
            found |= {
                "f1.policy": float(np.mean(result["policy"])),
                "f1.plug_in": float(np.mean(result["plug_in"])),
                "f1.best": result["best"],
                "f1.gain": float(gains.mean()),
                "f1.gain_se": float(gains.std(ddof=1) / np.sqrt(len(gains))),
                "f1.wins": float((gains > 0.0).sum()),
                "f1.losses": float((gains < 0.0).sum()),
            }
            continue
        key = f"{cell['positives']}.{cell['prior']}"
        total = result["covered"] + result["below"] + result["above"]
        for measure in ("covered", "below", "above"):
            found[f"{measure}.{key}"] = result[measure] / total
        found[f"width.{key}"] = result["width"]
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the coverage as Markdown."""
    rows = []
    for positives in settings["positives"]:
        for prior in settings["priors"]:
            key = f"{positives}.{prior}"
            shown = [f"{figures[f'{measure}.{key}']:.1%}" for measure in ("covered", "below", "above")]
            rows.append([f"{positives}", f"{prior:g}", *shown, f"{figures[f'width.{key}']:.3f}"])
    header = ["calibration positives", "prior", "covered", "prior below", "prior above", "median width"]
    return (
        "## Coverage of prior intervals\n\n"
        f"`estimate_prior` on {settings['n_rows']:,} rows, {settings['level']:.0%} intervals, "
        f"{settings['repetitions']} repetitions: Gaussian scores {SEPARATION:g} standard deviations apart, "
        f"calibrated on {settings['negatives_per_positive']} negatives per positive.\n\n"
        + markdown_table(header, rows)
        + "\n## F1 with few positives\n\n"
        f"Mean true F1 over {settings['f_beta_draws']} models calibrated on {settings['f_beta_positives']} positives: "
        f"default `FBetaPolicy` {figures['f1.policy']:.4f}, plug-in threshold (the best F1 on the calibration labels) "
        f"{figures['f1.plug_in']:.4f}, best threshold {figures['f1.best']:.4f}. The policy gains "
        f"{figures['f1.gain']:+.4f} (standard error {figures['f1.gain_se']:.4f}), more F1 in "
        f"{figures['f1.wins']:.0f} draws, less in {figures['f1.losses']:.0f}.\n"
    )
