"""Deploy on two real streams in time order, and ask whether adapting helps, and whether it ever harms.

p(x | class) drifts there as well as the prior. A model is fitted on the first part of each set and left alone on the
rest; what differs is only where the prior comes from, and how many true labels come how late.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import OrdinalEncoder

from experiments.markdown import markdown_table
from experiments.runner import Cell, Settings
from obil.arrays import FloatArray, IntArray
from obil.bayes.posterior import posteriors_at
from obil.datasets.named_set import NamedSet, load_named
from obil.errors import InvalidInputError
from obil.estimators.ratio_classifier import RatioClassifier
from obil.online.online_classifier import OnlineClassifier
from obil.trackers import Algorithm2, BayesBank, FixedPrior
from obil.trackers.tracker import CompiledTracker

WITH_DATES = ", dates kept"  # a variant of a set
DATES = ("year", "month", "day")
MEASURES = ("log_loss", "cost", "cost_5")  # cost_5: a missed positive costs five false alarms
STATIC, ORACLE, SAFE, RETRAIN = "static", "local oracle", "safe", "periodic retraining"
TRACKERS: dict[str, Callable[[], CompiledTracker | None]] = {
    STATIC: FixedPrior,
    "Algorithm 2, as printed": Algorithm2,
    "bank": BayesBank,
    SAFE: lambda: None,  # the default
}

PROTOCOL = """**Real streams in time order.** The first {train_share:.0%} of the rows fit a `RatioClassifier` (gradient
boosting, `views=True`, folds in time); the others come in time order. Every tracker gets the same log ratios and starts
at the training prior. Each figure is relative to the static model, which stays at the training prior: below 1 is a
gain, above 1 is harm. cost: each error costs 1. cost (5): a missed positive costs 5. The local oracle is told the true
prevalence of positives among the {oracle_rows:,} rows around each row. Periodic retraining fits the booster again
{retrainings} times on all labels that have come by then, the training rows included, and decides at their prior.
Gain: the fraction of the local oracle's gain in log loss. Periodic retraining is a plain booster, not calibrated.
Columns that tell the date are left out, since a date never returns; the variant with them has no bound.
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
            _data(_set_of(name))
    except InvalidInputError as error:
        return str(error)
    return None


