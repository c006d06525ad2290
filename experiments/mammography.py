"""Wrap plain, weighted and resampled models and ask held-out rows of mammography whether the ratios agree.

Whatever class prior a model was trained at, `RatioClassifier` has to divide it out: recalibrating the held-out
rows should change nothing (offset 0, slope 1), and the bank should find the priors of shifted streams. Splits are
random: new rows repeat training rows as often as training rows repeat each other.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from imblearn.over_sampling import SMOTE
from imblearn.pipeline import make_pipeline as make_resampling_pipeline
from imblearn.under_sampling import RandomUnderSampler
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from experiments.markdown import markdown_table
from experiments.protocol import arriving
from experiments.runner import Cell, Settings
from obil.arrays import FloatArray
from obil.calibration.calibrate import fit_calibrator
from obil.calibration.cross_fit import score_method
from obil.calibration.evidence_map import fit_evidence_map
from obil.calibration.linear import SLOPE_SD, fit_linear
from obil.datasets.named_set import NamedSet, load_named
from obil.datasets.shift_protocol import shifted_streams
from obil.datasets.splits import stratified_split
from obil.errors import InvalidInputError
from obil.estimators.ratio_classifier import RatioClassifier
from obil.serving.ratio_model import RatioModel
from obil.trackers import BayesBank
from obil.trackers.pass_search import estimate_from_rows

NAME = "mammography"
CALIBRATIONS = ("affine", "spline")
TOLERANCE = 0.05  # of a mean prior, beside two standard errors
MODELS: dict[str, Callable[[int], Any]] = {
    "logistic": lambda seed: make_pipeline(StandardScaler(), LogisticRegression()),
    "logistic, balanced": lambda seed: make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced")),
    "logistic, SMOTE": lambda seed: make_resampling_pipeline(
        StandardScaler(), SMOTE(random_state=seed), LogisticRegression()
    ),
    "logistic, undersampled": lambda seed: make_resampling_pipeline(
        StandardScaler(), RandomUnderSampler(random_state=seed), LogisticRegression()
    ),
    "boosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
    "boosting, SMOTE": lambda seed: make_resampling_pipeline(
        SMOTE(random_state=seed), HistGradientBoostingClassifier(random_state=seed)
    ),
    "boosting, undersampled": lambda seed: make_resampling_pipeline(
        RandomUnderSampler(random_state=seed), HistGradientBoostingClassifier(random_state=seed)
    ),
    "forest": lambda seed: RandomForestClassifier(random_state=seed),
    "linear SVC": lambda seed: make_pipeline(StandardScaler(), LinearSVC(random_state=seed)),
}


def missing(settings: Settings) -> str | None:  # every experiment has it
    """Return why this experiment cannot run here, or None."""
    try:
        _data()
    except InvalidInputError as error:
        return str(error)
    return None


def cells(settings: Settings) -> list[Cell]:
    """List the work: one model on one split."""
    return [{"model": model, "split": split} for split in range(settings["splits"]) for model in MODELS]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Fit one model on one split; recalibrate its held-out rows and track the prior of shifted streams."""
    data, seed = _data(), cell["split"]
    rows, labels = data.features.to_numpy(), data.labels.astype(np.int64)
    split = stratified_split(labels, test_size=settings["test_share"], random_state=seed)
    model = RatioClassifier(MODELS[cell["model"]](seed), random_state=seed).fit(rows[split.train], labels[split.train])
    held_out = labels[split.test]
    result: dict[str, Any] = {}
    for calibration in CALIBRATIONS:
        scores = _recalibrated(model, calibration).score(rows[split.test])
        again = fit_linear(scores.log_ratios, held_out, np.ones(len(held_out)), slope_sd=None)
        result[f"{calibration}.offset"], result[f"{calibration}.slope"] = (
            float(again.offsets[1]),
            float(again.slopes[1]),
        )
        for factor in settings["factors"]:
            tracked, batch = [], []
            for stream in shifted_streams(
                held_out,
                train_prior=model.prior_,
                factors=[factor],
                n_draws=settings["draws"],
                n_rows=settings["n_rows"],
                random_state=seed,
            ):
                arrived = arriving(scores, stream.rows)
                path = BayesBank(model.prior_).update_many(arrived.log_ratios, evidence=arrived.evidence_from(0))
                tracked.append(_second_half(path) / stream.prior)
                batch.append(float(estimate_from_rows(arrived.evidence[:, :, 0]).prior[1]) / stream.prior)
            result[f"{calibration}.tracked.{factor}"] = float(np.mean(tracked))
            result[f"{calibration}.batch.{factor}"] = float(np.mean(batch))
    return result


