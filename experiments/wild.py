"""Deploy on fifteen real streams in time order, and ask whether adapting helps, and whether it ever harms.

p(x | class) drifts there as well as the prior. A model is fitted on the first part of each set and left alone on the
rest; what differs is only where the prior comes from, and how many true labels come how late.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from experiments.runner import Cell, Settings
from experiments.wild_diagnosis import diagnosis
from experiments.wild_page import plots, table, when
from experiments.wild_streams import Deployed, deployed, stream_data, with_jump
from obil.arrays import FloatArray, IntArray
from obil.bayes.costs import Costs
from obil.bayes.local_prior import local_priors
from obil.bayes.posterior import posteriors_at
from obil.errors import InvalidInputError
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.outcome_tally import MEMORY
from obil.trackers import Algorithm2, BayesBank, FixedPrior, SafeTracker
from obil.trackers.label_experts import start_weights
from obil.trackers.tracker import CompiledTracker
from obil.trackers.view_reference import ERRORS_ALLOWED, ViewReference

__all__ = ["cells", "figures", "missing", "plots", "run", "table"]

# cost_5: a missed positive costs five false alarms; cost_1_5: a false alarm costs five missed positives
MEASURES = ("log_loss", "cost", "cost_5", "cost_1_5")
STATIC, ORACLE, SAFE, RETRAIN = "static", "local oracle", "safe", "periodic retraining"
QUANTITIES = ("precision", "recall", "cost")  # of the label-free performance
TRACKERS: dict[str, Callable[[], CompiledTracker]] = {
    STATIC: FixedPrior,
    "Algorithm 2, as printed": Algorithm2,
    "bank": BayesBank,
    SAFE: SafeTracker,  # the default, which `OnlineClassifier` makes for a model
}


def missing(settings: Settings) -> str | None:
    """Return why this experiment cannot run here, or None."""
    try:
        for name in settings["sets"]:
            stream_data(name)
    except InvalidInputError as error:
        return str(error)
    return None


def cells(settings: Settings) -> list[Cell]:
    """List the work: a set without labels, with some of them late, and shuffled, so that nothing moves."""
    return [
        cell
        for name in settings["sets"]
        for cell in (
            {"set": name, "rate": 0.0, "delay": 0},
            *({"set": name, "rate": rate, "delay": delay} for rate, delay in settings["labels"]),
            {"set": name, "shuffled": True},
        )
    ]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Decide the stream of one set by every method that uses these labels; return the measures of each."""
    most_rows = int(settings["most_rows"])
    if cell.get("shuffled"):
        most_rows = min(most_rows, int(settings["shuffled_rows"]))
        return _shuffled(deployed(cell["set"], most_rows, shuffled=True, seed=settings["seed"]), settings)
    stream = deployed(cell["set"], most_rows)
    rate, delay = float(cell["rate"]), int(cell["delay"])
    if rate == 0.0:
        return _without_labels(stream, settings)
    asked = np.flatnonzero(np.random.default_rng(settings["seed"]).random(len(stream.labels)) < rate)
    online = OnlineClassifier(stream.classifier)
    methods = {SAFE: _measures(_with_labels(online, stream, asked, rate, delay), stream.labels)}
    unadapted = {}
    if [rate, delay] in settings["retrain_at"]:
        retrained = _retrained(stream, asked, delay, settings["retrainings"])
        methods[RETRAIN] = _measures(retrained, stream.labels)
        for weight in settings["unadapted"]:
            tracker = SafeTracker.for_model(
                stream.classifier.model_, start_weights=start_weights(weight, sees_inputs=True)
            )
            posteriors = _with_labels(OnlineClassifier(stream.classifier, tracker=tracker), stream, asked, rate, delay)
            unadapted[f"{weight:g}"] = _measures(posteriors, stream.labels)["log_loss"]
    return {
        "ways": methods,
        "unadapted": unadapted,
        "labels": len(asked),
        "label_counts_unknown": online.label_counts.unknown,
    }


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the measures relative to static, the fraction of the oracle's gain, and the means over all streams."""
    found: dict[str, float] = {}
    unlabelled = {cell["set"]: result for cell, result in results if cell.get("rate") == 0.0}
    for cell, result in results:
        name = cell["set"]
        if cell.get("shuffled"):
            found |= {f"{name}.shuffled.{key}": value for key, value in result.items()}
            continue
        static, oracle = (unlabelled[name]["ways"][method] for method in (STATIC, ORACLE))
        for method, measures in result["ways"].items():
            key = f"{name}{when(cell['rate'], cell['delay'])}.{method}"
            found |= {f"{key}.{measure}": measures[measure] / static[measure] for measure in MEASURES}
            gain = static["log_loss"] - oracle["log_loss"]
            found[f"{key}.gain"] = (static["log_loss"] - measures["log_loss"]) / gain
        if cell["rate"] == 0.0:
            found |= {f"{name}.{key}": float(result[key]) for key in ("rows", "training_prior", "prior", "alarm_row")}
            found |= {f"{name}.static_{measure}": static[measure] for measure in MEASURES}
            found |= {f"{name}.{key}": value for key, value in result["diagnosis"].items()}
            found |= {f"{name}.performance.{key}": value for key, value in result["performance"].items()}
    by_factor = _relative({name: result["factors"] for name, result in unlabelled.items()}, unlabelled)
    found |= _left_out("left_out", "factor", by_factor, settings["most_harm"])
    labelled = {cell["set"]: result["unadapted"] for cell, result in results if result.get("unadapted")}
    by_weight = _relative(labelled, unlabelled)
    found |= _left_out("labels_left_out", "unadapted", by_weight, settings["most_harm_with_labels"])
    for key in (SAFE, *(f"{when(*late)[1:]}.{SAFE}" for late in settings["labels"])):
        for measure in MEASURES:
            found |= _over_all(f"all.{key}.{measure}", [found[f"{name}.{key}.{measure}"] for name in unlabelled])
    return found | _pooled(found, list(unlabelled), settings)


