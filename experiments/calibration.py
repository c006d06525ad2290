"""Plant a bias in the log ratio, calibrate it away, and ask what is left in the cost and in the intervals."""

from typing import Any

import numpy as np

from experiments.gaussian_pair import GaussianPair, binary_log_thresholds
from experiments.markdown import markdown_table
from experiments.runner import Cell, Settings
from experiments.scenarios import SCENARIOS
from obil.arrays import FloatArray, IntArray
from obil.calibration.calibrate import fit_calibrator
from obil.datasets.gaussian_stream import GaussianClasses, Stream
from obil.estimators.ratio_classifier import RatioClassifier
from obil.online.estimate_prior import estimate_prior
from obil.online.online_classifier import OnlineClassifier
from obil.serving.calibrators import Calibrator, LinearCalibrator
from obil.trackers import BayesBank
from obil.trackers.pass_search import estimate_from_rows

VARIANTS = ("affine", "temperature", "affine, balanced weights", "none")
KINDS = ("margin", "probability")
LABELLED_SEED, BATCH_SEED = 7_000_003, 9_000_011  # far from those of the streams


def cells(settings: Settings) -> list[Cell]:
    """List the work: what each calibration costs by seed, and what intervals cover by prior and scores."""
    work: list[Cell] = [
        {"measure": "cost", "rows": rows, "seed": seed}
        for rows in settings["labelled_rows"]
        for seed in range(settings["seeds"])
    ]
    work += [
        {"measure": "coverage", "kind": kind, "prior": prior, "part": part}
        for kind in KINDS
        for prior in settings["coverage_priors"]
        for part in range(settings["coverage_parts"])
    ]
    return work


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Measure one cell."""
    return _cost(cell, settings) if cell["measure"] == "cost" else _coverage(cell, settings)


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the mean excess of each variant, in percent, and the coverage of the intervals."""
    found: dict[str, float] = {}
    for rows in settings["labelled_rows"]:
        own = [result for cell, result in results if cell["measure"] == "cost" and cell["rows"] == rows]
        for variant in VARIANTS:
            found[f"excess.{rows}.{variant}"] = float(np.mean([result[variant] for result in own]))
    for kind in KINDS:
        for prior in settings["coverage_priors"]:
            parts = [
                result
                for cell, result in results
                if cell["measure"] == "coverage" and cell["kind"] == kind and cell["prior"] == prior
            ]
            for measure in parts[0]:
                found[f"{measure}.{kind}.{prior}"] = float(np.mean([part[measure] for part in parts]))
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    sizes = settings["labelled_rows"]
    excess = (
        f"**A bias of {settings['bias']:+g} in the log ratio**, jump scenario, separation {settings['separation']:g}, "
        f"{settings['seeds']} seeds of {settings['n_rows']:,} rows: expected cost over that of the exact ratio, %, "
        f"after calibrating on labelled rows of prior {settings['labelled_prior']:g}.\n"
    )
    variants = [[variant, *(f"{figures[f'excess.{rows}.{variant}']:+.2f}" for rows in sizes)] for variant in VARIANTS]
    coverage = (
        f"**What a 90 % interval covers**, separation {settings['coverage_separation']:g}, "
        f"{settings['coverage_repetitions'] * settings['coverage_parts']} calibrators fitted on "
        f"{settings['coverage_negatives']:,} negatives and {settings['coverage_positives']:,} positives, each with its "
        f"own {settings['coverage_rows']:,} rows at the stated prior.\n"
    )
    columns = {
        "batch": "estimate_prior",
        "rows_alone": "without the uncertainty of the calibration map",
        "online": "OnlineClassifier",
        "bank_alone": "its bank alone",
    }
    rows = [
        [kind, f"{prior:g}", *(f"{figures[f'{measure}.{kind}.{prior}']:.1%}" for measure in columns)]
        for kind in KINDS
        for prior in settings["coverage_priors"]
    ]
    return "\n".join(
        [
            excess,
            markdown_table(["calibrated by", *(f"{rows:,} rows" for rows in sizes)], variants),
            coverage,
            markdown_table(["scores", "prior", *columns.values()], rows),
        ]
    )


