"""Resampling: what thinning and SMOTE do to the distribution, and to the ratio that is learned from it."""

from collections.abc import Callable

import numpy as np
from scipy.stats import ks_2samp
from sklearn.linear_model import LogisticRegression

from experiments.growth import exponent
from experiments.smote import ratio_distortion
from experiments.spread import standard_deviation
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
from obil.arrays import FloatArray, IntArray
from obil.calibration.linear import fit_linear
from obil.datasets.gaussian_stream import GaussianClasses
from obil.resampling.associated import associated_problem

SEPARATION = 1.5
THINNED_FROM = 10  # negatives a positive before thinning
SMOTE_METHODS = ("undersample", "weight", "smote")


def measure_undersampling(settings: Settings) -> Measured:
    """Thin ten to one: compare the kept negatives with fresh ones, and fit a slope whose truth is 1."""
    sizes, figures = settings["thinned_sizes"], Figures()
    variances, classes = [], GaussianClasses.pair(SEPARATION)
    for size in sizes:
        slopes, kept = [], []
        for seed in range(settings["thinned_draws"]):
            labels = np.repeat([0, 1], [THINNED_FROM * size, size])
            features = np.random.default_rng(seed).standard_normal(len(labels)) + SEPARATION * labels
            rows = associated_problem(labels, ratio=1, n_classes=2, random_state=seed).rows
            scores = classes.log_ratios(features[rows, None])
            slopes.append(fit_linear(scores, labels[rows], np.ones(len(rows)), slope_sd=None).slopes[1])
            kept.append(features[rows][labels[rows] == 0])
        figures[f"slope.{size}"] = float(np.mean(slopes))
        figures[f"slope_error.{size}"] = float(standard_deviation(slopes) / np.sqrt(len(slopes)))
        variances.append(float(np.var(slopes)))
    fresh = np.random.default_rng(99).standard_normal(len(np.concatenate(kept)))
    figures["kolmogorov_p"] = float(ks_2samp(np.concatenate(kept), fresh).pvalue)
    figures["variance_exponent"] = exponent(sizes, variances)
    return Measured(figures, {})


def _undersampling_verdict(figures: Figures) -> str:
    sizes = sorted(int(key.split(".")[1]) for key in figures if key.startswith("slope."))
    biased = figures[f"slope.{sizes[0]}"] - 1.0 > 2.5 * figures[f"slope_error.{sizes[0]}"]
    if figures["kolmogorov_p"] < 1e-3:
        return judged(FAILS, "the kept rows have another distribution")
    if biased:
        return judged(
            CORRECTED, "the distribution is preserved; the ratio estimated from few rows is too steep all the same"
        )
    return judged(HOLDS, "neither the distribution nor the estimate is bent")


def _logistic_fit(features: FloatArray, labels: IntArray, weights: FloatArray) -> Callable[[FloatArray], FloatArray]:
    model = LogisticRegression(C=1.0, max_iter=1_000).fit(features, labels, sample_weight=weights)
    return model.predict_proba  # type: ignore[no-any-return]  # scikit-learn has no types


def measure_smote(settings: Settings) -> Measured:
    """Learn the ratio in ten dimensions after thinning, weighing and SMOTE, as positives grow in number."""
    figures: Figures = {}
    classes = GaussianClasses.spread(settings["separation"], n_features=10)
    for size, repeats in zip(settings["smote_positives"], settings["smote_repeats"], strict=True):
        found = ratio_distortion(
            _logistic_fit, classes, counts=[settings["smote_ratio"] * size, size], methods=SMOTE_METHODS,
            n_repeats=repeats, random_state=0,
        )  # fmt: skip
        for method, distortion in found.items():
            figures[f"{method}.rms.{size}"], figures[f"{method}.slope.{size}"] = distortion.rms, distortion.slope
    return Measured(figures, {})


def _smote_verdict(figures: Figures) -> str:
    sizes = sorted(int(key.rsplit(".", 1)[1]) for key in figures if key.startswith("smote.rms."))
    worse = [size for size in sizes if figures[f"smote.rms.{size}"] > figures[f"undersample.rms.{size}"]]
    falls = figures[f"smote.rms.{sizes[-1]}"] < figures[f"smote.rms.{sizes[0]}"]
    if not falls or not worse:
        return judged(FAILS, "SMOTE is not the worse one, or does not get better with more positives")
    if worse == sizes:
        return judged(
            CORRECTED,
            "SMOTE bends the ratio more at every size and less with more positives; undersampling is not free of bias",
        )
    return judged(
        NOT_AS_STATED,
        f"SMOTE is worse from {worse[0]:,} positives on and better below, where thinning leaves too few rows; the "
        "bend falls with their number. Weights beat both",
    )


ROWS = (
    Row(
        name="undersampling",
        covers=("assump:preserving", "prop:undersampling"),
        claim=(
            "Uniform undersampling of the majority preserves the likelihood ratio in expectation, for any number of "
            "rows"
        ),
        measure=measure_undersampling,
        measured=lambda f, s: (
            f"separation {SEPARATION}; kept rows against fresh ones: p = {f['kolmogorov_p']:.2f} "
            f"(Kolmogorov-Smirnov). Mean fitted slope (truth 1) from {named(s['thinned_sizes'])} rows per class: "
            f"{listed(f, 'slope', s['thinned_sizes'])} (standard errors "
            f"{listed(f, 'slope_error', s['thinned_sizes'])}); its variance falls as "
            f"rows^{f['variance_exponent']:.2f}"
        ),
        verdict=_undersampling_verdict,
        shown_by=(
            "test_errata.py::test_undersampling_preserves_the_distribution_and_the_estimate_is_biased_at_finite_size",
        ),
    ),
    Row(
        name="SMOTE",
        covers=("prop:smote",),
        claim=(
            "SMOTE distorts the ratio, less and less as positives grow in number; undersampling is unbiased and "
            "preferable"
        ),
        measure=measure_smote,
        measured=lambda f, s: (
            f"ten features; RMS error of the log ratio at {named(s['smote_positives'])} positives: SMOTE "
            f"{listed(f, 'smote.rms', s['smote_positives'])}, undersampling "
            f"{listed(f, 'undersample.rms', s['smote_positives'])}, weights "
            f"{listed(f, 'weight.rms', s['smote_positives'])}; slopes: SMOTE "
            f"{listed(f, 'smote.slope', s['smote_positives'])}, undersampling "
            f"{listed(f, 'undersample.slope', s['smote_positives'])}"
        ),
        verdict=_smote_verdict,
        shown_by=(
            "experiments/test_smote.py::test_smote_bends_the_ratio_more_than_thinning_and_weights_do",
            "experiments/test_smote.py::test_with_many_rows_the_bend_of_smote_stays_and_that_of_the_others_goes",
        ),
    ),
)
