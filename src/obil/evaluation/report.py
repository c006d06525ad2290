"""Write one self-contained page on a model: the verdict, its calibration, what its alerts are worth at each prior."""

import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from obil import __version__
from obil.calibration.diagnose import CalibrationFigures, Diagnosis, diagnose
from obil.calibration.recalibration import Estimate
from obil.calibration.verdict import Verdict
from obil.errors import InvalidInputError
from obil.evaluation.markup import escaped, name, percent, quantity, table
from obil.evaluation.operating_points import FEW_ROWS, OperatingPoint, costs_of, operating_points, with_training_prior
from obil.evaluation.report_plots import legend, operating_plot, plot_priors, reliability_plot
from obil.evaluation.report_text import GLOSSARY, HEADLINES, NEXT_STEPS, offset_text, policy_text, slope_text
from obil.evaluation.verify import Verification, verify
from obil.policies import CostPolicy, Policy
from obil.serving.ratio_model import RatioModel

HEADER = ("Prior", "Threshold", "Sensitivity", "Specificity", "PPV", "NPV", "Alerts", "F1", "Cost / 1,000")
ELSEWHERE = "<p>At another prevalence the threshold is another one: see the operating points below.</p>"
FIGURES = {"offset": "Offset", "slope_error": "Slope, distance from 1", "balanced_ece": "Calibration error"}


def write_report(
    model: RatioModel, X: Any, y: npt.ArrayLike, path: str | os.PathLike[str], *, policy: Policy | None = None
) -> Verification:
    """Write the page on labelled rows that the model was not fitted on, whole or not at all; return the verification.

    Parameters
    ----------
    model
        A fitted `RatioClassifier`, or what `obil.load` returns.
    y
        The user's own labels; every class needs a row.
    policy
        What sets the threshold; equal costs if None. It reads the model's own held-out rows, as in service; what
        it then does is measured on X and y.
    """
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise InvalidInputError(f"the report must be a file in a folder that exists, got {str(target)!r}")
    verification = verify(model, X, y)
    page = report_page(model, verification, policy=policy)
    staging = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        staging.write_text(page, encoding="utf-8")
        staging.replace(target)
    finally:
        staging.unlink(missing_ok=True)
    return verification


def report_page(model: RatioModel, verification: Verification, *, policy: Policy | None = None) -> str:
    """Return the page as text; the same model and rows give the same bytes."""
    rule = CostPolicy() if policy is None else policy
    classes = list(verification.classes)
    template = resources.files("obil.evaluation").joinpath("report_page.html").read_text(encoding="utf-8")
    return Template(template).substitute(
        answer=_answer(model, verification, rule),
        judgement=verification.verdict.decision.replace(" ", "-"),
        rows=_rows(model, verification),
        calibration=_calibration(model, verification, rule),
        rule=policy_text(rule) + ("" if isinstance(rule, CostPolicy) else " Costs are counted as 1 for every error."),
        points="".join(_points(model, verification, rule, k, classes) for k in _alerted(classes)),
        glossary="".join(f"<dt>{term}</dt><dd>{sentence}</dd>" for term, sentence in GLOSSARY),
        version=escaped(__version__),
    )


def _alerted(classes: Sequence[object]) -> Sequence[int]:
    """Return the numbers of the classes to alert on: the positive one of two, or each of more."""
    return [1] if len(classes) == 2 else range(len(classes))


def _answer(model: RatioModel, verification: Verification, rule: Policy) -> str:
    """Return the first section: whether the model may be used, for what, and at which threshold."""
    verdict, classes = verification.verdict, list(verification.classes)
    parts = [
        f"<h2>May I use this model? {HEADLINES[verdict.decision]}</h2>",
        f"<p><strong>{escaped(verdict.sentence)}</strong></p>{_reasons(verdict)}<p>{NEXT_STEPS[verdict.decision]}</p>",
        f"<h3>For what?</h3><p>{_use(model, verification, rule)}</p>",
    ]
    if verdict.decision != "refuse":
        points = {k: _measured(model, verification, rule, k, [float(model.prior_[k])])[0] for k in _alerted(classes)}
        texts = "".join(f"<p>{_training_text(point, classes[k])}</p>" for k, point in points.items())
        parts.append(f"<h3>At which threshold?</h3><p>{policy_text(rule)}</p>{texts}{ELSEWHERE}")
    return "".join(parts) + _figures(verdict)