def _recalibrated(model: RatioClassifier, calibration: str) -> RatioModel:
    """Return the fitted model with another kind of calibrator and of evidence, fitted on the same held-out rows."""
    fitted = model.model_
    holdout, evidence = fitted.holdout_, fitted.evidence
    assert evidence is not None
    scores = fitted.calibrator.invert(holdout.log_ratios)
    slope_sd = SLOPE_SD if score_method(model.estimators_[0]) == "predict_proba" else None
    known: dict[str, Any] = {"method": calibration, "slope_sd": slope_sd, "random_state": 0}
    calibrator = fit_calibrator(scores, holdout.labels, holdout.weights, **known)
    score_map, choice = fit_evidence_map(evidence.scores, holdout.labels, holdout.weights, **known)
    again = fitted.recalibrated(calibrator, holdout, calibration=calibration)
    return replace(again, evidence=replace(evidence, calibrator=score_map, choice=choice))


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the means over splits, and their standard deviations from split to split."""
    found: dict[str, float] = {}
    for model in MODELS:
        own = [result for cell, result in results if cell["model"] == model]
        for measure in own[0]:
            values = [result[measure] for result in own]
            found[f"{measure}.{model}"] = float(np.mean(values))
            found[f"sd.{measure}.{model}"] = float(np.std(values, ddof=1))
    for measure in (f"affine.tracked.{factor}" for factor in settings["factors"]):
        means = {model: found[f"{measure}.{model}"] for model in MODELS}
        allowed = {
            model: TOLERANCE + 2.0 * found[f"sd.{measure}.{model}"] / settings["splits"] ** 0.5 for model in MODELS
        }
        found[f"off.{measure}"] = float(sum(abs(means[model] - 1.0) > allowed[model] for model in MODELS))
        found[f"spread.{measure}"] = max(means.values()) - min(means.values())
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    head = (
        f"**Mammography, held-out rows**, means over {settings['splits']} splits (in brackets: standard deviation from "
        "split to split). Offset and slope: what recalibrating the held-out rows would still change. Prior: what the "
        f"bank says over the second half of {settings['n_rows']:,} rows drawn at another imbalance, over the truth."
    )
    for factor in settings["factors"]:
        measure = f"affine.tracked.{factor}"
        head += (
            f" At {factor:g} Qp, {figures[f'off.{measure}']:.0f} of the {len(MODELS)} means are off by more than "
            f"{TOLERANCE:.0%} and two standard errors, and the models are {figures[f'spread.{measure}']:.3f} apart."
        )
    head += "\n"
    measures = {"offset": "offset", "slope": "slope"} | {
        f"tracked.{factor}": f"prior / truth at {factor:g} Qp" for factor in settings["factors"]
    }
    parts = [head]
    for calibration in CALIBRATIONS:
        keys = [f"{calibration}.{measure}" for measure in measures]
        rows = [
            [model, *(f"{figures[f'{key}.{model}']:.2f} ({figures[f'sd.{key}.{model}']:.2f})" for key in keys)]
            for model in MODELS
        ]
        parts.append(f"Calibration `{calibration}`:\n\n" + markdown_table(["model", *measures.values()], rows))
    return "\n".join(parts)


def _second_half(priors: FloatArray) -> float:
    return float(priors[len(priors) // 2 :, 1].mean())


@lru_cache(maxsize=1)
def _data() -> NamedSet:
    return load_named(NAME)
