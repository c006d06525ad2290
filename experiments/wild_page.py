"""Write the page of `experiments.wild`, and draw its plot."""

from typing import Any

from matplotlib.figure import Figure

from experiments.markdown import markdown_table
from experiments.plots import COLOURS, panels
from experiments.runner import Settings
from obil.trackers.label_experts import UNADAPTED
from obil.trackers.view_reference import ERRORS_ALLOWED

MEASURES = ("log_loss", "cost", "cost_5", "cost_1_5")
UNLABELLED = ("local oracle", "Algorithm 2, as printed", "bank", "safe")  # methods that are shown without labels

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
that the fourteen others choose. Likewise, the weight with which what decides without labels starts once labels come
({weight:g}) was chosen among {unadapted}, where no other stream may exceed {most_harm_with_labels:g}.
"""

DIAGNOSIS_TEXT = """What changes between the training rows and the stream. Label shift: the prior. Covariate shift: how
well a booster tells training rows from rows of the stream (AUC, .5 is not at all). Concept drift: the AUC of the model
on held-out training rows and on the stream. Calibration drift: slope and offset of the logit that recalibrate the
stream in hindsight (1 and 0 need none), and the log loss with them, relative to static. The last column is the fraction
of that gain that {rate:.0%} of the labels, {delay:,} rows late, give; shown where it is 5 % or more.
"""
SHUFFLED_TEXT = """Copies of the streams in random order, folds at random: nothing moves, and the log loss relative to
static should be 1. In a second copy the odds of a positive become four times as large (a quarter where positives are
the majority) after {quiet_rows:,} rows; from {quiet_rows:,} rows after that on, the fraction of the gain that knowing
the prior gives. At most {shuffled_rows:,} rows of each set.
"""
PERFORMANCE_TEXT = """Label-free performance (`online.performance().window`), asked for every {performance_rows:,} rows:
in how many windows it gave an interval and not "unknown", and how many of those held the truth, at costs 1:1.
"""


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    parts = [PROTOCOL.format(**settings, factor=ERRORS_ALLOWED, weight=UNADAPTED)]
    late = [(0.0, 0), *settings["labels"]]
    rows = []
    for rate, delay in late:
        key = f"all{when(rate, delay)}.safe"
        shown = [f"{figures[f'{key}.{m}.mean']:.4f} / {figures[f'{key}.{m}.worst']:.4f}" for m in MEASURES]
        rows.append(["safe", _labels(rate, delay), *shown])
    for key, labels in (("left_out", "none"), ("labels_left_out", _labels(*settings["retrain_at"][0]))):
        left_out = [f"{figures[f'all.{key}.log_loss.{of}']:.4f}" for of in ("mean", "worst")]
        rows.append(["left out", labels, " / ".join(left_out), "", "", ""])
    head = ["log loss", "cost", "cost (5)", "cost (1:5)"]
    parts.append("\n## All streams: geometric mean / worst\n\n" + markdown_table(["prior from", "labels", *head], rows))
    parts.append("\n![Log loss over static, by stream](../figures/wild.svg)\n")
    parts.append("\n## What moves\n\n" + DIAGNOSIS_TEXT.format(rate=late[1][0], delay=late[1][1]))
    parts.append(_diagnosis_table(figures, settings))
    parts.append("\n## Shuffled copies\n\n" + SHUFFLED_TEXT.format(**settings))
    parts.append(
        markdown_table(
            ["set", "nothing moves", "jump: log loss of the oracle", "jump: fraction of its gain"],
            [
                [
                    name,
                    f"{figures[f'{name}.shuffled.log_loss']:.4f}",
                    *(
                        format(figures[key], how) if (key := f"{name}.shuffled.{of}") in figures else "too short"
                        for of, how in (("jump_oracle", ".4f"), ("jump_gain", ".0%"))
                    ),
                ]
                for name in settings["sets"]
            ],
        )
    )
    parts.append("\n## Performance without labels\n\n" + PERFORMANCE_TEXT.format(**settings))
    parts.append(_performance_table(figures, settings))
    for name in settings["sets"]:
        alarm = figures[f"{name}.alarm_row"]
        parts.append(
            f"\n## {name}\n\n{figures[f'{name}.rows']:,.0f} rows, {figures[f'{name}.prior']:.1%} positive, after "
            f"training at {figures[f'{name}.training_prior']:.1%}. Static: log loss "
            f"{figures[f'{name}.static_log_loss']:.4f}. The others choose the factor "
            f"{figures[f'{name}.left_out.factor']:g}. "
            + (f"The monitor raises an alarm at row {alarm:,.0f}.\n" if alarm else "The monitor raises no alarm.\n")
        )
        rows = [_row(figures, f"{name}.{method}", method, "none") for method in UNLABELLED]
        for rate, delay in settings["labels"]:
            key = f"{name}{when(rate, delay)}"
            rows.append(_row(figures, f"{key}.safe", "safe", _labels(rate, delay)))
            if [rate, delay] in settings["retrain_at"]:
                rows.append(_row(figures, f"{key}.periodic retraining", "periodic retraining", _labels(rate, delay)))
        parts.append(markdown_table(["prior from", "labels", *head, "gain"], rows))
    return "\n".join(parts)


def _labels(rate: float, delay: int) -> str:
    return "none" if rate == 0.0 else f"{rate:.0%}, {delay:,} rows late"


def _row(figures: dict[str, float], key: str, method: str, labels: str) -> list[str]:
    return [method, labels, *(f"{figures[f'{key}.{m}']:.4f}" for m in MEASURES), f"{figures[f'{key}.gain']:.0%}"]


def when(rate: float, delay: int) -> str:
    """Return how a figure with these labels is named, after the name of its stream."""
    return "" if rate == 0.0 else f".{rate:g}.{delay}"


def _diagnosis_table(figures: dict[str, float], settings: Settings) -> str:
    rows = []
    for name in settings["sets"]:
        own = {
            key: figures[f"{name}.{key}"] for key in ("training_prior", "prior", "domain_auc", "held_out_auc", "auc")
        }
        recalibrated = figures.get(f"{name}.recalibrated")
        rows.append([
            name, f"{own['training_prior']:.3f} -> {own['prior']:.3f}", f"{own['domain_auc']:.2f}",
            f"{own['held_out_auc']:.3f} -> {own['auc']:.3f}",
            f"{figures[f'{name}.hindsight_slope']:.2f}, {figures[f'{name}.hindsight_offset']:+.2f}",
            f"{figures[f'{name}.hindsight']:.3f}", "" if recalibrated is None else f"{recalibrated:.0%}",
        ])  # fmt: skip
    head = ["set", "prior", "covariate shift", "AUC", "slope, offset", "recalibrated", "of that gain"]
    return markdown_table(head, rows)


def _performance_table(figures: dict[str, float], settings: Settings) -> str:
    rows = []
    for name in settings["sets"]:
        shown = []
        for quantity in ("precision", "recall", "cost"):
            key = f"{name}.performance.{quantity}"
            windows, answered, held = (figures[f"{key}.{of}"] for of in ("windows", "answered", "held"))
            shown.append(f"{answered:.0f} of {windows:.0f}" + (f", {held / answered:.0%} held" if answered else ""))
        rows.append([name, *shown])
    pooled = [
        f"{figures[f'all.performance.{quantity}.unknown']:.0%} unknown, "
        f"{figures[f'all.performance.{quantity}.held_by_stream']:.0%} held"
        for quantity in ("precision", "recall", "cost")
    ]
    return markdown_table(["set", "precision", "recall", "cost"], [*rows, ["mean over streams", *pooled]])


def plots(record: dict[str, Any]) -> dict[str, Figure]:
    """Draw the log loss over static of four methods on every stream."""
    figures, settings = record["figures"], record["settings"]
    rate, delay = settings["retrain_at"][0]
    shown = {
        "safe, no labels": ("blue", "o", ".safe.log_loss"),
        f"safe, {rate:.0%} of labels {delay:,} rows late": ("green", "s", f"{when(rate, delay)}.safe.log_loss"),
        "local oracle": ("black", "|", ".local oracle.log_loss"),
        "recalibrated in hindsight": ("amber", "x", ".hindsight"),
    }
    names = sorted(settings["sets"], key=lambda name: figures[f"{name}.{rate:g}.{delay}.safe.log_loss"], reverse=True)
    figure, (axes,) = panels(1, width=7.2, height=4.6)
    for label, (colour, marker, key) in shown.items():
        values = [figures[f"{name}{key}"] for name in names]
        axes.plot(values, range(len(names)), marker, color=COLOURS[colour], label=label, markersize=6)
    axes.axvline(1.0, color=COLOURS["grey"], linewidth=1.0)
    axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    axes.set_xlabel("log loss over that of not adapting (below 1: a gain)")
    figure.legend(loc="outside lower center", ncols=2)
    return {"wild": figure}
