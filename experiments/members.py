"""Hold the ensemble against single models on the paper's sets, and against the truth where the ratio is known.

AUPRC is measured at the training prior on stratified, duplicate-safe splits. Splits overlap, so differences are
tested with Nadeau and Bengio's correction. The known ratio is that of normal classes.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.metrics import average_precision_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer
from threadpoolctl import threadpool_limits

from experiments.markdown import markdown_table
from experiments.protocol import missing_networks_or_sets, present_sets, require_set
from experiments.runner import Cell, Settings
from experiments.significance import corrected_p_value
from obil.arrays import FloatArray
from obil.calibration.linear import fit_linear
from obil.calibration.reliability import calibration_error, reliability
from obil.datasets.gaussian_stream import GaussianClasses
from obil.datasets.splits import stratified_split
from obil.estimators.obil_classifier import OBILClassifier

ANCHORS: dict[str, Callable[[int], Any]] = {
    "random forest": lambda seed: make_pipeline(_filled(), RandomForestClassifier(500, random_state=seed)),
    "gradient boosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
    "MLP on quantiles": lambda seed: make_pipeline(
        _filled(),
        QuantileTransformer(output_distribution="normal", n_quantiles=1_000, subsample=None, random_state=seed),
        MLPClassifier((128, 64, 32), max_iter=50, random_state=seed),  # stopping early is worse with so few positives
    ),
}
OURS: dict[str, Callable[[int], Any]] = {
    "default": lambda seed: OBILClassifier(random_state=seed),
    "networks only": lambda seed: OBILClassifier(
        member="mlp", ratios="original", fusion="mean", cv=5, random_state=seed
    ),
    "mlp": lambda seed: OBILClassifier(member="mlp", random_state=seed),
    "paper": lambda seed: OBILClassifier(member="paper", random_state=seed),
}
KNOWN = "known ratio"


def missing(settings: Settings) -> str | None:
    """Return why this experiment cannot run here, or None; a set that is not at hand is left out."""
    return missing_networks_or_sets(settings["sets"])


def cells(settings: Settings) -> list[Cell]:
    """List the work: one model on one split of one set, and the known ratio."""
    known = [
        {"set": KNOWN, "features": features, "split": seed}
        for features in settings["known_features"]
        for seed in range(settings["known_seeds"])
    ]
    real = [
        {"set": name, "model": model, "split": split}
        for split in range(settings["splits"])
        for name in present_sets(settings["sets"])
        for model in (*OURS, *ANCHORS)
    ]
    return known + real


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Fit one model and measure it on the rows it has not seen."""
    if cell["set"] == KNOWN:
        return _known(cell, settings)
    data, seed = require_set(cell["set"]), cell["split"]
    rows, labels = data.features, data.labels.astype(np.int64)
    train, test = stratified_split(labels, test_size=settings["test_share"], random_state=seed, rows=rows.to_numpy())
    if cell["model"] in OURS:  # codes of categories become strings: the ensemble then treats them as categorical
        rows = rows.assign(**{name: rows[name].astype(str) for name in data.categorical})
    else:
        rows = rows.assign(**{name: rows[name].astype("category").cat.codes for name in data.categorical})
    model = (OURS | ANCHORS)[cell["model"]](seed)
    started = time.perf_counter()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # quantiles of few rows, and perceptrons that would train longer
        model.fit(rows.iloc[train], labels[train])
        scores = model.predict_proba(rows.iloc[test])[:, 1]
    return {
        "auprc": float(average_precision_score(labels[test], scores)),
        "seconds": time.perf_counter() - started,
        "share": len(test) / len(labels),
    }


