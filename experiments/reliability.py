"""Train the paper's network with each loss, and ask whether posteriors are calibrated and ratios right.

The paper shows reliability diagrams of three losses on mammography, and log ratios against a kernel density. Both are
repeated here, beside what they hide: calibration at prior 1/2, and the same log ratios where the truth is known.
"""

import importlib.util
from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity

from experiments import reliability_page
from experiments.choices.losses import loaded
from experiments.choices.measures import EVEN, measured
from experiments.paper_claims import CALIBRATION_ERROR
from experiments.runner import Cell, Settings
from experiments.spread import standard_deviation
from experiments.temperature import paper_calibrations
from obil.arrays import FloatArray, IntArray
from obil.calibration.diagnose import calibration_figures
from obil.calibration.gate import Gate
from obil.calibration.reliability import reliability
from obil.datasets.gaussian_stream import GaussianClasses
from obil.datasets.splits import stratified_split
from obil.errors import InvalidInputError
from obil.estimators.obil_classifier import OBILClassifier
from obil.serving.holdout import Holdout

NAME, KNOWN = "mammography", "known"
# edges of the diagram at the rows' own prior, where nearly all rows would share one of ten equal bins
OWN_EDGES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0)
plots, table = reliability_page.plots, reliability_page.table


def missing(settings: Settings) -> str | None:  # every experiment has it
    """Return why this experiment cannot run here, or None."""
    if importlib.util.find_spec("torch") is None:
        return "networks are trained with torch: pip install 'obil[torch]'"
    try:
        loaded(NAME)
    except InvalidInputError as error:
        return str(error)
    return None


def cells(settings: Settings) -> list[Cell]:
    """List the work: all networks on one split of mammography, or on one draw of normal classes."""
    counts = {NAME: settings["splits"], KNOWN: settings["draws"]}
    return [{"data": data, "seed": seed} for data, count in counts.items() for seed in range(count)]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Train every network, and measure its log ratios under every calibration."""
    seed = cell["seed"]
    rows, labels, truth = _known(seed, settings) if cell["data"] == KNOWN else (*loaded(NAME), None)
    split = stratified_split(labels, test_size=settings["test_share"], random_state=seed, rows=rows)
    compared = _thinned(labels[split.test], settings["rows_compared"], seed)
    kernel = kernel_log_ratios(rows[split.train], labels[split.train], rows[split.test][compared], settings, seed)
    reference = kernel if truth is None else truth[split.test][compared]
    own_labels = labels[split.test]
    estimates: dict[str, FloatArray] = {}
    found: dict[str, Any] = {}
    for loss, class_ratio in settings["networks"]:
        model = OBILClassifier(
            n_members=1, ratios=class_ratio if class_ratio == "original" else [float(class_ratio)],
            member="paper", loss=loss, fusion="mean", random_state=seed,
        ).fit(rows[split.train], labels[split.train])  # fmt: skip
        scores = model.model_.scores(rows[split.test])
        stuck = float(roc_auc_score(own_labels, scores[:, 1]) < settings["least_area"])
        for method, ratios in paper_calibrations(model.model_, scores).items():
            name = f"{loss}/{class_ratio}/{method}"
            if method == "temperature" and name not in CALIBRATION_ERROR:
                continue
            estimates[name] = ratios[compared]
            found[name] = _measures(ratios, own_labels, model.prior_, settings) | {"stuck": stuck}
    prior = np.array([1.0 - own_labels.mean(), own_labels.mean()])
    if truth is not None:
        found["exact"] = _measures(truth[split.test], own_labels, prior, settings)
        estimates["exact"] = reference
    found["kernel density"] = _measures(kernel, own_labels[compared], prior, settings)
    estimates["kernel density"] = kernel
    for name, ratios in estimates.items():
        found[name] |= agreement(ratios, reference, own_labels[compared], settings["largest_log_ratio"])
    if seed == 0:
        found["shown"] = _shown(estimates, reference, own_labels[compared], settings)
    return found


def _known(seed: int, settings: Settings) -> tuple[FloatArray, IntArray, FloatArray]:
    """Draw normal classes as many, as rare and in as many dimensions as mammography; return their ratios too."""
    classes = GaussianClasses.spread(settings["known_separation"], n_features=settings["known_features"])
    stream = classes.draw(np.full(settings["known_rows"], settings["known_prior"]), random_state=seed)
    return stream.features, stream.labels, stream.log_ratios


def kernel_log_ratios(
    rows: FloatArray, labels: IntArray, fresh: FloatArray, settings: Settings, seed: int
) -> FloatArray:
    """Return the log ratio of fresh rows by a kernel density of each class, standardised alike, (n, 2).

    Distinct rows choose the bandwidth: copies on both sides of a fold would ask for none at all.
    """
    centre, scale = rows.mean(axis=0), rows.std(axis=0)
    logs = []
    for k in range(2):
        own = (rows[labels == k] - centre) / scale
        distinct = np.unique(own, axis=0)
        chosen = np.random.default_rng([seed, k]).permutation(len(distinct))[: settings["bandwidth_rows"]]
        search = GridSearchCV(
            KernelDensity(), {"bandwidth": settings["bandwidths"]}, cv=settings["bandwidth_folds"], refit=False
        ).fit(distinct[chosen])
        density = KernelDensity(bandwidth=search.best_params_["bandwidth"]).fit(own)
        logs.append(density.score_samples((fresh - centre) / scale))
    largest = 50.0  # far outside of both classes a kernel density is meaningless
    return np.stack([np.zeros(len(fresh)), np.clip(logs[1] - logs[0], -largest, largest)], axis=1)


def _thinned(labels: IntArray, most: int, seed: int) -> IntArray:
    """Return all positives and as many negatives as there is room for, in order."""
    positives, negatives = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
    kept = np.random.default_rng(seed).permutation(negatives)[: max(most - len(positives), 1)]
    return np.sort(np.concatenate([positives, kept]))


def _measures(log_ratios: FloatArray, labels: IntArray, prior: FloatArray, settings: Settings) -> dict[str, Any]:
    """Return calibration at the rows' own prior and at 1/2, and the bins of both diagrams."""
    rows, n_bins = Holdout.of(log_ratios, labels), settings["n_bins"]
    happened = (labels == 1).astype(np.float64)
    own_posteriors = expit(log_ratios[:, 1] + logit(prior[1]))
    weights = rows.weights_at(prior)
    place = np.clip(np.searchsorted(OWN_EDGES, own_posteriors, side="right") - 1, 0, len(OWN_EDGES) - 2)
    own_bins = [np.bincount(place, weights=values, minlength=len(OWN_EDGES) - 1)
                for values in (weights, weights * own_posteriors, weights * happened)]  # fmt: skip
    even_bins = np.zeros((3, n_bins))
    for row in reliability(expit(log_ratios[:, 1]), happened, rows.weights_at(EVEN), n_bins=n_bins):
        number = min(int(row.mean_posterior * n_bins), n_bins - 1)
        even_bins[:, number] = row.weight, row.weight * row.mean_posterior, row.weight * row.observed_rate
    return measured(log_ratios, labels, prior) | {
        "own_ece": calibration_figures(rows, prior, n_bins=n_bins).ece_equal_width,
        "refused": float(Gate().judge(rows).decision == "refuse"),
        "own_bins": [values.tolist() for values in own_bins],
        "even_bins": even_bins.tolist(),
    }