def _use(model: RatioModel, verification: Verification, rule: Policy) -> str:
    """Return what the rows show the model to be good for."""
    separation, classes = verification.diagnosis.separation, verification.classes
    low, high = separation.interval
    ranking = (
        f"{name(classes[separation.lower_class])} from {name(classes[separation.upper_class])} "
        f"(AUC {separation.auc:.3f}, {low:.3f} to {high:.3f})"
    )
    if verification.verdict.decision == "refuse":
        if separation.auc < 0.5:
            return f"For nothing: it does not even tell {ranking}. Check the labels and the units of the columns."
        return f"At most to rank rows: it separates {ranking}. Its probabilities and thresholds are wrong."
    start = "If more rows confirm it: to" if verification.verdict.decision == "too few" else "To"
    if len(classes) > 2:
        return f"{start} decide at a prevalence that moves. The two closest classes are {ranking}."
    points = _measured(model, verification, rule, 1, with_training_prior(float(model.prior_[1])))
    supported = [point.prior for point in points if point.alert_rate > 0.0 and not point.is_rough]
    text = f"{start} alert on {name(classes[1])} at a prevalence that moves. "
    if not supported:
        return text + "These rows are too few to say how good the alerts are at any prevalence."
    if len(supported) == 1:
        return text + f"These rows support the figures at a prevalence of {percent(supported[0])}."
    return text + (
        f"These rows support the figures from a prevalence of {percent(supported[0])} to {percent(supported[-1])}."
    )


def _measured(
    model: RatioModel, verification: Verification, rule: Policy, k: int, priors: Sequence[float]
) -> tuple[OperatingPoint, ...]:
    """Return operating points of alerts on one class: thresholds as in service, what they do by these rows."""
    bound = rule.bind(model.holdout_, positive=k)
    rows = verification.diagnosis.holdout
    return operating_points(rows, bound, priors, costs=costs_of(rule), positive=k, rest=model.prior_)


def _reasons(verdict: Verdict) -> str:
    """Return the reasons that the verdict's own sentence leaves out."""
    more = "".join(f"<li>{escaped(reason[:1].upper() + reason[1:])}.</li>" for reason in verdict.reasons[1:])
    return f"<p>Also:</p><ul>{more}</ul>" if more else ""


def _figures(verdict: Verdict) -> str:
    figures = table(
        "What the deployment gate looked at",
        ("Figure", "Found", "Allowed", "Refused above", "Chance alone gives up to"),
        [
            [FIGURES.get(key, escaped(key))]
            + [f"{number:.3f}" for number in (figure.value, figure.allowed, figure.refused, figure.chance)]
            for key, figure in verdict.figures.items()
        ],
    )
    return (
        f"<details><summary>The figures behind it</summary>{figures}<p>A figure counts against the model only where it "
        "is above what is allowed <em>and</em> above what a perfectly calibrated model would show by chance on as many "
        "rows.</p></details>"
    )


def _rows(model: RatioModel, verification: Verification) -> str:
    holdout = verification.diagnosis.holdout
    counts = holdout.counts
    lines = [
        [name(label), f"{counts[k]:,}", percent(float(holdout.prior[k])), percent(float(model.prior_[k]))]
        for k, label in enumerate(verification.classes)
    ]
    parts = [table("Labelled rows", ("Class", "Rows", "Prevalence here", "Prevalence in training"), lines)]
    names: Sequence[object] = getattr(getattr(model, "model_", model), "feature_names", None) or ()
    if names:
        listed = ", ".join(name(column) for column in names)
        parts.append(f"<details><summary>{len(names)} columns</summary><p>{listed}</p></details>")
    return f"<p>{len(holdout.labels):,} labelled rows of {len(counts)} classes.</p>" + "".join(parts)


def _calibration(model: RatioModel, verification: Verification, rule: Policy) -> str:
    holdout, classes = verification.diagnosis.holdout, list(verification.classes)
    priors = with_training_prior(float(model.prior_[1]))
    thresholds = None
    if len(classes) == 2:
        found = rule.bind(model.holdout_).log_thresholds(np.array(priors))
        thresholds = [float(threshold) for threshold in found if np.isfinite(threshold)]
    diagnosis = diagnose(holdout, prior=model.prior_, thresholds=thresholds)
    recalibration = diagnosis.recalibration
    # figure, found, interval, ideal; and what it means
    found_here = [
        ([f"Offset of {name(label)}", *_estimate(shift), "0"], offset_text(shift))
        for label, shift in zip(classes[1:], recalibration.shifts, strict=True)
    ]
    found_here.append((["Slope", *_estimate(recalibration.slope), "1"], slope_text(recalibration.slope)))
    error = diagnosis.balanced_ece
    meaning = f"At equal class priors, probabilities are {percent(error)} away from observed rates, on average."
    found_here.append((["Calibration error", f"{error:.3f}", "n/a", "0"], meaning))
    figures = table(
        "Calibration on these rows",
        ("Figure", "Found", f"{percent(recalibration.level)} interval", "Ideal"),
        [cells for cells, _ in found_here],
    )
    meanings = "".join(f"<li>{cells[0]}: {text[0].lower()}{text[1:]}</li>" for cells, text in found_here)
    figures += f"<p>What that means for the ratio:</p><ul>{meanings}</ul>"
    even = "1/2" if len(classes) == 2 else f"1/{len(classes)}"
    plots = "".join(_pair(diagnosis, k, classes[k], even) for k in ([1] if len(classes) == 2 else range(len(classes))))
    return figures + f'<div class="plots">{plots}</div>' + _near_thresholds(diagnosis)


