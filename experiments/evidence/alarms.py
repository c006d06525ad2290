"""Count false alarms on streams that nothing happened to, and rows until the alarm on streams that shifted."""

from typing import Any

import numpy as np
from sklearn.datasets import make_classification

from experiments.mammography import MODELS
from experiments.markdown import markdown_table
from experiments.protocol import require_set
from experiments.runner import Cell, Settings
from obil.arrays import FloatArray, IntArray
from obil.estimators.obil_classifier import OBILClassifier
from obil.estimators.ratio_classifier import RatioClassifier
from obil.online.online_classifier import OnlineClassifier

OBIL = "OBIL, trees"
SYNTHETIC, MAMMOGRAPHY = "synthetic", "mammography"
POWER_SEED = 1_000  # fits on which power is measured are not those on which false alarms are counted
LARGEST_SCALE = 64.0
BISECTIONS = 12


def cells(settings: Settings) -> list[Cell]:
    """List the work: one fit with its stream; the slow models last."""
    shifted: list[Cell] = [{"shifted": True, "fit": fit} for fit in range(settings["shifted_fits"])]
    quiet: list[Cell] = [
        {"shifted": False, "data": data, "model": model, "fit": fit}
        for model, fits in settings["fits"].items()
        for data in (SYNTHETIC, MAMMOGRAPHY)
        for fit in range(fits)
    ]
    return shifted + quiet


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Fit once, and let the default online classifier decide the stream."""
    return shifted_stream(cell["fit"], settings) if cell["shifted"] else quiet_stream(cell, settings)


def quiet_stream(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Return whether and where the monitor alarms on rows that are distributed as those of the fit."""
    seed = cell["fit"]
    if cell["data"] == SYNTHETIC:
        n_fit = settings["fit_rows"]
        rows, labels = synthetic(n_fit + settings["stream_rows"], seed)
    else:
        rows, labels = shuffled_mammography(seed)
        n_fit = len(rows) // 2
    model = fitted(cell["model"], rows[:n_fit], labels[:n_fit], seed)
    online = OnlineClassifier(model)
    online.decide_many(rows[n_fit:])
    assert online.monitor is not None
    return {
        "alarm_row": online.monitor.alarm_row,
        "peak": online.monitor.peak_log_evidence,
        "n_rows": online.n_rows,
        "choice": "" if model.model_.evidence is None else model.model_.evidence.choice,
    }


def shifted_stream(fit: int, settings: Settings) -> dict[str, Any]:
    """Return how many rows after a covariate shift the monitor alarms.

    All features move along the difference of the class means, towards the positives in even fits and away from them
    in odd ones, so far that the mean log ratio of held-out rows moves by `move` within-class standard deviations.
    """
    n_fit, n_held, n_stream = settings["fit_rows"], settings["held_out_rows"], settings["stream_rows"]
    rows, labels = synthetic(n_fit + n_held + n_stream, POWER_SEED + fit)
    model = fitted("boosting", rows[:n_fit], labels[:n_fit], fit)
    means = [rows[:n_fit][labels[:n_fit] == k].mean(axis=0) for k in range(2)]
    direction = (means[1] - means[0]) * (1.0 if fit % 2 == 0 else -1.0)
    held = slice(n_fit, n_fit + n_held)
    prior = settings["prior"]
    scale, move = scale_of_shift(model, rows[held], labels[held], direction, prior=prior, target=settings["move"])
    stream = at_prior(labels[n_fit + n_held :], prior, settings["shifted_stream_rows"], seed=fit)
    arriving = rows[n_fit + n_held :][stream].copy()
    quiet = settings["quiet_rows"]
    arriving[quiet:] += scale * direction
    online = OnlineClassifier(model)
    online.decide_many(arriving)
    assert online.monitor is not None
    row = online.monitor.alarm_row
    return {
        "rows": None if row is None else row - quiet,
        "scale": scale,
        "move": move,
    }


def scale_of_shift(
    model: Any, rows: FloatArray, labels: IntArray, direction: FloatArray, *, prior: float, target: float
) -> tuple[float, float]:
    """Return how far along a direction the mean log ratio moves by `target` standard deviations, and the move there."""
    weights = np.where(labels == 1, prior / labels.mean(), (1.0 - prior) / (1.0 - labels.mean()))
    weights = weights / weights.sum()
    before = model.log_ratios(rows)[:, 1]
    centres = np.array([before[labels == k].mean() for k in range(2)])
    spread = float(np.sqrt(weights @ (before - centres[labels]) ** 2))

    def move(scale: float) -> float:
        return abs(float(weights @ (model.log_ratios(rows + scale * direction)[:, 1] - before))) / spread

    high = 0.125
    while move(high) < target and high < LARGEST_SCALE:
        high *= 2.0
    low = 0.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if move(middle) < target else (low, middle)
    return high, move(high)


def fitted(name: str, rows: FloatArray, labels: IntArray, seed: int) -> Any:
    """Return a fitted ratio classifier by its name."""
    if name == OBIL:
        return OBILClassifier(member="trees", views=False, random_state=seed).fit(rows, labels)
    return RatioClassifier(MODELS[name](seed), views=False, random_state=seed).fit(rows, labels)


