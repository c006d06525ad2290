"""Plot a plan: what adapting saves at each prior, and how many rows it takes."""

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from obil.evaluation.plan import Plan
from obil.evaluation.prior_plots import COLOURS


def draw_plan(found: Plan, path: Path) -> None:
    """Write a PNG of the saving and of the rows it takes, over the prior."""
    priors = [one.prior for one in found.priors]
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    saving, rows = figure.subplots(1, 2)
    saving.plot(priors, [one.saving for one in found.priors], "o-", color=COLOURS[1])
    saving.set(ylabel="saving per 1,000 rows", ylim=(min(0.0, *(one.saving for one in found.priors)), None))
    curves = (
        ("prior known", [one.rows_to_know for one in found.priors], "s--", COLOURS[0]),
        ("saving reached", [one.rows_to_save for one in found.priors], "o-", COLOURS[1]),
    )
    for name, values, style, colour in curves:
        known = [(prior, value) for prior, value in zip(priors, values, strict=True) if value is not None]
        rows.plot(*(zip(*known, strict=True) if known else ([], [])), style, color=colour, label=name)
    rows.set(ylabel="rows without labels", yscale="log")
    for axes in (saving, rows):
        axes.set_xscale("log")
        axes.set_xlabel(f"prior of {found.positive!s:.30}", parse_math=False)  # a $ in a name is only that
        axes.set_xticks(priors, [f"{prior:.3g}" for prior in priors], minor=False)
        axes.set_xticks([], minor=True)
        axes.axvline(found.training_prior, color="grey", linewidth=0.8, linestyle=":")
        axes.spines[["top", "right"]].set_visible(False)
    saving.annotate(
        "training prior", (found.training_prior, 1.0), xycoords=("data", "axes fraction"), xytext=(4, -4),
        textcoords="offset points", va="top", color="grey",
    )  # fmt: skip
    rows.legend(frameon=False)
    figure.savefig(path, dpi=130, format="png")