def _cost(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Return the expected cost of each variant over that of the exact ratio on the same stream, less 1, in percent."""
    classes, pair = GaussianClasses.pair(settings["separation"]), GaussianPair(settings["separation"])
    truth = SCENARIOS["jump"](settings["n_rows"])
    stream = classes.draw(truth, random_state=cell["seed"])
    labelled = classes.draw(
        np.full(cell["rows"], settings["labelled_prior"]),
        random_state=np.random.default_rng([LABELLED_SEED, cell["seed"]]),
    )
    bias = np.array([0.0, settings["bias"]])
    exact = _tracked(stream.log_ratios, settings)
    best = pair.expected_cost(binary_log_thresholds(exact), truth).sum()
    excesses = {}
    for variant in VARIANTS:
        calibrator = _calibrator(variant, labelled, bias)
        thresholds = binary_log_thresholds(_tracked(calibrator.apply(stream.log_ratios + bias), settings))
        # a row is alerted where its calibrated ratio is above the threshold: say that of its true ratio
        on_scores = calibrator.invert(np.stack([np.zeros_like(thresholds), thresholds], axis=1))
        cost = pair.expected_cost((on_scores - bias)[:, 1], truth).sum()
        excesses[variant] = 100.0 * float(cost / best - 1.0)
    return excesses


def _calibrator(variant: str, labelled: Stream, bias: FloatArray) -> Calibrator:
    if variant == "none":
        return LinearCalibrator.identity(2)
    method, _, weighting = variant.partition(", ")
    weights = _balanced(labelled.labels) if weighting else np.ones(len(labelled.labels))
    return fit_calibrator(labelled.log_ratios + bias, labelled.labels, weights, method=method)


def _balanced(labels: IntArray) -> FloatArray:
    """Return the weights of `class_weight="balanced"`, (n,)."""
    weights: FloatArray = (len(labels) / (2.0 * np.bincount(labels, minlength=2)))[labels]
    return weights


def _tracked(log_ratios: FloatArray, settings: Settings) -> FloatArray:
    return BayesBank(settings["start_prior"]).update_many(log_ratios)[:, 1]


def _coverage(cell: Cell, settings: Settings) -> dict[str, Any]:
    classes = GaussianClasses.pair(settings["coverage_separation"])
    prior, repetitions = cell["prior"], settings["coverage_repetitions"]
    labels = np.repeat([0, 1], [settings["coverage_negatives"], settings["coverage_positives"]])
    held = dict.fromkeys(("batch", "rows_alone", "online", "bank_alone"), 0)
    for repetition in range(repetitions):
        rng = np.random.default_rng([BATCH_SEED, cell["part"], repetition])
        features = rng.standard_normal(len(labels)) + settings["coverage_separation"] * labels
        labelled = _scores(classes.log_ratios(features[:, None])[:, 1], cell["kind"], settings)
        model = RatioClassifier.from_scores(labelled, labels, kind=cell["kind"])
        arriving = classes.draw(np.full(settings["coverage_rows"], prior), random_state=rng)
        scores = _scores(arriving.log_ratios[:, 1], cell["kind"], settings)
        online = OnlineClassifier(model, tracker=BayesBank(), monitor=False)
        online.decide_many(scores)
        for name, interval in (
            ("batch", estimate_prior(model, scores).interval),
            ("rows_alone", estimate_from_rows(model.model_.evidence_rows(scores)).interval),
            ("online", online.interval(0.9)),
            ("bank_alone", online.tracker.interval(0.9)),
        ):
            if interval is not None:
                held[name] += bool(interval[1, 0] <= prior <= interval[1, 1])
    return {name: count / repetitions for name, count in held.items()}


def _scores(log_ratios: FloatArray, kind: str, settings: Settings) -> FloatArray:
    """Return what a biased model would say: log odds on a scale of their own, or probabilities."""
    biased = log_ratios + settings["bias"]
    scores: FloatArray = 3.0 * biased if kind == "margin" else 1.0 / (1.0 + np.exp(-biased))
    return scores