def synthetic(n_rows: int, seed: int) -> tuple[FloatArray, IntArray]:
    """Return independent rows of a problem that the seed makes, 20 features, 6 of them informative."""
    rows, labels = make_classification(
        n_rows, n_features=20, n_informative=6, weights=[0.95], flip_y=0.02, random_state=seed
    )
    return rows, labels.astype(np.int64)


def shuffled_mammography(seed: int) -> tuple[FloatArray, IntArray]:
    """Return mammography in a random order."""
    data = require_set(MAMMOGRAPHY)
    order = np.random.default_rng(seed).permutation(len(data.labels))
    return data.features.to_numpy(dtype=np.float64)[order], data.labels[order].astype(np.int64)


def at_prior(labels: IntArray, prior: float, n_rows: int, *, seed: int) -> IntArray:
    """Return which rows arrive, each once, when every row is positive with probability `prior`, (n_rows,)."""
    positive = np.random.default_rng(seed).random(n_rows) < prior
    arriving = np.empty(n_rows, dtype=np.int64)
    for k in range(2):
        wanted = positive == bool(k)
        arriving[wanted] = np.flatnonzero(labels == k)[: int(wanted.sum())]
    return arriving


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the counts of alarms and the median delay."""
    found: dict[str, float] = {}
    quiet = [(cell, result) for cell, result in results if not cell["shifted"]]
    alarmed = [result["alarm_row"] is not None for _, result in quiet]
    found["streams"], found["alarms"] = float(len(quiet)), float(sum(alarmed))
    found["rate"] = float(np.mean(alarmed))
    for model in settings["fits"]:
        for data in (SYNTHETIC, MAMMOGRAPHY):
            own = [result for cell, result in quiet if (cell["model"], cell["data"]) == (model, data)]
            found[f"alarms.{data}.{model}"] = float(sum(result["alarm_row"] is not None for result in own))
            found[f"peak.{data}.{model}"] = float(np.max([result["peak"] for result in own]))
    never = settings["shifted_stream_rows"] - settings["quiet_rows"]
    shifted = [result for cell, result in results if cell["shifted"]]
    early = [result for result in shifted if result["rows"] is not None and result["rows"] <= 0]
    delays = [result["rows"] or never for result in shifted if result not in early]
    found["delay.early"] = float(len(early))
    found["delay.never"] = float(sum(result["rows"] is None for result in shifted))
    for name, quantile in (("median", 0.5), ("tenth", 0.1), ("ninetieth", 0.9)):
        found[f"delay.{name}"] = float(np.quantile(delays, quantile))
    for name, side in (("towards", 0), ("away", 1)):
        own_delays = [
            result["rows"] or never
            for cell, result in results
            if cell["shifted"] and cell["fit"] % 2 == side and result not in early
        ]
        found[f"delay.{name}"] = float(np.median(own_delays)) if own_delays else float("nan")
    found["move.least"] = float(np.min([result["move"] for result in shifted]))
    found["move.most"] = float(np.max([result["move"] for result in shifted]))
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the counts as Markdown."""
    rows = [
        [
            model,
            *(
                f"{figures[f'alarms.{data}.{model}']:.0f} of {fits} ({figures[f'peak.{data}.{model}']:.1f})"
                for data in (SYNTHETIC, MAMMOGRAPHY)
            ),
        ]
        for model, fits in settings["fits"].items()
    ]
    alarm = np.log(200.0)
    return (
        "## False alarms\n\n"
        f"{figures['streams']:.0f} fits, each with one stream of rows distributed as those of the fit: synthetic rows "
        f"({settings['fit_rows']:,} fit, {settings['stream_rows']:,} stream) and mammography (a random half fits, the "
        "other half streams once). Streams on which the monitor of a default `OnlineClassifier` ever alarms, and in "
        f"brackets the largest log evidence (the alarm is at {alarm:.1f}). In all: {figures['alarms']:.0f}, "
        f"{figures['rate']:.1%}.\n\n"
        + markdown_table(["model", SYNTHETIC, MAMMOGRAPHY], rows)
        + "\n## Rows until the alarm\n\n"
        f"Boosting on synthetic rows, prior {settings['prior']:g}. After {settings['quiet_rows']:,} rows all features "
        "move along the difference of the class means, so far that the mean log ratio of held-out rows moves by "
        f"{settings['move']:g} of its within-class standard deviation ({figures['move.least']:.2f} to "
        f"{figures['move.most']:.2f} reached). Rows until the alarm over {settings['shifted_fits']} fits: median "
        f"{figures['delay.median']:,.0f} (towards the positives {figures['delay.towards']:,.0f}, away from them "
        f"{figures['delay.away']:,.0f}), 10th and 90th percentile {figures['delay.tenth']:,.0f} and "
        f"{figures['delay.ninetieth']:,.0f}; {figures['delay.never']:.0f} without alarm, {figures['delay.early']:.0f} "
        "that alarmed before the shift are left out.\n"
    )