def _known(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Fit the default on normal classes and hold its ratios against the exact ones at other priors, with no refit."""
    classes = GaussianClasses.spread(settings["known_separation"], n_features=cell["features"])
    seed, prior = cell["split"], 1.0 / (1.0 + settings["known_imbalance"])
    training = classes.draw(np.full(settings["known_rows"], prior), random_state=seed)
    model = OBILClassifier(random_state=seed).fit(training.features, training.labels)
    result: dict[str, Any] = {}
    for fresh_prior in settings["known_priors"]:
        fresh = classes.draw(np.full(settings["known_fresh"], fresh_prior), random_state=seed + 1_000)
        ratios = model.log_ratios(fresh.features)
        again = fit_linear(ratios, fresh.labels, np.ones(len(ratios)), slope_sd=None)
        result |= {
            f"correlation.{fresh_prior}": float(np.corrcoef(ratios[:, 1], fresh.log_ratios[:, 1])[0, 1]),
            f"ece.{fresh_prior}": _balanced_error(ratios, fresh.labels),
            f"exact_ece.{fresh_prior}": _balanced_error(fresh.log_ratios, fresh.labels),
            f"slope.{fresh_prior}": float(again.slopes[1]),
            f"offset.{fresh_prior}": float(again.offsets[1]),
        }
    return result


def _balanced_error(log_ratios: FloatArray, labels: Any) -> float:
    """Return the calibration error (ECE) at prior 1/2: classes weighted equally."""
    positive = labels == 1
    weights = np.where(positive, 0.5 / positive.sum(), 0.5 / (~positive).sum())
    return calibration_error(reliability(expit(log_ratios[:, 1]), positive.astype(np.float64), weights))


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the means over splits, the differences from the best anchor with their test, and the known ratio."""
    found: dict[str, float] = {}
    excess, worse = [], 0
    for name in sorted({cell["set"] for cell, _ in results} - {KNOWN}):
        own = {
            model: np.array([r["auprc"] for cell, r in results if cell["set"] == name and cell["model"] == model])
            for model in (*OURS, *ANCHORS)
        }
        for model, values in own.items():
            found |= {f"auprc.{name}.{model}": float(values.mean()), f"sd.{name}.{model}": float(values.std(ddof=1))}
            seconds = [r["seconds"] for cell, r in results if cell["set"] == name and cell["model"] == model]
            found[f"seconds.{name}.{model}"] = float(np.mean(seconds))
        best = max(ANCHORS, key=lambda anchor: own[anchor].mean())
        fraction = next(r["share"] for cell, r in results if cell["set"] == name)
        difference = own["default"] - own[best]
        p_value = corrected_p_value(difference, test_size=fraction)
        found |= {f"excess.{name}": float(difference.mean()), f"p.{name}": p_value}
        found[f"best.{name}"] = float(list(ANCHORS).index(best))
        excess.append(float(difference.mean()))
        worse += p_value < 0.05
    found |= {"excess.mean": float(np.mean(excess)), "worse.sets": float(worse)}
    return found | _known_figures([(c, r) for c, r in results if c["set"] == KNOWN], settings)


def _known_figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    found: dict[str, float] = {}
    for features in settings["known_features"]:
        own = [result for cell, result in results if cell["features"] == features]
        for key in own[0]:
            found[f"known.{features}.{key}"] = float(np.mean([result[key] for result in own]))
    measured = dict(found)
    for measure in ("correlation", "ece", "slope", "offset"):
        every = [value for key, value in measured.items() if key.split(".")[2] == measure]
        found[f"known.lowest_{measure}"], found[f"known.highest_{measure}"] = min(every), max(every)
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    sets = [name for name in settings["sets"] if f"excess.{name}" in figures]
    models = (*OURS, *ANCHORS)
    rows = [
        [
            model,
            *(f"{figures[f'auprc.{name}.{model}']:.3f} ({figures[f'sd.{name}.{model}']:.3f})" for name in sets),
            f"{np.mean([figures[f'auprc.{name}.{model}'] for name in sets]):.4f}",
            f"{np.mean([figures[f'seconds.{name}.{model}'] for name in sets]):.1f}",
        ]
        for model in models
    ]
    anchors = list(ANCHORS)
    compared = [
        [
            name,
            anchors[int(figures[f"best.{name}"])],
            f"{figures[f'excess.{name}']:+.3f}",
            f"{figures[f'p.{name}']:.2f}",
        ]
        for name in sets
    ]
    known = [
        [
            f"{features}",
            f"{prior:g}",
            f"{figures[f'known.{features}.correlation.{prior}']:.3f}",
            f"{figures[f'known.{features}.ece.{prior}']:.4f} ({figures[f'known.{features}.exact_ece.{prior}']:.4f})",
            f"{figures[f'known.{features}.slope.{prior}']:.3f}",
            f"{figures[f'known.{features}.offset.{prior}']:+.3f}",
        ]
        for features in settings["known_features"]
        for prior in settings["known_priors"]
    ]
    ranking = (
        f"**AUPRC on held-out rows**, means over {settings['splits']} stratified, duplicate-safe splits with "
        f"{settings['test_share']:.0%} held out (in brackets: standard deviation from split to split), and the seconds "
        "that a fit and its prediction take on a shared machine. `default` is `OBILClassifier()`: networks at the "
        "original class ratio, a linear model, boosters and a forest. `networks only` are its networks, cross-fitted; "
        "`mlp` the same networks on the paper's associated problems; `paper` its own networks. The other three are "
        "single models, the anchors.\n"
    )
    against = (
        "\nThe default against the best anchor of each set; p: one-sided, that it is below, corrected for splits "
        f"that overlap (Nadeau and Bengio). Mean difference {figures['excess.mean']:+.4f}; significantly below (5 %) "
        f"on {figures['worse.sets']:.0f} sets.\n"
    )
    truth = (
        f"\n**Known ratio**: two normal classes {settings['known_separation']} standard deviations apart, the default "
        f"fitted on {settings['known_rows']:,} rows at {settings['known_imbalance']}:1, held against the exact log "
        f"ratio on {settings['known_fresh']:,} fresh rows at other priors without refitting. ECE is at prior 1/2, in "
        "brackets that of the exact ratio on the same rows (chance alone); offset and slope: what recalibrating the "
        "fresh rows would still change.\n"
    )
    return "\n".join(
        [
            ranking,
            markdown_table(["model", *sets, "mean", "seconds"], rows),
            against,
            markdown_table(["set", "best anchor", "difference", "p"], compared),
            truth,
            markdown_table(["features", "prior", "correlation", "ECE", "slope", "offset"], known),
        ]
    )


def _filled() -> SimpleImputer:
    return SimpleImputer(strategy="median", keep_empty_features=True)