def cells(settings: Settings) -> list[Cell]:
    """List the work: one set with no labels, or with some of them late."""
    late = [(rate, delay) for rate in settings["label_rates"] for delay in settings["label_delays"]]
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
    deployed = _deployed(cell["set"], float(settings["train_share"]), int(settings["most_rows"]))
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
    """Name the measures relative to static, and the fraction of the oracle's gain."""
    found: dict[str, float] = {}
    static = {cell["set"]: result["ways"][STATIC] for cell, result in results if cell["rate"] == 0.0}
    oracle = {cell["set"]: result["ways"][ORACLE] for cell, result in results if cell["rate"] == 0.0}
    for cell, result in results:
        name, own = cell["set"], static[cell["set"]]
        when = "" if cell["rate"] == 0.0 else f".{cell['rate']:g}.{cell['delay']}"
        for method, measures in result["ways"].items():
            for measure in MEASURES:
                found[f"{name}{when}.{method}.{measure}"] = measures[measure] / own[measure]
            gain = own["log_loss"] - oracle[name]["log_loss"]
            found[f"{name}{when}.{method}.gain"] = (own["log_loss"] - measures["log_loss"]) / gain
        if cell["rate"] == 0.0:
            found |= {f"{name}.{key}": float(result[key]) for key in ("rows", "training_prior", "prior", "alarm_row")}
            found |= {f"{name}.static_{measure}": own[measure] for measure in MEASURES}
    for name in settings["sets"]:
        worst = max(found[f"{name}.{SAFE}.{measure}"] for measure in MEASURES)
        found[f"{name}.{SAFE}.worst"] = worst
        late = settings["checked_labels"]
        found[f"{name}.{SAFE}.worst_with_labels"] = max(
            found[f"{name}.{late[0]:g}.{late[1]}.{SAFE}.{measure}"] for measure in MEASURES
        )
        found[f"{name}.{SAFE}.worst_of_all"] = max(
            worst,
            *(
                found[f"{name}.{rate:g}.{delay}.{SAFE}.{measure}"]
                for rate in settings["label_rates"]
                for delay in settings["label_delays"]
                for measure in MEASURES
            ),
        )
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    parts = [PROTOCOL.format(**settings)]
    for name in settings["sets"]:
        alarm = figures[f"{name}.alarm_row"]
        parts.append(
            f"\n## {name}\n\n{figures[f'{name}.rows']:,.0f} rows, {figures[f'{name}.prior']:.1%} positive, after "
            f"training at {figures[f'{name}.training_prior']:.1%}. Static: log loss "
            f"{figures[f'{name}.static_log_loss']:.4f}, cost {figures[f'{name}.static_cost']:.4f}, cost (5) "
            f"{figures[f'{name}.static_cost_5']:.4f}. "
            + (f"The monitor raises an alarm at row {alarm:,.0f}.\n" if alarm else "The monitor raises no alarm.\n")
        )
        rows = [_row(figures, f"{name}.{method}", method, "none") for method in (ORACLE, *list(TRACKERS)[1:])]
        for rate in settings["label_rates"]:
            for delay in settings["label_delays"]:
                labels = f"{rate:.0%}, {delay:,} rows late"
                rows.append(_row(figures, f"{name}.{rate:g}.{delay}.{SAFE}", SAFE, labels))
                if [rate, delay] in settings["retrain_at"]:
                    rows.append(_row(figures, f"{name}.{rate:g}.{delay}.{RETRAIN}", RETRAIN, labels))
        parts.append(markdown_table(["prior from", "labels", "log loss", "cost", "cost (5)", "gain"], rows))
    return "\n".join(parts)


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
    local = local_prior(deployed.labels, settings["oracle_rows"])
    at_truth = posteriors_at(deployed.log_ratios, np.stack([1.0 - local, local], axis=1))
    methods[ORACLE] = _measures(at_truth[:, 1], deployed.labels)
    return {
        "ways": methods,
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
    alerts, many_alerts = posteriors > 0.5, posteriors > 1.0 / 6.0
    return {
        "log_loss": float(-np.log(probable).mean()),
        "cost": float((alerts != positive).mean()),
        "cost_5": float(np.where(positive, 5.0 * ~many_alerts, many_alerts).mean()),
    }


def local_prior(labels: IntArray, window: int) -> FloatArray:
    """Return the prevalence of positives among the rows around each row, (n,), kept off 0 and 1."""
    sums = np.concatenate([[0], np.cumsum(labels)])
    rows = np.arange(len(labels))
    low, high = np.maximum(rows - window // 2, 0), np.minimum(rows + window // 2, len(labels))
    return np.asarray(np.clip((sums[high] - sums[low]) / (high - low), 1e-4, 1.0 - 1e-4))


@lru_cache(maxsize=1)
def _deployed(name: str, train_size: float, most_rows: int) -> Deployed:
    data = _data(_set_of(name))
    dates = [] if name.endswith(WITH_DATES) else [column for column in DATES if column in data.features]
    n_rows = min(len(data.labels), most_rows)
    n_train = int(n_rows * train_size)
    features, labels = data.features.iloc[:n_rows].drop(columns=dates), data.labels[:n_rows].astype(np.int64)
    text = list(data.categorical)
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    encoder.fit(features[text].iloc[:n_train].astype(str))
    codes = encoder.transform(features[text].astype(str))
    rows = np.column_stack([features.drop(columns=text).to_numpy(dtype=np.float64), codes])
    classifier = RatioClassifier(views=True, random_state=0)
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


def _set_of(name: str) -> str:
    return name.removesuffix(WITH_DATES)


@lru_cache(maxsize=2)
def _data(name: str) -> NamedSet:
    return load_named(name)
