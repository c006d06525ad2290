"""Measure the safe tracker, the monitor, label-free performance and biased labels where the truth is known."""

from typing import Any

import numpy as np

from experiments.gaussian_pair import GaussianPair
from experiments.markdown import markdown_table
from experiments.runner import Cell, Settings
from experiments.scenarios import SCENARIOS, SIX
from obil.arrays import FloatArray, IntArray
from obil.bayes.costs import Costs
from obil.calibration.block_tolerance import LEAST as BLOCK_TOLERANCE
from obil.datasets.gaussian_stream import GaussianClasses, Stream
from obil.estimators.ratio_classifier import RatioClassifier
from obil.monitor import LabelShiftMonitor
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.outcome_tally import MEMORY
from obil.policies import CostPolicy
from obil.serving.calibrators import LinearCalibrator
from obil.serving.holdout import Holdout
from obil.serving.ratio_model import RatioModel, View
from obil.serving.scorers import ColumnScorer
from obil.trackers import BayesBank, SafeTracker
from obil.trackers.bayes_bank import SLOW_MEMORIES, SLOW_START_ROWS
from obil.trackers.view_guard import BLOCK_ROWS, QUIET_BLOCKS
from obil.trackers.view_reference import ViewReference

PROBATION = BLOCK_ROWS * QUIET_BLOCKS  # rows
SLOW_ROWS = 1_500.0  # pseudo-rows at the training prior of the slow bank that the safe tracker is held against
QUANTITIES = ("precision", "recall", "cost")
PREVALENCE_STEP = 20  # rows after which the estimated prevalence is read again
LEAST_ANSWERED = 0.5  # fraction of the streams in which a figure must be known for its bias to be held to the bound

SCENARIO_TEXT = """**Label shift only, no labels.** {n_features} normal features, {separation:g} standard deviations
apart in all; the exact ratios of four halves of the features are the views. Expected excess cost over the oracle in
percent, {seeds} seeds, before and after the probation of {probation:,} rows; the slow bank has {slow_rows:,.0f}
pseudo-rows at the start prior, the one inside the safe tracker {own_rows:,.0f} ("unguarded").
"""
PREVALENCE_TEXT = """**The estimated prevalence with labels.** The same streams, {prevalence_seeds} seeds, with
{prevalence_rate:.0%} of the labels {prevalence_delay:,} rows late: mean absolute error of `tracker.prior`, read every
{PREVALENCE_STEP} rows, without labels and with them.
"""
JUMP_TEXT = """**A jump after {quiet_rows:,} quiet rows, no labels.** The same features and views. Rows after the jump
until the estimated prior is within 20 % of the new one, median of {jump_seeds} seeds.
"""
MONITOR_TEXT = """**The monitor.** {null_streams:,} streams of {n_rows:,} rows over six prior paths, {negatives:,}
held-out negatives and {positives} positives drawn afresh each time, separation {monitor_separation:g}: {alarms:.0f} of
them ever alarm. Rows until a change is found, from the first row on, at prior {power_prior:g}. An `OnlineClassifier`
grants no tolerance either, unless the folds of its model were blocks of time or groups: then it grants at least
{block_tolerance:g}, and finds changes later:
"""
PERFORMANCE_TEXT = """**Performance without labels.** A distorted score with an affine calibrator fitted on
{negatives:,} held-out negatives and {positives} positives, the prior of the bank, or of the safe tracker without views
or labels (which is slow, and starts far from the rare priors), after {performance_rows:,} rows;
{performance_streams} streams a prior. Each cell: the mean error, the mean size of one stream's error, and how often
the 90 % interval holds the truth, in the streams where the figure is not "unknown" (in brackets: what fraction).
With few alerts a single stream's precision is uncertain, and the interval says so.
"naive" is the precision that the posteriors at the training prior promise.
"""
BIASED_TEXT = """**Biased labels.** Every alert is labelled, and {biased_rate:.0%} of the rest: the prior by labels
alone is off by {bias:+.5f} on average over {biased_streams} streams ({errors:+.2f} standard errors), where counting
labels without their propensity is off by {naive_bias:+.3f}.
"""


