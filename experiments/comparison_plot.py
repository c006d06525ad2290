"""Draw F1 against the shift, with what the paper claims."""

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments import paper_claims
from experiments.baselines.names import BY_F1, policy_of
from experiments.plots import COLOURS, panels
from experiments.protocol import SET_NAMES, STAND_INS
from experiments.runner import Settings

LINES = {  # colour, line, marker; under the F1 policy unless the label says otherwise
    "OBIL default, best threshold in hindsight": ("grey", ":", ""),
    "OBIL default, oracle prior": ("black", "--", ""),
    "OBIL default, safe": ("orange", "-", "o"),
    "OBIL default, no adaptation": ("amber", "-.", "s"),
    "OBIL paper, Algorithm 2, F1 threshold": ("pink", "-", "v"),
    "OBIL paper, Algorithm 2": ("pink", ":", "v"),
    "boosting, tuned threshold": ("green", "-", "^"),
    "BBSE, F1 threshold": ("blue", "-", "D"),
    "BBSE": ("blue", ":", "D"),
    "SMOTE, F1 threshold": ("sky", "-", "P"),
    "SMOTE": ("sky", ":", "P"),
}
WITH_BARS = "OBIL default, safe"


def severity(figures: Mapping[str, float], settings: Settings) -> Figure:
    """Draw F1 against the imbalance ratio of the stream, a panel a set."""
    known = [own for name in settings["sets"] for own in (name, STAND_INS.get(name)) if own is not None]
    sets = [name for name in known if f"positives.{name}" in figures]
    factors: list[float] = settings["factors"]
    columns = min(len(sets) + 1, 3)
    figure, axes = panels(columns, n_rows=-(-(len(sets) + 1) // columns), width=3.4, height=2.7)
    claims = {min(factors): paper_claims.COMMONER_F1, 1.0: paper_claims.MATCHED_F1, max(factors): paper_claims.RARER_F1}
    for panel, name in zip(axes, sets, strict=False):
        for method, (colour, line, marker) in LINES.items():
            if f"f1.{factors[0]}.{method}.{name}" not in figures:  # a record from before both policies
                continue
            means = [figures[f"f1.{factor}.{method}.{name}"] for factor in factors]
            barred = method == WITH_BARS
            spread = [figures[f"sd.f1.{factor}.{method}.{name}"] for factor in factors] if barred else None
            panel.errorbar(
                range(len(factors)), means, yerr=spread, color=COLOURS[colour],
                linestyle=line, marker=marker, markersize=4.0, capsize=2.5,
                label=method if policy_of(method) == BY_F1 else f"{method} (least cost, as printed)",
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
    handles, labels = axes[0].get_legend_handles_labels()
    claimed = Line2D([], [], linestyle="", marker="o", markersize=7.0, markerfacecolor="none", color=COLOURS["grey"])
    axes[len(sets)].legend(
        [*handles, claimed], [*labels, "hollow: the paper's claim"], loc="center left", fontsize=7.5,
        title="bars: one standard deviation over splits",
    )  # fmt: skip
    return figure