def _pooled(found: dict[str, float], names: list[str], settings: Settings) -> dict[str, float]:
    """Return the figures over all streams of recalibration, of shuffled copies and of the label-free performance."""
    pooled: dict[str, float] = {}
    for rate, delay in settings["retrain_at"]:
        parts = {
            name: (1.0 - found[f"{name}{when(rate, delay)}.{SAFE}.log_loss"]) / (1.0 - found[f"{name}.hindsight"])
            for name in names
            if found[f"{name}.hindsight"] <= 0.95  # recalibrating in hindsight would have gained 5 % or more
        }
        pooled |= {f"{name}.recalibrated": part for name, part in parts.items()}
        if parts:
            pooled["all.recalibrated.least"] = min(parts.values())
    pooled["all.shuffled.worst"] = max(found[f"{name}.shuffled.log_loss"] for name in names)
    gains = [found[key] for name in names if (key := f"{name}.shuffled.jump_gain") in found]
    if gains:
        pooled |= {"all.jump.least": min(gains), "all.jump.followed": sum(gain >= 0.9 for gain in gains) / len(gains)}
    for quantity in QUANTITIES:
        n = np.array([found[f"{name}.performance.{quantity}.windows"] for name in names])
        answered = np.array([found[f"{name}.performance.{quantity}.answered"] for name in names])
        held = np.array([found[f"{name}.performance.{quantity}.held"] for name in names])
        key = f"all.performance.{quantity}"
        pooled[f"{key}.held"] = float(held.sum() / answered.sum())
        # streams have 3 to 1,013 windows: the mean over streams counts each the same
        own = held[answered > 0] / answered[answered > 0]
        pooled[f"{key}.held_by_stream"] = float(own.mean())
        pooled[f"{key}.unknown"] = float(np.mean(1.0 - answered[n > 0] / n[n > 0]))
    return pooled


def _over_all(key: str, ratios: list[float]) -> dict[str, float]:
    return {f"{key}.mean": float(np.exp(np.mean(np.log(ratios)))), f"{key}.worst": max(ratios)}


