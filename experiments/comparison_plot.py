"""Draw F1 against the shift, with what the paper claims."""

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments import paper_claims
from experiments.plots import COLOURS, panels
from experiments.protocol import SET_NAMES
from experiments.runner import Settings

LINES = {  # colour, line, marker
    "OBIL default, best threshold in hindsight": ("grey", ":", ""),
    "OBIL default, oracle prior": ("black", "--", ""),
    "OBIL default, safe": ("orange", "-", "o"),
    "OBIL default, no adaptation": ("amber", "-.", "s"),
    "OBIL paper, Algorithm 2": ("pink", "-", "v"),
    "boosting, tuned threshold": ("green", "-", "^"),
    "BBSE": ("blue", "--", "D"),
    "SMOTE": ("sky", "-.", "P"),
}
WITH_BARS = "OBIL default, safe"


def severity(figures: Mapping[str, float], settings: Settings) -> Figure:
    """Draw F1 against the imbalance ratio of the stream, a panel a set."""
    sets = [name for name in settings["sets"] if f"positives.{name}" in figures]
    factors: list[float] = settings["factors"]
    columns = min(len(sets) + 1, 3)
    figure, axes = panels(columns, n_rows=-(-(len(sets) + 1) // columns), width=3.4, height=2.7)
    claims = {min(factors): paper_claims.COMMONER_F1, 1.0: paper_claims.MATCHED_F1, max(factors): paper_claims.RARER_F1}
    for panel, name in zip(axes, sets, strict=False):
        for method, (colour, line, marker) in LINES.items():
            means = [figures[f"f1.{factor}.{method}.{name}"] for factor in factors]
            spread = [figures[f"sd.f1.{factor}.{method}.{name}"] for factor in factors]
            panel.errorbar(
                range(len(factors)), means, yerr=spread if method == WITH_BARS else None, color=COLOURS[colour],
                linestyle=line, marker=marker, markersize=4.0, capsize=2.5, label=method,
            )  # fmt: skip
            said = [
                (i, claims[f][method][name]) for i, f in enumerate(factors) if name in claims.get(f, {}).get(method, {})
            ]
            if said:
                panel.plot(
                    *zip(*said, strict=True), linestyle="", marker=marker, markersize=7.0, markerfacecolor="none",
                    markeredgecolor=COLOURS[colour], markeredgewidth=1.2,
                )  # fmt: skip
        panel.set_title(SET_NAMES[name])
        panel.set_xticks(range(len(factors)), [f"x {factor:g}" for factor in factors])
        panel.set_xlabel("imbalance ratio, times that of training")
        panel.set_ylabel("F1")
        panel.set_ylim(bottom=0.0)
    for spare in axes[len(sets) :]:
        spare.axis("off")
    handles, _ = axes[0].get_legend_handles_labels()
    claimed = Line2D([], [], linestyle="", marker="o", markersize=7.0, markerfacecolor="none", color=COLOURS["grey"])
    axes[len(sets)].legend(
        [*handles, claimed], [*LINES, "hollow: the paper's claim"], loc="center left", fontsize=8.5,
        title="bars: one standard deviation over splits",
    )  # fmt: skip
    return figure