def _pair(diagnosis: Diagnosis, k: int, label: object, even: str) -> str:
    """Return the reliability of one class at equal class priors and at the training prior."""
    at: list[tuple[CalibrationFigures, str]] = [
        (diagnosis.balanced, f"at prior {even}, where faults show"),
        (diagnosis.own, f"at the training prior, {percent(float(diagnosis.own.prior[k]))}"),
    ]
    drawn = []
    for figures, where in at:
        bins = [row for row in figures.table if row.class_number == k]
        plot = reliability_plot(bins, diagnosis.holdout, figures.prior, f"Reliability of class {label} {where}")
        drawn.append(f"<figure>{plot}<figcaption>Class {name(label)} {where}</figcaption></figure>")
    return "".join(drawn)


def _near_thresholds(diagnosis: Diagnosis) -> str:
    if not diagnosis.thresholds:
        return ""
    lines = []
    for threshold in diagnosis.thresholds:
        near = threshold.rows
        if near is None:
            lines.append([f"{threshold.log_threshold:+.2f}", "0", "no rows support decisions there"])
            continue
        error = near.ratio_error
        bound = "too few rows to bound" if np.isinf(error) else f"up to {percent(error)}"
        lines.append([f"{threshold.log_threshold:+.2f}", f"{near.n_rows:,}", bound])
    shown = table(
        "Near the thresholds of the next section", ("Threshold", "Rows near it", "The ratio is off by"), lines
    )
    return f"<details><summary>How far the ratio can be off where decisions are made</summary>{shown}</details>"


def _points(model: RatioModel, verification: Verification, rule: Policy, k: int, classes: list[object]) -> str:
    own, label = float(model.prior_[k]), classes[k]
    priors = with_training_prior(own)
    points = _measured(model, verification, rule, k, priors)
    shown = table(
        f"Alerts on class {name(label)}",
        HEADER,
        [_point_cells(point, own) for point in points],
        marked=priors.index(own),
        css="numbers",
    )
    rough = any(point.is_rough for point in points)
    note = f"<p>* Rests on fewer than {FEW_ROWS} of these rows: rough, above all near 100 %.</p>" if rough else ""
    if not all(point.reachable for point in points):
        note += "<p>“none” marks a prior at which no threshold keeps to the rule: nothing is alerted there.</p>"
    chart = ""
    if len(classes) == 2:
        drawn = _measured(model, verification, rule, k, [float(prior) for prior in plot_priors(own)])
        plot = operating_plot(drawn, own)
        chart = f'<figure class="wide">{plot}<figcaption>{legend()}</figcaption></figure>'
    return f"<h3>Class {name(label)}</h3>{chart}{shown}{note}"


def _training_text(point: OperatingPoint, label: object) -> str:
    start = f"When {percent(point.prior)} of the rows are {name(label)}, as in training, "
    if not point.reachable:
        return f"{start}no threshold keeps to the rule, and nothing is alerted."
    if point.alert_rate == 0.0:
        return f"{start}nothing is alerted."
    if np.isneginf(point.log_threshold):
        return f"{start}every row is alerted."
    return (
        f"{start}alert above a probability of {percent(_chance(point))}. That alerts "
        f"{percent(point.alert_rate)} of the rows and finds {percent(point.sensitivity)} of the class; "
        f"{percent(point.positive_predictive_value)} of the alerts are right."
    )


def _chance(point: OperatingPoint) -> float:
    """Return a point's threshold as a probability at its prior."""
    return float(expit(point.log_threshold + logit(point.prior)))


def _point_cells(point: OperatingPoint, own: float) -> list[str]:
    threshold = "none"
    if np.isneginf(point.log_threshold):
        threshold = "alerts all"
    elif point.reachable:
        threshold = f"{point.log_threshold:+.2f} ({percent(_chance(point))})"
    rough = "*" if point.is_rough else ""
    cost = 1_000.0 * point.expected_cost
    return [
        percent(point.prior) + (" (training)" if point.prior == own else ""),
        threshold,
        percent(point.sensitivity) + ("*" if 0 < point.n_found < FEW_ROWS else ""),
        percent(point.specificity) + ("*" if point.alert_rate > 0.0 and point.n_false_alarms < FEW_ROWS else ""),
        percent(point.positive_predictive_value) + rough,
        percent(point.negative_predictive_value),
        percent(point.alert_rate),
        f"{point.f1:.3f}",
        f"{cost:,.0f}" if abs(cost) >= 100.0 else quantity(float(f"{cost:.3g}")),
    ]


def _estimate(estimate: Estimate) -> tuple[str, str]:
    low, high = estimate.interval
    return f"{estimate.value:+.2f}", f"{low:+.2f} to {high:+.2f}"