def _relative(
    losses: dict[str, dict[str, float]], unlabelled: dict[str, dict[str, Any]]
) -> dict[str, dict[str, float]]:
    """Return the log losses of candidates for each stream, relative to static."""
    return {
        name: {candidate: loss / unlabelled[name]["ways"][STATIC]["log_loss"] for candidate, loss in own.items()}
        for name, own in losses.items()
    }


def _left_out(key: str, setting: str, losses: dict[str, dict[str, float]], most_harm: float) -> dict[str, float]:
    """Return what the other streams choose for each stream, and its log loss there."""
    found: dict[str, float] = {}
    for name, chosen in _chosen_without(losses, most_harm).items():
        found[f"{name}.{key}.{setting}"], found[f"{name}.{key}.log_loss"] = float(chosen), losses[name][chosen]
    own = [found[f"{name}.{key}.log_loss"] for name in losses]
    return found | (_over_all(f"all.{key}.log_loss", own) if own else {})


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


def _without_labels(stream: Deployed, settings: Settings) -> dict[str, Any]:
    methods: dict[str, dict[str, float]] = {}
    for method, build in TRACKERS.items():
        if method != SAFE:
            priors = _started(build, stream).update_many(stream.log_ratios, evidence=stream.evidence)
            methods[method] = _measures(posteriors_at(stream.log_ratios, priors)[:, 1], stream.labels)
    online = OnlineClassifier(stream.classifier, costs=Costs(false_positive=1.0, false_negative=1.0), horizon=0)
    posteriors, performance = _in_windows(online, stream, int(settings["performance_rows"]))
    methods[SAFE] = _measures(posteriors, stream.labels)
    local = local_priors(stream.labels, n_classes=2, window=settings["oracle_rows"])
    methods[ORACLE] = _measures(posteriors_at(stream.log_ratios, local)[:, 1], stream.labels)
    known = ViewReference.of_model(stream.classifier.model_)
    factors = {}
    for factor in settings["factors"]:
        at_factor = replace(known, error=known.error * factor / ERRORS_ALLOWED)
        tracker = SafeTracker(stream.classifier.prior_, view_reference=at_factor)
        priors = tracker.update_many(stream.log_ratios, evidence=stream.evidence)
        posteriors = posteriors_at(stream.log_ratios, priors)[:, 1]
        factors[f"{factor:g}"] = _measures(posteriors, stream.labels)["log_loss"]
    return {
        "ways": methods,
        "factors": factors,
        "rows": len(stream.labels),
        "training_prior": float(stream.classifier.prior_[1]),
        "prior": float(stream.labels.mean()),
        "alarm_row": (online.monitor.alarm_row if online.monitor is not None else None) or 0,
        "performance": performance,
        "diagnosis": diagnosis(stream, seed=settings["seed"]),
    }


def _started(build: Callable[[], CompiledTracker], stream: Deployed) -> CompiledTracker:
    return build().start(stream.classifier.prior_)


def _in_windows(online: OnlineClassifier, stream: Deployed, n_rows: int) -> tuple[FloatArray, dict[str, float]]:
    """Decide a stream, and ask for its performance after each window of n rows.

    Returns P(positive) of each row, (n,), and of each quantity how many windows have a true value, in how many of them
    an interval was given and not "unknown", and how many of those hold the truth.
    """
    posteriors, kept = np.empty(len(stream.labels)), 1.0 - 1.0 / MEMORY
    found = {f"{quantity}.{what}": 0.0 for quantity in QUANTITIES for what in ("windows", "answered", "held")}
    masses, total = np.zeros(4), 0.0  # hits, false alarms, misses and all rows, each row counted as the tally does
    for first in range(0, len(stream.labels), n_rows):
        part = slice(first, first + n_rows)
        decisions = online.decide_log_ratios(stream.log_ratios[part], evidence=stream.evidence[part])
        posteriors[part] = decisions.posteriors[:, 1]
        alerts, positive = decisions.labels == 1, stream.labels[part] == 1
        ages = kept ** np.arange(len(alerts))[::-1]
        counted = [ages[chosen].sum() for chosen in (alerts & positive, alerts & ~positive, ~alerts & positive)]
        masses = masses * kept ** len(alerts) + np.array([*counted, 0.0])
        total = total * kept ** len(alerts) + ages.sum()
        hits, false_alarms, misses, _ = masses
        truths = {
            "precision": hits / (hits + false_alarms) if hits + false_alarms else np.nan,
            "recall": hits / (hits + misses) if hits + misses else np.nan,
            "cost": (false_alarms + misses) / total,
        }
        window = online.performance().window
        for quantity, truth in truths.items():
            estimate = getattr(window, quantity)
            if np.isfinite(truth):
                answered = estimate.source != "unknown"
                found[f"{quantity}.windows"] += 1.0
                found[f"{quantity}.answered"] += answered
                found[f"{quantity}.held"] += answered and estimate.low <= truth <= estimate.high
    return posteriors, found


