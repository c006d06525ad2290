"""Deploy on fifteen real streams in time order, and ask whether adapting helps, and whether it ever harms.

p(x | class) drifts there as well as the prior. A model is fitted on the first part of each set and left alone on the
rest; what differs is only where the prior comes from, and how many true labels come how late.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import OrdinalEncoder

from experiments.markdown import markdown_table
from experiments.runner import Cell, Settings
from obil.arrays import FloatArray, IntArray
from obil.bayes.local_prior import local_priors
from obil.bayes.posterior import posteriors_at
from obil.datasets.named_set import NamedSet, load_named
from obil.errors import InvalidInputError
from obil.estimators.ratio_classifier import RatioClassifier
from obil.online.online_classifier import OnlineClassifier
from obil.trackers import Algorithm2, BayesBank, FixedPrior, SafeTracker
from obil.trackers.tracker import CompiledTracker
from obil.trackers.view_reference import ERRORS_ALLOWED, ViewReference

DATES = ("year", "month", "day")  # left out: a date never returns
# cost_5: a missed positive costs five false alarms; cost_1_5: a false alarm costs five missed positives
MEASURES = ("log_loss", "cost", "cost_5", "cost_1_5")
STATIC, ORACLE, SAFE, RETRAIN = "static", "local oracle", "safe", "periodic retraining"
TRACKERS: dict[str, Callable[[], CompiledTracker | None]] = {
    STATIC: FixedPrior,
    "Algorithm 2, as printed": Algorithm2,
    "bank": BayesBank,
    SAFE: lambda: None,  # the default
}

PROTOCOL = """**Real streams in time order.** The first quarter to two fifths of the rows fit a `RatioClassifier`
(gradient boosting, folds in time); the others come in time order. Every tracker gets the same log ratios and starts
at the training prior. Each figure is relative to the static model, which stays at the training prior: below 1 is a
gain, above 1 is harm. cost: each error costs 1. cost (5): a missed positive costs 5. cost (1:5): a false alarm costs 5.
The local oracle is told the true prevalence among the {oracle_rows:,} rows around each row, the row itself left out.
Periodic retraining fits a plain booster again {retrainings} times on all labels that have come by then, the training
rows included, and decides at their prior. Gain: the fraction of the local oracle's gain in log loss.

These streams are a development set. The factor by which past errors are allowed for ({factor:g}, in
[safety](../safety.md)) was chosen among {factors} by leaving one stream out: the least geometric mean of the log loss
among the factors with which no other stream exceeds {most_harm:g}. The row "left out" shows each stream at the factor
that the fourteen others choose.
"""


class Deployed(NamedTuple):
    """A fitted model and the stream it is deployed on."""

    classifier: RatioClassifier
    log_ratios: FloatArray  # (n, 2)
    evidence: FloatArray  # (n, 1 + V, 2)
    rows: FloatArray  # (n, d)
    labels: IntArray  # (n,)
    training_rows: FloatArray
    training_labels: IntArray


def missing(settings: Settings) -> str | None:
    """Return why this experiment cannot run here, or None."""
    try:
        for name in settings["sets"]:
            _data(name)
    except InvalidInputError as error:
        return str(error)
    return None


def cells(settings: Settings) -> list[Cell]:
    """List the work: one set with no labels, or with some of them late."""
    late = settings["labels"]
    return [
        cell
        for name in settings["sets"]
        for cell in (
            {"set": name, "rate": 0.0, "delay": 0},
            *({"set": name, "rate": rate, "delay": delay} for rate, delay in late),
        )
    ]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Decide the stream of one set by every method that uses these labels; return the measures of each."""
    deployed = _deployed(cell["set"], int(settings["most_rows"]))
    rate, delay = float(cell["rate"]), int(cell["delay"])
    if rate == 0.0:
        return _without_labels(deployed, settings)
    asked = np.random.default_rng(settings["seed"]).random(len(deployed.labels)) < rate
    online = OnlineClassifier(deployed.classifier)
    posteriors = _with_labels(online, deployed, np.flatnonzero(asked), rate, delay)
    methods = {SAFE: _measures(posteriors, deployed.labels)}
    if [rate, delay] in settings["retrain_at"]:
        retrained = _retrained(deployed, np.flatnonzero(asked), delay, settings["retrainings"])
        methods[RETRAIN] = _measures(retrained, deployed.labels)
    return {"ways": methods, "labels": int(asked.sum()), "label_counts_unknown": online.label_counts.unknown}


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the measures relative to static, the fraction of the oracle's gain, and the means over all streams."""
    found: dict[str, float] = {}
    unlabelled = {cell["set"]: result for cell, result in results if cell["rate"] == 0.0}
    for cell, result in results:
        name = cell["set"]
        static, oracle = (unlabelled[name]["ways"][method] for method in (STATIC, ORACLE))
        for method, measures in result["ways"].items():
            key = f"{name}{_when(cell['rate'], cell['delay'])}.{method}"
            found |= {f"{key}.{measure}": measures[measure] / static[measure] for measure in MEASURES}
            gain = static["log_loss"] - oracle["log_loss"]
            found[f"{key}.gain"] = (static["log_loss"] - measures["log_loss"]) / gain
        if cell["rate"] == 0.0:
            found |= {f"{name}.{key}": float(result[key]) for key in ("rows", "training_prior", "prior", "alarm_row")}
            found |= {f"{name}.static_{measure}": static[measure] for measure in MEASURES}
    by_factor = {
        name: {factor: loss / result["ways"][STATIC]["log_loss"] for factor, loss in result["factors"].items()}
        for name, result in unlabelled.items()
    }
    for name, factor in _chosen_without(by_factor, settings["most_harm"]).items():
        found[f"{name}.left_out.factor"], found[f"{name}.left_out.log_loss"] = float(factor), by_factor[name][factor]
    for key in (SAFE, *(f"{_when(*late)[1:]}.{SAFE}" for late in settings["labels"])):
        for measure in MEASURES:
            found |= _over_all(f"all.{key}.{measure}", [found[f"{name}.{key}.{measure}"] for name in unlabelled])
    found |= _over_all("all.left_out.log_loss", [found[f"{name}.left_out.log_loss"] for name in unlabelled])
    return found