def cells(settings: Settings) -> list[Cell]:
    """List the work: scenarios by seed, streams of the monitor, priors of the performance, biased labels."""
    work: list[Cell] = [
        {"part": "scenario", "scenario": scenario, "seed": seed}
        for scenario in SIX
        for seed in range(settings["seeds"])
    ]
    work += [
        {"part": "jump", "separation": separation, "before": before, "after": after}
        for separation in settings["jump_separations"]
        for before, after in settings["jumps"]
    ]
    work += [{"part": "prevalence", "scenario": scenario} for scenario in SIX]
    work += [{"part": "null", "batch": batch} for batch in range(settings["null_streams"] // len(SIX))]
    work += [{"part": "power", "change": change} for change in settings["changes"]]
    work += [
        {"part": "performance", "prior": prior, "tracker": tracker}
        for prior in settings["performance_priors"]
        for tracker in ("bank", "safe")
    ]
    return [*work, {"part": "biased"}]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Do one part."""
    parts = {
        "scenario": _scenario,
        "jump": _jump,
        "prevalence": _prevalence,
        "null": _null,
        "power": _power,
        "performance": _performance,
        "biased": _biased,
    }
    return parts[cell["part"]](cell, settings)


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the means over seeds and streams."""
    found: dict[str, float] = {}

    def of(part: str, **wanted: Any) -> list[dict[str, Any]]:
        return [r for cell, r in results if cell["part"] == part and wanted.items() <= cell.items()]

    for scenario in SIX:
        own = of("scenario", scenario=scenario)
        for key in own[0]:
            found[f"excess.{scenario}.{key}"] = float(np.mean([result[key] for result in own]))
    found["excess.after.worst"] = max(found[f"excess.{s}.safe.after"] - found[f"excess.{s}.bank.after"] for s in SIX)
    found["excess.before.worst"] = max(
        found[f"excess.{s}.safe.before"] - found[f"excess.{s}.slow bank.before"] for s in SIX
    )
    for cell, result in results:
        if cell["part"] == "jump":
            key = f"jump.{cell['separation']:g}.{cell['before']:g}.{cell['after']:g}"
            found |= {f"{key}.{method}": float(np.median(rows)) for method, rows in result.items()}
            found[f"{key}.ratio"] = found[f"{key}.safe"] / found[f"{key}.bank"]
    found["jump.worst"] = max(value for key, value in found.items() if key.startswith("jump.") and "ratio" in key)
    for cell, result in results:
        if cell["part"] == "prevalence":
            key, (without, labelled) = f"prevalence.{cell['scenario']}", np.mean(result["errors"], axis=0).tolist()
            found |= {f"{key}.without": without, f"{key}.labelled": labelled, f"{key}.ratio": labelled / without}
    found["prevalence.worst"] = max(found[f"prevalence.{scenario}.ratio"] for scenario in SIX)
    found["monitor.alarms"] = float(sum(result["alarms"] for result in of("null")))
    found["monitor.alarm_share"] = found["monitor.alarms"] / (len(of("null")) * len(SIX))
    for change in settings["changes"]:
        rows = of("power", change=change)[0]["rows"]
        found[f"monitor.{change}.median"] = float(np.median(rows))
        found[f"monitor.{change}.found"] = float(np.mean(np.isfinite(rows)))
    for tracker in ("bank", "safe"):
        for prior in settings["performance_priors"]:
            for key, value in of("performance", prior=prior, tracker=tracker)[0].items():
                found[f"performance.{tracker}.{prior:g}.{key}"] = float(value)
        names = [
            f"performance.{tracker}.{prior:g}.{when}.{quantity}"
            for prior in settings["performance_priors"]
            for when in ("now", "window")
            for quantity in QUANTITIES
            # the few streams in which a figure is not unknown are not those in which it is typical
            if found[f"performance.{tracker}.{prior:g}.{when}.{quantity}.answered"] >= LEAST_ANSWERED
        ]
        found[f"performance.{tracker}.worst_bias"] = max(abs(found[f"{name}.bias"]) for name in names)
        found[f"performance.{tracker}.worst_error"] = max(found[f"{name}.error"] for name in names)
        found[f"performance.{tracker}.least_coverage"] = min(found[f"{name}.coverage"] for name in names)
    return found | {f"biased.{key}": float(value) for key, value in of("biased")[0].items()}


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    methods = ("bank", "slow bank", "unguarded", "safe")
    rows = [
        [method, when, *(f"{figures[f'excess.{scenario}.{method}.{when}']:.2f}" for scenario in SIX)]
        for when in ("before", "after")
        for method in methods
    ]
    parts = [
        SCENARIO_TEXT.format(**settings, probation=PROBATION, slow_rows=SLOW_ROWS, own_rows=SLOW_START_ROWS),
        markdown_table(["prior from", "probation", *SIX], rows),
        "\n" + JUMP_TEXT.format(**settings),
        markdown_table(
            ["separation", "prior", "bank", "safe"],
            [
                [
                    f"{separation:g}",
                    f"{before:g} to {after:g}",
                    *(f"{figures[f'jump.{separation:g}.{before:g}.{after:g}.{of}']:,.0f}" for of in ("bank", "safe")),
                ]
                for separation in settings["jump_separations"]
                for before, after in settings["jumps"]
            ],
        ),
        "\n" + PREVALENCE_TEXT.format(**settings, PREVALENCE_STEP=PREVALENCE_STEP),
        markdown_table(
            ["labels", *SIX],
            [
                [name, *(f"{figures[f'prevalence.{scenario}.{of}']:.4f}" for scenario in SIX)]
                for name, of in (("none", "without"), ("some, late", "labelled"))
            ],
        ),
        "\n" + MONITOR_TEXT.format(**settings, alarms=figures["monitor.alarms"], block_tolerance=BLOCK_TOLERANCE),
        markdown_table(
            ["change", "held-out rows", "tolerance", "median rows", "found"],
            [
                [
                    _change_text(change),
                    f"{settings['changes'][change]['negatives']:,} / {settings['changes'][change]['positives']:,}",
                    f"{settings['changes'][change].get('tolerance', 0.0):g}",
                    f"{figures[f'monitor.{change}.median']:,.0f}",
                    f"{figures[f'monitor.{change}.found']:.0%}",
                ]
                for change in settings["changes"]
            ],
        ),
        "\n" + PERFORMANCE_TEXT.format(**settings),
        markdown_table(
            [
                "tracker",
                "prior",
                "true precision",
                "naive",
                *(f"{w} {q}" for w in ("now", "window") for q in QUANTITIES),
            ],
            [
                _performance_row(figures, tracker, f"performance.{tracker}.{prior:g}", prior)
                for tracker in ("bank", "safe")
                for prior in settings["performance_priors"]
            ],
        ),
        "\n"
        + BIASED_TEXT.format(
            **settings,
            bias=figures["biased.bias"],
            errors=figures["biased.standard_errors"],
            naive_bias=figures["biased.naive_bias"],
        ),
    ]
    return "\n".join(parts)


def _performance_row(figures: dict[str, float], tracker: str, key: str, prior: float) -> list[str]:
    def shown(quantity: str) -> str:
        answered = figures[f"{quantity}.answered"]
        if not answered:
            return "unknown"
        bias, error, coverage = (figures[f"{quantity}.{of}"] for of in ("bias", "error", "coverage"))
        return f"{bias:+.3f}, {error:.3f}, {coverage:.0%}" + (f" (of {answered:.0%})" if answered < 1.0 else "")

    cells = [shown(f"{key}.{when}.{q}") for when in ("now", "window") for q in QUANTITIES]
    return [tracker, f"{prior:g}", f"{figures[f'{key}.truth']:.3f}", f"{figures[f'{key}.naive']:.3f}", *cells]


def _change_text(change: str) -> str:
    kind, size = change.split(" ")[:2]
    return f"{'mean shift' if kind == 'shift' else 'added noise'} of {size} standard deviations"


def _views(settings: Settings, separation: float, seed: int) -> tuple[GaussianClasses, list[list[int]]]:
    """Return classes of many features, and the halves of the features that the views read."""
    classes = GaussianClasses.spread(separation, n_features=settings["n_features"])
    rng = np.random.default_rng([seed, 1])
    halves = [half.tolist() for _ in range(2) for half in np.array_split(rng.permutation(settings["n_features"]), 2)]
    return classes, halves


def _deployed(
    settings: Settings, truth: FloatArray, *, start: float, separation: float, seed: int
) -> tuple[Stream, FloatArray, SafeTracker]:
    """Return a stream with this prior, its evidence (n, 1 + V, 2), and a safe tracker before its first row."""
    classes, halves = _views(settings, separation, seed)
    stream = classes.draw(truth, random_state=seed)
    held_out = classes.draw(np.full(settings["scenario_holdout"], start), random_state=10_000 + seed)

    def views_of(features: FloatArray) -> FloatArray:
        return np.stack([classes.log_ratios(features, subset=half) for half in halves], axis=1)

    model = exact_model(held_out.log_ratios, held_out.labels, views_of(held_out.features))
    safe = SafeTracker(start, view_reference=ViewReference.of_model(model))
    return stream, np.concatenate([stream.log_ratios[:, None], views_of(stream.features)], axis=1), safe


def _tracked(
    settings: Settings, truth: FloatArray, *, start: float, separation: float, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Return the log ratios of a stream with this prior, (n, 2), and the priors of the safe tracker, (n, 2)."""
    stream, evidence, safe = _deployed(settings, truth, start=start, separation=separation, seed=seed)
    return stream.log_ratios, safe.update_many(stream.log_ratios, evidence=evidence)


def _prevalence(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Return the mean absolute errors of the estimated prevalence without and with labels, one pair per seed."""
    truth = SCENARIOS[cell["scenario"]](settings["n_rows"])
    start, separation, delay = settings["start_prior"], settings["separation"], settings["prevalence_delay"]
    errors = []
    for seed in range(settings["prevalence_seeds"]):
        stream, evidence, labelled = _deployed(settings, truth, start=start, separation=separation, seed=seed)
        _, _, plain = _deployed(settings, truth, start=start, separation=separation, seed=seed)
        asked = np.random.default_rng([seed, 7]).random(len(truth)) < settings["prevalence_rate"]
        apart = []
        for first in range(0, len(truth), PREVALENCE_STEP):
            part = slice(first, first + PREVALENCE_STEP)
            for row in range(max(0, first - delay - PREVALENCE_STEP), max(0, first - delay)):
                if asked[row]:
                    told = {"row": row, "propensity": settings["prevalence_rate"]}
                    told["inputs"] = labelled.inputs_of(evidence[row : row + 1])[0]
                    labelled.feedback(stream.log_ratios[row], int(stream.labels[row]), **told)
            apart.append([np.abs(one.prior[1] - truth[part]).sum() for one in (plain, labelled)])
            for one in (plain, labelled):
                one.update_many(stream.log_ratios[part], evidence=evidence[part])
        errors.append((np.sum(apart, axis=0) / len(truth)).tolist())
    return {"errors": errors}


def _scenario(cell: Cell, settings: Settings) -> dict[str, Any]:
    truth = SCENARIOS[cell["scenario"]](settings["n_rows"])
    start, separation = settings["start_prior"], settings["separation"]
    log_ratios, safe = _tracked(settings, truth, start=start, separation=separation, seed=cell["seed"])
    slow, own = (
        BayesBank(start, memories=SLOW_MEMORIES, n_snapshots=0, start_rows=rows)
        for rows in (SLOW_ROWS, SLOW_START_ROWS)
    )
    paths = {
        "bank": BayesBank(start).update_many(log_ratios),
        "slow bank": slow.update_many(log_ratios),
        "unguarded": own.update_many(log_ratios),
        "safe": safe,
    }
    pair = GaussianPair(separation)
    parts = {"before": slice(0, PROBATION), "after": slice(PROBATION, None)}
    return {
        f"{method}.{when}": 100.0 * pair.excess(path[part, 1], truth[part])
        for method, path in paths.items()
        for when, part in parts.items()
    }


def _jump(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Return the rows that bank and safe tracker need to come within 20 % of the new prior, one per seed."""
    before, after = cell["before"], cell["after"]
    truth = np.repeat([before, after], [settings["quiet_rows"], settings["n_rows"]])
    rows: dict[str, list[int]] = {"bank": [], "safe": []}
    for seed in range(settings["jump_seeds"]):
        log_ratios, safe = _tracked(settings, truth, start=before, separation=cell["separation"], seed=seed)
        for method, path in (("bank", BayesBank(before).update_many(log_ratios)), ("safe", safe)):
            near = np.flatnonzero(np.abs(path[settings["quiet_rows"] :, 1] / after - 1.0) <= 0.2)
            rows[method].append(int(near[0]) if near.size else settings["n_rows"])
    return rows


def exact_model(log_ratios: FloatArray, labels: IntArray, views: FloatArray) -> RatioModel:
    """Return a model whose held-out ratios are exact, and sure of it."""
    holdout, exact = Holdout.of(log_ratios, labels), LinearCalibrator.identity(2)
    scorer = ColumnScorer("margin", holdout.prior)
    members = tuple(View((), scorer, exact, np.ascontiguousarray(views[:, v])) for v in range(views.shape[1]))
    return RatioModel(scorer, exact, np.array([0, 1]), holdout.prior, holdout, view_members=members)


def _drawn(
    rng: np.random.Generator, priors: FloatArray, separation: float, *, shift: float = 0.0, noise: float = 0.0
) -> FloatArray:
    """Return log ratios of the undisturbed model for rows that were moved and blurred, (n, 2)."""
    labels = rng.random(len(priors)) < priors
    x = rng.normal(size=len(priors)) + separation * labels + shift + noise * rng.normal(size=len(priors))
    scores = separation * x - separation**2 / 2.0
    return np.stack([np.zeros_like(scores), scores], axis=1)


def _held_out(rng: np.random.Generator, negatives: int, positives: int, separation: float) -> Holdout:
    labels = np.repeat([0, 1], [negatives, positives])
    return Holdout.of(_drawn(rng, labels.astype(np.float64), separation), labels)


def _null(cell: Cell, settings: Settings) -> dict[str, Any]:
    alarms = 0
    for number, scenario in enumerate(SIX):
        rng = np.random.default_rng([cell["batch"], number, 7])
        held_out = _held_out(rng, settings["negatives"], settings["positives"], settings["monitor_separation"])
        monitor = LabelShiftMonitor(held_out)
        monitor.update_many(_drawn(rng, SCENARIOS[scenario](settings["n_rows"]), settings["monitor_separation"]))
        alarms += monitor.n_alarms > 0
    return {"alarms": alarms}


def _power(cell: Cell, settings: Settings) -> dict[str, Any]:
    change = settings["changes"][cell["change"]]
    rows = []
    for seed in range(settings["power_streams"]):
        rng = np.random.default_rng([seed, 8, change["negatives"]])
        held_out = _held_out(rng, change["negatives"], change["positives"], settings["monitor_separation"])
        monitor = LabelShiftMonitor(held_out, tolerance=change.get("tolerance", 0.0))
        priors = np.full(settings["n_rows"], settings["power_prior"])
        disturbed = _drawn(
            rng, priors, settings["monitor_separation"], shift=change.get("shift", 0.0), noise=change.get("noise", 0.0)
        )
        monitor.update_many(disturbed)
        rows.append(float(monitor.alarm_row or np.inf))
    return {"rows": rows}


def _performance(cell: Cell, settings: Settings) -> dict[str, Any]:
    separation, prior = settings["separation"], cell["prior"]
    costs = Costs(false_positive=1.0, false_negative=settings["performance_cost"])
    pair = GaussianPair(separation)
    errors: dict[str, list[float]] = {}
    covered: dict[str, list[bool]] = {}
    answered: dict[str, list[bool]] = {}
    truths, naive = [], []
    for seed in range(settings["performance_streams"]):
        rng = np.random.default_rng([seed, 9])
        labels = np.repeat([0, 1], [settings["negatives"], settings["positives"]])
        held_out = _drawn(rng, labels.astype(np.float64), separation)[:, 1]
        model = RatioClassifier.from_scores(1.3 * held_out + 0.6, labels, kind="margin")
        tracker = BayesBank() if cell["tracker"] == "bank" else SafeTracker()
        online = OnlineClassifier(model, policy=CostPolicy(costs), tracker=tracker, horizon=0)
        drawn_labels = (rng.random(settings["performance_rows"]) < prior).astype(np.int64)
        scores = 1.3 * _drawn(rng, drawn_labels.astype(np.float64), separation)[:, 1] + 0.6
        decisions = online.decide_many(scores)
        report = online.performance()
        calibrator = model.model_.calibrator
        # the threshold on the exact log ratio: undo the calibrator, then the distortion
        at = np.array([[0.0, online.log_threshold or 0.0]])
        exact = (float(calibrator.invert(at)[0, 1]) - 0.6) / 1.3
        truth = {"now": _truth_now(pair, exact, prior, costs), "window": _truth_window(decisions, drawn_labels, costs)}
        static = model.predict_proba(scores)[:, 1]
        alerts = decisions.labels == 1
        naive.append(float(static[alerts].mean()) if alerts.any() else np.nan)
        truths.append(truth["now"]["precision"])
        for when, measured in (("now", report.now), ("window", report.window)):
            for quantity in QUANTITIES:
                estimate, true = getattr(measured, quantity), truth[when][quantity]
                if np.isfinite(true):
                    answered.setdefault(f"{when}.{quantity}", []).append(estimate.source != "unknown")
                if np.isfinite(true) and np.isfinite(estimate.value):
                    errors.setdefault(f"{when}.{quantity}", []).append(estimate.value - true)
                    covered.setdefault(f"{when}.{quantity}", []).append(estimate.low <= true <= estimate.high)
    return {
        "truth": float(np.nanmean(truths)),
        "naive": float(np.nanmean(naive)),
        **{f"{key}.bias": float(np.mean(values)) for key, values in errors.items()},
        **{f"{key}.error": float(np.mean(np.abs(values))) for key, values in errors.items()},
        **{f"{key}.coverage": float(np.mean(values)) for key, values in covered.items()},
        **{f"{key}.answered": float(np.mean(values)) for key, values in answered.items()},
    }


def _truth_now(pair: GaussianPair, log_threshold: float, prior: float, costs: Costs) -> dict[str, float]:
    hit, false_alarm = (float(rate) for rate in pair.rates(log_threshold))
    miss = 1.0 - hit
    hits, alarms = prior * (1.0 - miss), (1.0 - prior) * false_alarm
    expected = alarms * costs.matrix[1, 0] + prior * miss * costs.matrix[0, 1]
    return {"precision": hits / (hits + alarms), "recall": 1.0 - miss, "cost": expected}


def _truth_window(decisions: Any, labels: IntArray, costs: Costs) -> dict[str, float]:
    """Return what really happened, each row counted as the tally does."""
    weights = (1.0 - 1.0 / MEMORY) ** np.arange(len(labels))[::-1]
    alerts, positive = decisions.labels == 1, labels == 1
    hits, alarms = weights @ (alerts & positive), weights @ (alerts & ~positive)
    misses = weights @ (~alerts & positive)
    cost = (alarms * costs.matrix[1, 0] + misses * costs.matrix[0, 1]) / weights.sum()
    return {
        "precision": float(hits / (hits + alarms)) if hits + alarms else np.nan,
        "recall": float(hits / (hits + misses)) if hits + misses else np.nan,
        "cost": float(cost),
    }


def _biased(cell: Cell, settings: Settings) -> dict[str, Any]:
    separation, prior = settings["separation"], settings["biased_prior"]
    rng = np.random.default_rng(11)
    held_out = _held_out(rng, settings["negatives"], settings["positives"], separation)
    model = RatioClassifier.from_scores(held_out.log_ratios[:, 1], held_out.labels, kind="margin")
    off, naive = [], []
    for seed in range(settings["biased_streams"]):
        rng = np.random.default_rng([seed, 12])
        labels = (rng.random(settings["biased_rows"]) < prior).astype(np.int64)
        online = OnlineClassifier(model, monitor=False)
        decisions = online.decide_many(_drawn(rng, labels.astype(np.float64), separation)[:, 1])
        propensities = np.where(decisions.labels == 1, 1.0, settings["biased_rate"])
        asked = np.flatnonzero(rng.random(len(labels)) < propensities)
        for row in rng.permutation(asked).tolist():
            online.feedback(row, labels[row], propensity=float(propensities[row]))
        tracker = online.tracker
        assert isinstance(tracker, SafeTracker)
        by_labels = tracker.labelled_prior
        assert by_labels is not None
        off.append(float(by_labels[1]) - labels.mean())
        naive.append(labels[asked].mean() - labels.mean())
    error = float(np.std(off, ddof=1) / np.sqrt(len(off)))
    return {
        "bias": float(np.mean(off)),
        "standard_errors": float(np.mean(off)) / error,
        "naive_bias": float(np.mean(naive)),
    }