def _shuffled(stream: Deployed, settings: Settings) -> dict[str, Any]:
    """Track a stream in random order, where nothing moves, and one whose prior jumps after some rows."""
    quiet_rows, start = int(settings["quiet_rows"]), stream.classifier.prior_
    tracker = SafeTracker.for_model(stream.classifier.model_).start(start)
    priors = tracker.update_many(stream.log_ratios, evidence=stream.evidence)

    def loss(prior: FloatArray, rows: IntArray) -> float:
        posteriors = posteriors_at(stream.log_ratios[rows], np.broadcast_to(prior, (len(rows), 2)))
        return _measures(posteriors[:, 1], stream.labels[rows])["log_loss"]

    every = np.arange(len(stream.labels))
    rows = with_jump(stream.labels, quiet_rows=quiet_rows, prior=float(start[1]), seed=settings["seed"])
    again = SafeTracker.for_model(stream.classifier.model_).start(start)
    jumped = again.update_many(stream.log_ratios[rows], evidence=stream.evidence[rows])
    found = {"log_loss": loss(priors, every) / loss(start, every)}
    after = slice(2 * quiet_rows, None)  # as many rows after the jump as were quiet before it
    late = rows[after]
    if len(late) < int(settings["least_jump_rows"]):  # too short for a jump
        return found
    true = stream.labels[late].mean()
    static, safe, oracle = (loss(prior, late) for prior in (start, jumped[after], np.array([1.0 - true, true])))
    return found | {"jump_gain": (static - safe) / (static - oracle), "jump_oracle": oracle / static}


def _with_labels(online: OnlineClassifier, stream: Deployed, asked: IntArray, rate: float, delay: int) -> FloatArray:
    """Return P(positive) as it was decided, where the labels of the rows `asked` for come `delay` rows later."""
    n_rows = len(stream.labels)
    posteriors = np.empty(n_rows)
    names = stream.classifier.classes_
    start = 0
    for row in [*asked.tolist(), None]:
        stop = n_rows if row is None else min(row + 1 + delay, n_rows)
        if stop > start:
            part = slice(start, stop)
            decisions = online.decide_log_ratios(stream.log_ratios[part], evidence=stream.evidence[part])
            posteriors[start:stop] = decisions.posteriors[:, 1]
            start = stop
        if row is not None and row + delay < n_rows:
            online.feedback(row, names[stream.labels[row]], propensity=rate)
    return posteriors


def _retrained(stream: Deployed, asked: IntArray, delay: int, times: int) -> FloatArray:
    """Return P(positive) of a booster that is fitted again now and then on every label that has come."""
    n_rows = len(stream.labels)
    posteriors = np.empty(n_rows)
    for start, stop in zip(*_cuts(n_rows, times), strict=True):
        known = asked[asked + delay < start]
        rows = np.concatenate([stream.training_rows, stream.rows[known]])
        labels = np.concatenate([stream.training_labels, stream.labels[known]])
        booster = HistGradientBoostingClassifier(random_state=0).fit(rows, labels)
        posteriors[start:stop] = booster.predict_proba(stream.rows[start:stop])[:, 1]
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
