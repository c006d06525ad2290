"""Write the tables and draw the pictures of `experiments.robustness`."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.markdown import markdown_table
from experiments.pictures import COLOURS, panels

# Section "Robustness and Failure Modes". Noise: F1 on mammography; beyond .75 it is "below .35" on all sets.
PAPER_NOISE = {"0": "0.82", "0.3": "0.61", "1": "below 0.35"}
PAPER_CROSSINGS = {"BBSE": 0.20, "SMOTE": 0.25}  # calibration errors at which its method falls below the rival
PAPER_DRIFT = 0.1  # a row, above which it says a moving average fails and a window of 20 is better

LINES = {
    "Algorithm 2": ("orange", "--", "v"),
    "bank": ("blue", "-", "o"),
    "safe": ("green", "-.", "s"),
    "BBSE": ("pink", ":", "D"),
    "SMOTE": ("black", "--", ""),
    "training prior": ("grey", ":", ""),
    "true prior": ("grey", "-", ""),
}
DRIFT_LINES = {
    "Algorithm 2": ("orange", "--", "v"),
    "Algorithm 2, rate sqrt(drift)": ("amber", ":", "^"),
    "bank": ("blue", "-", "o"),
    "safe": ("green", "-.", "s"),
    "window EM 20": ("pink", "--", "D"),
    "window EM 200": ("sky", "-", "x"),
    "mean of the path": ("grey", "-", ""),
}
ALARMS = {
    "alarms": "alarm",
    "alarms, no row twice": "alarm_once",
    "alarms, and the model's own held-out scores": "alarm_own",
}
DRAWN_FAMILIES = ("too high", "too low", "too unsure")
VERDICTS = ("deploy", "warn", "refuse", "too few")
OURS, RIVALS = ("Algorithm 2", "bank", "safe"), ("BBSE", "SMOTE")


def table(figures: dict[str, float], settings: dict[str, Any]) -> str:
    """Write the figures as Markdown."""
    return "\n".join(
        [*_noise_part(figures, settings), *_fault_part(figures, settings), *_drift_part(figures, settings)]
    )


def _noise_part(figures: dict[str, float], settings: dict[str, Any]) -> list[str]:
    n_streams = settings["splits"] * len(settings["factors"]) * settings["draws"]
    low, high = min(settings["factors"]), max(settings["factors"])
    parts = [
        f"**Noise in the features**, with a prior that changed as well. F1, means over {settings['splits']} splits and "
        f"{n_streams} streams of {settings['n_rows']:,} held-out rows drawn at {low:g} and {high:g} times the training "
        "imbalance ratio. Noise is normal, in standard deviations of a feature within a class; features of two values "
        "have none. Every method but SMOTE has the same scores (gradient boosting in `RatioClassifier`) and the same "
        "F1 policy; they differ in the prior. BBSE sees the whole stream before it decides. SMOTE has the same booster "
        "at its own threshold. Alarms: of the monitor that an `OnlineClassifier` has, as a share of the streams. Its "
        "guarantee covers neither rows that come several times, as they do in these streams, nor held-out rows that "
        "other models scored, those of the folds. So there are streams in which no row comes twice; and with half of "
        "the test part for held-out rows, scored by the deployed model itself (then both assumptions hold, and there "
        "are fewest rows to find anything by).\n"
    ]
    levels = [f"{level:g}" for level in settings["noise"]]
    for name in settings["sets"]:
        rows = [[m, *(f"{figures[f'noise/{name}/{level}/{m}']:.3f}" for level in levels)] for m in LINES]
        for word, key in ALARMS.items():
            rows.append([word, *(f"{figures[f'noise/{name}/{level}/{key}']:.0%}" for level in levels)])
        if name == "mammography":
            rows.append(["the paper's F1", *(PAPER_NOISE.get(level, "") for level in levels)])
        parts += [f"`{name}`:\n", markdown_table(["noise", *levels], rows)]
    return parts


def _fault_part(figures: dict[str, float], settings: dict[str, Any]) -> list[str]:
    n_fits = len(settings["sets"]) * settings["splits"]
    rows = []
    for family, steps in _families(figures).items():
        for step in steps:
            at = f"miscalibration/{family}/{step}"
            rows.append([
                family if step else f"{family}: none yet", f"{figures[f'{at}/shift']:+.2f}",
                f"{figures[f'{at}/slope']:.2f}", f"{figures[f'{at}/ece']:.3f}",
                *(f"{figures[f'{at}/{method}']:.3f}" for method in LINES),
                _verdicts(figures, at),
            ])  # fmt: skip
    crossings = [
        [
            method,
            rival,
            f"{PAPER_CROSSINGS[rival]:.2f}",
            *(_crossing(figures, family, method, rival) for family in _families(figures)),
        ]
        for rival in RIVALS
        for method in OURS
    ]
    return [
        f"**Planted miscalibration.** The log ratios of the same {n_fits} models (all sets together), of their "
        "held-out rows and of their views are shifted or stretched until the calibration error (ECE) at prior 1/2 on "
        "the held-out rows is what is asked for: too high and too low add to the log ratio, too unsure and too sure "
        "multiply it. SMOTE's scores stay as they are. No noise; the streams as above. Classes this well separated "
        "cannot reach a large ECE by being too sure. The F1 policy reads the same held-out rows: what a fault costs "
        "through it alone shows in the column of the true prior. The last column is what obil's gate says.\n",
        markdown_table(["fault", "shift", "slope", "ECE at 1/2", *LINES, "the gate"], rows),
        f"Calibration error at which a method first falls below a rival by {settings['margin']:g} of F1 (means over "
        "everything, straight lines between the steps). \"From the start\": below already without a planted fault.\n",
        markdown_table(["method", "falls below", "the paper's", *_families(figures)], crossings),
    ]  # fmt: skip


def _verdicts(figures: dict[str, float], at: str) -> str:
    return ", ".join(f"{word} {figures[f'{at}/{word}']:.0%}" for word in VERDICTS if figures[f"{at}/{word}"] > 0.0)


def _families(figures: dict[str, float]) -> dict[str, list[int]]:
    """Return the families of faults with their steps."""
    found: dict[str, list[int]] = {}
    for key in figures:
        if key.startswith("miscalibration/") and key.endswith("/ece"):
            _, family, step, _ = key.split("/")
            found.setdefault(family, []).append(int(step))
    order = (*DRAWN_FAMILIES, "too sure")
    return {family: found[family] for family in order if family in found}


def _crossing(figures: dict[str, float], family: str, method: str, rival: str) -> str:
    value = figures.get(f"crossing/{family}/{method}/{rival}")
    if value is None:
        most = max(figures[f"miscalibration/{family}/{step}/ece"] for step in _families(figures)[family])
        return f"not up to {most:.2f}"
    return "from the start" if value == 0.0 else f"{value:.2f}"


def _drift_part(figures: dict[str, float], settings: dict[str, Any]) -> list[str]:
    drifts = [f"{drift:g}" for drift in settings["drifts"]]
    rows = [[name, *(f"{figures[f'drift/{drift}/{name}']:.1f}" for drift in drifts)] for name in DRIFT_LINES]
    return [
        "**A prior that races.** Excess expected cost over the oracle in percent, with exact ratios (normal classes "
        f"{settings['separation']:g} apart), {settings['drift_seeds']} paths of {settings['drift_rows']:,} rows. The "
        f"prior moves by so much every row between {settings['lowest_prior']:g} and {settings['highest_prior']:g} and "
        f"turns round at the ends and with probability {settings['flip_probability']:g}. The paper: above "
        f"{PAPER_DRIFT:g} a moving average cannot track at any rate, and a window of 20 is better. The last line does "
        "not track at all: it is told the mean of the path.\n",
        markdown_table(["drift a row", *drifts], rows),
    ]


def pictures(record: dict[str, Any]) -> dict[str, Figure]:
    """Draw F1 against noise and against planted miscalibration, and the cost of drift."""
    figures, settings = record["figures"], record["settings"]
    figure, axes = panels(3, n_rows=2, width=3.5, height=3.2)
    for number, (own, name) in enumerate(zip(axes[:3], settings["sets"], strict=False)):
        _draw_noise(own, figures, name, settings)
        own.set_title(f"({'abc'[number]}) Noise, {name.replace('_', ' ')}")
    for number, (own, family) in enumerate(zip(axes[3:], DRAWN_FAMILIES, strict=True)):
        _draw_faults(own, figures, family)
        own.set_title(f"({'def'[number]}) Log ratios {family}")
    for own in axes[len(settings["sets"]) : 3]:
        own.set_visible(False)
    handles = {label: handle for own in axes for handle, label in zip(*own.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5)
    drift, (panel,) = panels(1, width=6.4, height=3.8)
    _draw_drift(panel, figures, settings)
    return {"robustness": figure, "robustness_drift": drift}


def _draw_lines(
    axes: Axes, x: list[float], curves: dict[str, list[float]], lines: dict[str, tuple[str, str, str]]
) -> None:
    for name, (colour, line, marker) in lines.items():
        axes.plot(
            x, curves[name], color=COLOURS[colour], linestyle=line, marker=marker, markersize=3.5,
            linewidth=1.1 if not marker else 1.6, label=name,
        )  # fmt: skip


def _draw_noise(axes: Axes, figures: dict[str, float], name: str, settings: dict[str, Any]) -> None:
    levels = [f"{level:g}" for level in settings["noise"]]
    curves = {m: [figures[f"noise/{name}/{level}/{m}"] for level in levels] for m in (*LINES, "alarm")}
    axes.fill_between(
        settings["noise"], 0.0, curves["alarm"], color=COLOURS["amber"], alpha=0.2, linewidth=0.0,
        label="streams with an alarm (share)",
    )  # fmt: skip
    _draw_lines(axes, settings["noise"], curves, LINES)
    if name == "mammography":
        axes.plot([0.0, 0.3], [0.82, 0.61], color="black", linestyle="", marker="*", label="F1 in the paper")
    axes.set(ylim=(0.0, 1.02), xlabel="noise (standard deviations within a class)", ylabel="F1")


def _draw_faults(axes: Axes, figures: dict[str, float], family: str) -> None:
    steps = _families(figures)[family]

    def curve(measure: str) -> list[float]:
        return [figures[f"miscalibration/{family}/{step}/{measure}"] for step in steps]

    errors = curve("ece")
    axes.fill_between(
        errors, 0.0, curve("refuse"), color=COLOURS["sky"], alpha=0.3, linewidth=0.0,
        label="models the gate refuses (share)",
    )  # fmt: skip
    _draw_lines(axes, errors, {method: curve(method) for method in LINES}, LINES)
    for limit in PAPER_CROSSINGS.values():
        axes.axvline(
            limit, color="black", linewidth=1.0, linestyle=(0, (1, 3)), label="paper: below BBSE (.20), SMOTE (.25)"
        )
    axes.set(ylim=(0.0, 1.02), xlabel="calibration error (ECE) at prior 1/2", ylabel="F1, all sets")


def _draw_drift(axes: Axes, figures: dict[str, float], settings: dict[str, Any]) -> None:
    curves = {
        name: [figures[f"drift/{drift:g}/{name}"] for drift in settings["drifts"]] for name in DRIFT_LINES
    }  # fmt: skip
    _draw_lines(axes, settings["drifts"], curves, DRIFT_LINES)
    axes.axvline(PAPER_DRIFT, color=COLOURS["grey"], linewidth=0.9, linestyle=(0, (1, 3)))
    axes.annotate(
        "the paper: a moving average\nfails beyond this", (PAPER_DRIFT, 1.0), xycoords=("data", "axes fraction"),
        xytext=(-4, -2), textcoords="offset points", ha="right", va="top", fontsize=7.0,
    )  # fmt: skip
    highest = 1.15 * max(max(curve) for curve in curves.values())
    axes.set(
        xscale="log", xlabel="drift of the prior a row", ylabel="excess cost over the oracle, %", ylim=(0.0, highest)
    )
    axes.set_xticks([0.001, 0.01, 0.1], ["0.001", "0.01", "0.1"])
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
