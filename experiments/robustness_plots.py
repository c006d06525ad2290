"""Draw the plots of `experiments.robustness`."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.ablation_tables import at_factor
from experiments.paper_claims import CROSSINGS, DRIFT_FINE, DRIFT_TOO_FAST, NOISE_F1, NOISE_FAILURE, SHIFTED
from experiments.plots import COLOURS, panels
from experiments.robustness_page import CLAIMED_SET, families, of_paper, part_of
from experiments.stress.contest import METHODS
from experiments.stress.drift import TRACKERS
from experiments.stress.miscalibration import FAMILIES

LOOK = {  # colour, line style, marker
    "Algorithm 2": ("orange", "--", "v"),
    "bank": ("blue", "-", "o"),
    "safe": ("green", "-.", "s"),
    "BBSE": ("pink", ":", "D"),
    "SMOTE": ("black", "--", ""),
    "training prior": ("grey", ":", ""),
    "true prior": ("grey", "-", ""),
    "Algorithm 2, rate sqrt(drift)": ("amber", ":", "^"),
    "window EM 20": ("pink", "--", "D"),
    "window EM 200": ("sky", "-", "x"),
    "mean of the path": ("grey", "-", ""),
}
DRAWN_FAMILIES = tuple(FAMILIES)[:3]  # the last cannot reach a large error


def plots(record: dict[str, Any]) -> dict[str, Figure]:
    """Draw F1 against noise and against planted miscalibration, for boosting and the paper's ensemble; drift's cost."""
    figures, settings = record["figures"], record["settings"]
    drawn = {"robustness": _stresses(figures, settings)}
    if own := part_of(figures):
        drawn["robustness_paper"] = _stresses(own, of_paper(settings))
    drift, (panel,) = panels(1, width=6.4, height=3.8)
    _draw_drift(panel, figures, settings)
    return drawn | {"robustness_drift": drift}


def _stresses(figures: dict[str, float], settings: dict[str, Any]) -> Figure:
    """Draw noise and miscalibration, a row of panels for each shift."""
    factors, sets = settings["factors"], settings["sets"][:3]
    figure, axes = panels(3, n_rows=2 * len(factors), width=3.5, height=2.7)
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    for number, factor in enumerate(factors):
        row = axes[3 * number : 3 * number + 3]
        for own, name in zip(row, sets, strict=False):
            _draw_noise(own, figures, name, factor, settings)
            own.set_title(f"({next(letters)}) Noise, {name.replace('_', ' ')}, {at_factor(factor)}")
        for own in row[len(sets) :]:
            own.set_visible(False)
    label = "F1, all sets" if len(settings["sets"]) > 1 else f"F1, {sets[0].replace('_', ' ')}"
    for number, factor in enumerate(factors, start=len(factors)):
        for own, family in zip(axes[3 * number : 3 * number + 3], DRAWN_FAMILIES, strict=True):
            _draw_faults(own, figures, family, factor)
            own.set_title(f"({next(letters)}) Log ratios {family}, {at_factor(factor)}")
            own.set_ylabel(label)
    handles = {label: handle for own in axes for handle, label in zip(*own.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
    return figure


def _draw_lines(axes: Axes, x: list[float], curves: dict[str, list[float]]) -> None:
    for name, values in curves.items():
        colour, line, marker = LOOK[name]
        axes.plot(
            x, values, color=COLOURS[colour], linestyle=line, marker=marker, markersize=3.5,
            linewidth=1.1 if not marker else 1.6, label=name,
        )  # fmt: skip


def _draw_noise(axes: Axes, figures: dict[str, float], name: str, factor: float, settings: dict[str, Any]) -> None:
    def curve(measure: str) -> list[float]:
        return [figures[f"noise/{name}/{level:g}/{factor:g}/{measure}"] for level in settings["noise"]]

    axes.fill_between(
        settings["noise"], 0.0, curve("alarm"), color=COLOURS["amber"], alpha=0.2, linewidth=0.0,
        label="streams with an alarm (fraction)",
    )  # fmt: skip
    _draw_lines(axes, settings["noise"], {method: curve(method) for method in METHODS})
    if (name, factor) == (CLAIMED_SET, SHIFTED):
        beyond, f1 = NOISE_FAILURE
        axes.plot(
            list(NOISE_F1), list(NOISE_F1.values()), color="black", linestyle="", marker="*", label="F1 in the paper"
        )
        axes.plot(
            [beyond, max(settings["noise"])],
            [f1, f1],
            color="black",
            linewidth=2.2,
            label="F1 in the paper: below this",
        )
    axes.set(ylim=(0.0, 1.02), xlabel="noise (standard deviations within a class)", ylabel="F1")


def _draw_faults(axes: Axes, figures: dict[str, float], family: str, factor: float) -> None:
    def curve(measure: str) -> list[float]:
        return [figures[f"miscalibration/{family}/{step}/{measure}"] for step in families(figures)[family]]

    errors = curve("ece")
    axes.fill_between(
        errors, 0.0, curve("refuse"), color=COLOURS["sky"], alpha=0.3, linewidth=0.0,
        label="models the gate refuses (fraction)",
    )  # fmt: skip
    _draw_lines(axes, errors, {method: curve(f"{factor:g}/{method}") for method in METHODS})
    text = ", ".join(f"{rival} ({limit:.2f})" for rival, limit in CROSSINGS.items())
    for limit in CROSSINGS.values():
        axes.axvline(limit, color="black", linewidth=1.0, linestyle=(0, (1, 3)), label=f"paper: falls below {text}")
    axes.set(ylim=(0.0, 1.02), xlabel="calibration error (ECE) at prior 1/2")


def _draw_drift(axes: Axes, figures: dict[str, float], settings: dict[str, Any]) -> None:
    curves = {name: [figures[f"drift/{drift:g}/{name}"] for drift in settings["drifts"]] for name in TRACKERS}
    _draw_lines(axes, settings["drifts"], curves)
    for limit, text in (
        (DRIFT_FINE, "the paper: a moving\naverage is well\nsuited up to this"),
        (DRIFT_TOO_FAST, "and fails\nbeyond this"),
    ):
        axes.axvline(limit, color=COLOURS["grey"], linewidth=0.9, linestyle=(0, (1, 3)))
        axes.annotate(
            text, (limit, 1.0), xycoords=("data", "axes fraction"), xytext=(-4, -2), textcoords="offset points",
            ha="right", va="top", fontsize=7.0,
        )  # fmt: skip
    highest = 1.25 * max(max(curve) for curve in curves.values())
    axes.set(
        xscale="log", xlabel="drift of the prior a row", ylabel="excess cost over the oracle, %", ylim=(0.0, highest)
    )
    axes.set_xticks([0.001, 0.01, 0.1], ["0.001", "0.01", "0.1"])
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