def _when(rate: float, delay: int) -> str:
    return "" if rate == 0.0 else f".{rate:g}.{delay}"


def _over_all(key: str, ratios: list[float]) -> dict[str, float]:
    return {f"{key}.mean": float(np.exp(np.mean(np.log(ratios)))), f"{key}.worst": max(ratios)}


def _chosen_without(by_factor: dict[str, dict[str, float]], most_harm: float) -> dict[str, str]:
    """Return the factor that the other streams choose for each: the least mean among those that harm none of them."""
    chosen = {}
    for left_out, own in by_factor.items():
        others = [losses for name, losses in by_factor.items() if name != left_out]
        means = {
            factor: float(np.mean(np.log([losses[factor] for losses in others])))
            for factor in own
            if max(losses[factor] for losses in others) <= most_harm
        }
        chosen[left_out] = min(means, key=means.__getitem__) if means else list(own)[-1]
    return chosen


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    parts = [PROTOCOL.format(**settings, factor=ERRORS_ALLOWED)]
    late = [(0.0, 0), *settings["labels"]]
    rows = []
    for rate, delay in late:
        key = f"all{_when(rate, delay)}.{SAFE}"
        shown = [f"{figures[f'{key}.{m}.mean']:.4f} / {figures[f'{key}.{m}.worst']:.4f}" for m in MEASURES]
        rows.append([SAFE, _labels(rate, delay), *shown])
    left_out = [f"{figures[f'all.left_out.log_loss.{of}']:.4f}" for of in ("mean", "worst")]
    rows.append(["left out", "none", " / ".join(left_out), "", "", ""])
    head = ["log loss", "cost", "cost (5)", "cost (1:5)"]
    parts.append("\n## All streams: geometric mean / worst\n\n" + markdown_table(["prior from", "labels", *head], rows))
    for name in settings["sets"]:
        alarm = figures[f"{name}.alarm_row"]
        parts.append(
            f"\n## {name}\n\n{figures[f'{name}.rows']:,.0f} rows, {figures[f'{name}.prior']:.1%} positive, after "
            f"training at {figures[f'{name}.training_prior']:.1%}. Static: log loss "
            f"{figures[f'{name}.static_log_loss']:.4f}. The others choose the factor "
            f"{figures[f'{name}.left_out.factor']:g}. "
            + (f"The monitor raises an alarm at row {alarm:,.0f}.\n" if alarm else "The monitor raises no alarm.\n")
        )
        rows = [_row(figures, f"{name}.{method}", method, "none") for method in (ORACLE, *list(TRACKERS)[1:])]
        for rate, delay in settings["labels"]:
            key = f"{name}{_when(rate, delay)}"
            rows.append(_row(figures, f"{key}.{SAFE}", SAFE, _labels(rate, delay)))
            if [rate, delay] in settings["retrain_at"]:
                rows.append(_row(figures, f"{key}.{RETRAIN}", RETRAIN, _labels(rate, delay)))
        parts.append(markdown_table(["prior from", "labels", *head, "gain"], rows))
    return "\n".join(parts)


def _labels(rate: float, delay: int) -> str:
    return "none" if rate == 0.0 else f"{rate:.0%}, {delay:,} rows late"


def _row(figures: dict[str, float], key: str, method: str, labels: str) -> list[str]:
    return [method, labels, *(f"{figures[f'{key}.{m}']:.4f}" for m in MEASURES), f"{figures[f'{key}.gain']:.0%}"]