def agreement(estimate: FloatArray, reference: FloatArray, labels: IntArray, largest: float) -> dict[str, float]:
    """Return correlation and rms distance of log ratios (n, 2) from a reference, both classes weighted alike."""
    weights = Holdout.of(estimate, labels).weights_at(EVEN)
    x, y = (np.clip(ratios[:, 1], -largest, largest) for ratios in (reference, estimate))
    covariance = np.cov(x, y, aweights=weights)
    spread = float(np.sqrt(covariance[0, 0] * covariance[1, 1]))
    return {
        "correlation": float(covariance[0, 1] / spread) if spread > 0.0 else 0.0,  # a constant follows nothing
        "rms": float(np.sqrt(weights @ (x - y) ** 2)),
    }


def _shown(
    estimates: dict[str, FloatArray], reference: FloatArray, labels: IntArray, settings: Settings
) -> dict[str, list[float]]:
    """Return the points of the scatter: all positives first, then some negatives."""
    negatives = np.flatnonzero(labels == 0)
    kept = np.concatenate(
        [np.flatnonzero(labels == 1), negatives[:: max(1, len(negatives) // settings["negatives_shown"])]]
    )
    largest = settings["largest_log_ratio"]
    points = {"reference": reference} | {name: r for name, r in estimates.items() if name.endswith("/none")}
    return {name: np.clip(ratios[kept, 1], -largest, largest).tolist() for name, ratios in points.items()}


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the means over splits or draws, and after `sd` their standard deviations."""
    found: dict[str, float] = {}
    for data in (NAME, KNOWN):
        own = [result for cell, result in results if cell["data"] == data]
        for name in own[0] if own else ():
            for measure in () if name == "shown" else [key for key in own[0][name] if not key.endswith("_bins")]:
                values = [result[name][measure] for result in own]
                found[f"{data}/{name}/{measure}"] = float(np.mean(values))
                found[f"sd {data}/{name}/{measure}"] = standard_deviation(values)
    return found


def series(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, list[float]]:
    """Return the reliability diagrams, pooled over splits, and the points of the scatters."""
    found: dict[str, list[float]] = {}
    for data in (NAME, KNOWN):
        own = [result for cell, result in results if cell["data"] == data]
        for name in own[0] if own else ():
            if name == "shown":
                found |= {f"points/{data}/{key}": values for key, values in own[0][name].items()}
                continue
            for diagram in ("own", "even"):
                mass, promised, seen = np.sum([result[name][f"{diagram}_bins"] for result in own], axis=0)
                kept = mass > 0.0
                found[f"{diagram}/{data}/{name}/promised"] = (promised[kept] / mass[kept]).tolist()
                found[f"{diagram}/{data}/{name}/happened"] = (seen[kept] / mass[kept]).tolist()
    return found
