"""Draw mean ranks with the critical difference, and what adapting gains at each shift."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.confirm.deciding import ADAPTING, BAYES_BANK, TRUE_PRIOR
from experiments.confirm.effects import LEAGUES, MEASURES
from experiments.confirm.page import IN_LEAGUE, TITLES, ceiling
from experiments.plots import COLOURS, panels
from experiments.runner import Settings

LINES = {"adapting": (ADAPTING, "orange", "o"), "bank": (BAYES_BANK, "blue", "s")}


def ranks(figures: Mapping[str, float]) -> Figure:
    """Draw mean ranks, those that are not significantly different joined by a bar."""
    figure, axes = panels(2, n_rows=2, width=5.2, height=2.7)
    columns = [(measure, league) for measure in MEASURES for league in LEAGUES]
    for panel, (measure, league) in zip(axes, columns, strict=True):
        start = f"rank.{measure}.{league}."
        own = {key.removeprefix(start): value for key, value in figures.items() if key.startswith(start)}
        _diagram(panel, own, figures["critical_difference"])
        panel.set_title(f"{TITLES[measure]}, {IN_LEAGUE[league]}")
    return figure


def adapting(figures: Mapping[str, float], settings: Settings) -> Figure:
    """Draw the change by tracker at each shift, with intervals, and that of the true prior."""
    factors: list[float] = settings["factors"]
    figure, axes = panels(2, width=4.2, height=3.0)
    for panel, measure in zip(axes, MEASURES, strict=True):
        for place, (key, (label, colour, marker)) in enumerate(LINES.items()):
            keys = [f"{key}.{measure}.at.{factor}" for factor in factors]
            middle = [figures[one] for one in keys]
            bars = [
                [value - figures[f"low.{one}"] for one, value in zip(keys, middle, strict=True)],
                [figures[f"high.{one}"] - value for one, value in zip(keys, middle, strict=True)],
            ]
            panel.errorbar(
                [i + 0.08 * (2 * place - 1) for i in range(len(factors))], middle, yerr=bars, color=COLOURS[colour],
                marker=marker, markersize=4.5, capsize=2.5, label=label,
            )  # fmt: skip
        top = [ceiling(figures, measure, factor) for factor in factors]
        panel.plot(range(len(factors)), top, color=COLOURS["black"], linestyle="--", label=f"{TRUE_PRIOR} (ceiling)")
        panel.axhline(0.0, color=COLOURS["grey"], linewidth=0.8)
        panel.set_xticks(range(len(factors)), [f"x {factor:g}" for factor in factors])
        panel.set_xlabel("imbalance ratio, times that of training")
        panel.set_ylabel(f"change of {TITLES[measure]}")
        panel.set_title("F1: up is better" if measure == "f1" else "cost: down is better")
    axes[0].legend()
    return figure


def joined(ordered: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """Return the longest runs (first, last) of ordered ranks whose ends are not significantly different.

    >>> joined([1.0, 1.5, 2.5, 4.0], 1.2)
    [(0, 1), (1, 2)]
    """
    found: list[tuple[int, int]] = []
    for first, rank in enumerate(ordered):
        last = max(i for i, other in enumerate(ordered) if other - rank <= difference)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def _diagram(panel: Axes, own: Mapping[str, float], difference: float) -> None:
    names = sorted(own, key=own.__getitem__)
    ordered = [own[name] for name in names]
    count, half = len(names), -(-len(names) // 2)
    bars = joined(ordered, difference)
    lowest = -0.35 - 0.3 * len(bars)
    left, right = 1.0 - 0.2, count + 0.2
    for place, (name, rank) in enumerate(zip(names, ordered, strict=True)):
        is_left = place < half
        depth = lowest - 0.55 * (place if is_left else count - 1 - place)
        edge = left if is_left else right
        bold = "bold" if name == "OBIL default" else "normal"
        panel.plot([rank, rank, edge], [0.0, depth, depth], color=COLOURS["black"], linewidth=0.9)
        panel.text(
            edge + (-0.1 if is_left else 0.1), depth, f"{name} {rank:.2f}", va="center", fontsize=8.0,
            ha="right" if is_left else "left", fontweight=bold,
        )  # fmt: skip
    for level, (first, last) in enumerate(bars):
        height = -0.3 - 0.3 * level
        panel.plot(
            [ordered[first] - 0.05, ordered[last] + 0.05], [height] * 2, color=COLOURS["orange"], linewidth=3.0,
            solid_capstyle="butt",
        )  # fmt: skip
    panel.plot([1.0, count], [0.0, 0.0], color=COLOURS["black"], linewidth=1.2)
    for rank_ in range(1, count + 1):
        panel.plot([rank_, rank_], [0.0, 0.12], color=COLOURS["black"], linewidth=0.9)
        panel.text(rank_, 0.2, f"{rank_}", ha="center", va="bottom", fontsize=8.0)
    panel.plot([1.0, min(1.0 + difference, count)], [1.0, 1.0], color=COLOURS["blue"], linewidth=2.0)
    panel.text(1.0, 1.1, f"critical difference {difference:.2f}", va="bottom", fontsize=8.0)
    panel.set_xlim(left - 4.2, right + 4.2)
    panel.set_ylim(lowest - 0.55 * half, 1.7)
    panel.axis("off")