def _without_labels(deployed: Deployed, settings: Settings) -> dict[str, Any]:
    methods: dict[str, dict[str, float]] = {}
    alarm_row: int | None = None
    for method, build in TRACKERS.items():
        online = OnlineClassifier(deployed.classifier, tracker=build(), monitor=method == SAFE, horizon=0)
        decisions = online.decide_log_ratios(deployed.log_ratios, evidence=deployed.evidence)
        methods[method] = _measures(decisions.posteriors[:, 1], deployed.labels)
        alarm_row = online.monitor.alarm_row if online.monitor is not None else None
    local = local_priors(deployed.labels, n_classes=2, window=settings["oracle_rows"])
    methods[ORACLE] = _measures(posteriors_at(deployed.log_ratios, local)[:, 1], deployed.labels)
    known = ViewReference.of_model(deployed.classifier.model_)
    factors = {}
    for factor in settings["factors"]:
        at_factor = replace(known, error=known.error * factor / ERRORS_ALLOWED)
        tracker = SafeTracker(deployed.classifier.prior_, view_reference=at_factor)
        priors = tracker.update_many(deployed.log_ratios, evidence=deployed.evidence)
        posteriors = posteriors_at(deployed.log_ratios, priors)[:, 1]
        factors[f"{factor:g}"] = _measures(posteriors, deployed.labels)["log_loss"]
    return {
        "ways": methods,
        "factors": factors,
        "rows": len(deployed.labels),
        "training_prior": float(deployed.classifier.prior_[1]),
        "prior": float(deployed.labels.mean()),
        "alarm_row": alarm_row or 0,
    }


def _with_labels(online: OnlineClassifier, deployed: Deployed, asked: IntArray, rate: float, delay: int) -> FloatArray:
    """Return P(positive) as it was decided, where the labels of the rows `asked` for come `delay` rows later."""
    n_rows = len(deployed.labels)
    posteriors = np.empty(n_rows)
    names = deployed.classifier.classes_
    start = 0
    for row in [*asked.tolist(), None]:
        stop = n_rows if row is None else min(row + 1 + delay, n_rows)
        if stop > start:
            part = slice(start, stop)
            decisions = online.decide_log_ratios(deployed.log_ratios[part], evidence=deployed.evidence[part])
            posteriors[start:stop] = decisions.posteriors[:, 1]
            start = stop
        if row is not None and row + delay < n_rows:
            online.feedback(row, names[deployed.labels[row]], propensity=rate)
    return posteriors


def _retrained(deployed: Deployed, asked: IntArray, delay: int, times: int) -> FloatArray:
    """Return P(positive) of a booster that is fitted again now and then on every label that has come."""
    n_rows = len(deployed.labels)
    posteriors = np.empty(n_rows)
    for start, stop in zip(*_cuts(n_rows, times), strict=True):
        known = asked[asked + delay < start]
        rows = np.concatenate([deployed.training_rows, deployed.rows[known]])
        labels = np.concatenate([deployed.training_labels, deployed.labels[known]])
        booster = HistGradientBoostingClassifier(random_state=0).fit(rows, labels)
        posteriors[start:stop] = booster.predict_proba(deployed.rows[start:stop])[:, 1]
    return posteriors


def _cuts(n_rows: int, times: int) -> tuple[list[int], list[int]]:
    edges = np.linspace(0, n_rows, times + 1).astype(int).tolist()
    return edges[:-1], edges[1:]


def _measures(posteriors: FloatArray, labels: IntArray) -> dict[str, float]:
    positive = labels == 1
    probable = np.clip(np.where(positive, posteriors, 1.0 - posteriors), 1e-12, 1.0)
    alerts, many_alerts, few_alerts = posteriors > 0.5, posteriors > 1.0 / 6.0, posteriors > 5.0 / 6.0
    return {
        "log_loss": float(-np.log(probable).mean()),
        "cost": float((alerts != positive).mean()),
        "cost_5": float(np.where(positive, 5.0 * ~many_alerts, many_alerts).mean()),
        "cost_1_5": float(np.where(positive, ~few_alerts, 5.0 * few_alerts).mean()),
    }


@lru_cache(maxsize=1)
def _deployed(name: str, most_rows: int) -> Deployed:
    data = _data(name)
    dates = [column for column in DATES if column in data.features]
    n_rows = min(len(data.labels), most_rows)
    n_train = int(n_rows * (data.train_size or 0.5))
    features, labels = data.features.iloc[:n_rows].drop(columns=dates), data.labels[:n_rows].astype(np.int64)
    text = list(data.categorical)
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    encoder.fit(features[text].iloc[:n_train].astype(str))
    codes = encoder.transform(features[text].astype(str))
    rows = np.column_stack([features.drop(columns=text).to_numpy(dtype=np.float64), codes])
    classifier = RatioClassifier(random_state=0)
    classifier.fit(rows[:n_train], labels[:n_train], time=np.arange(n_train))
    model = classifier.model_
    log_ratios, evidence, n_scored = [], [], 0
    for part in np.array_split(rows[n_train:], max(1, n_rows // 200_000)):
        scores = model.score(part)
        log_ratios.append(scores.log_ratios)
        evidence.append(scores.evidence_from(n_scored))
        n_scored += len(part)
    return Deployed(
        classifier=classifier,
        log_ratios=np.concatenate(log_ratios),
        evidence=np.concatenate(evidence),
        rows=rows[n_train:],
        labels=labels[n_train:],
        training_rows=rows[:n_train],
        training_labels=labels[:n_train],
    )


@lru_cache(maxsize=2)
def _data(name: str) -> NamedSet:
    return load_named(name)
