"""Turn an error of the posterior into one of the likelihood ratio: as printed, as it is, and as simulated.

The paper's theorem bounds the relative error of the ratio, its corollary and its rule of thumb (a calibration error
below .05 before deployment) rest on it. Nothing is trained here: every figure follows from the posterior alone.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from experiments.markdown import markdown_table
from experiments.paper_claims import RATIO_ERROR
from experiments.paper_formulas import log_ratios_from_posterior, printed_ratio_error_bound, ratio_error_bound
from experiments.plots import COLOURS, panels
from experiments.runner import Cell, Settings
from obil.arrays import FloatArray

LIMIT = next(iter(RATIO_ERROR.items()))  # the error before deployment, and what it is said to keep the ratio to
CURVES = ("true", "printed", "simulated")
CURVE_COLOURS = ("blue", "orange", "green", "pink")


def cells(settings: Settings) -> list[Cell]:
    """List the work: one curve for each error, and the landscape."""
    return [*({"error": error} for error in settings["errors"]), {"error": None}]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Compute one curve, or measure the landscape."""
    return _landscape_figures(settings) if cell["error"] is None else _curve(cell["error"], settings)


def _curve(error: float, settings: Settings) -> dict[str, Any]:
    """Return the relative errors at posteriors that are further than `error` from 0 and 1."""
    posteriors = _posteriors(error, settings)
    return {
        "true": ratio_error_bound(posteriors, error).tolist(),
        "printed": printed_ratio_error_bound(posteriors, error).tolist(),
        "simulated": simulated_worst_errors(
            posteriors, error, settings["estimates"], prior=settings["training_prior"], seed=settings["seed"]
        ).tolist(),
    }


def simulated_worst_errors(
    posteriors: FloatArray, error: float, n_estimates: int, *, prior: float, seed: int
) -> FloatArray:
    """Return the largest relative error of the ratio over random estimates within `error` of each posterior, (n,).

    No bound is used: truth and estimates become ratios as those of a network would, and the ratios are compared.
    """
    estimates = posteriors[:, None] + np.random.default_rng(seed).uniform(-error, error, (len(posteriors), n_estimates))
    true, estimated = _log_ratio(posteriors, prior), _log_ratio(estimates.ravel(), prior).reshape(estimates.shape)
    worst: FloatArray = np.abs(np.expm1(estimated - true[:, None])).max(axis=1)
    return worst


def _log_ratio(posteriors: FloatArray, prior: float) -> FloatArray:
    return log_ratios_from_posterior(np.stack([1.0 - posteriors, posteriors], axis=1), prior)[:, 1]


def _posteriors(error: float, settings: Settings) -> FloatArray:
    """Return the posteriors of a curve, a little inside of where a bound exists."""
    return np.linspace(1.02 * error, 1.0 - 1.02 * error, settings["curve_points"])


def _landscape_figures(settings: Settings) -> dict[str, Any]:
    """Return on what fractions of the (posterior, error) plane the printed bound and the rule of thumb are wrong."""
    posteriors, errors = _landscape_axes(settings)
    true, _ = landscape(posteriors, errors)
    found = printed_bound_figures(posteriors, errors)
    inside = _within(posteriors, settings) & np.isfinite(true)
    for error, claimed in RATIO_ERROR.items():
        covered = inside & (errors[:, None] < error)
        found[f"holds.{error}"] = float((true <= claimed)[covered].mean())
    return found


def _landscape_axes(settings: Settings) -> tuple[FloatArray, FloatArray]:
    """Return the middles of equal cells: of posteriors in (0, 1) and of errors up to the largest."""
    middles = (np.arange(settings["landscape_points"]) + 0.5) / settings["landscape_points"]
    return middles, settings["largest_error"] * middles


def landscape(posteriors: FloatArray, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the true and the printed bound, (errors, posteriors); NaN where the error reaches 0 or 1."""
    true, printed = (np.full((len(errors), len(posteriors)), np.nan) for _ in range(2))
    for row, error in enumerate(errors):
        bounded = error < np.minimum(posteriors, 1.0 - posteriors)
        true[row, bounded] = ratio_error_bound(posteriors[bounded], error)
        printed[row, bounded] = printed_ratio_error_bound(posteriors[bounded], error)
    return true, printed


def printed_bound_figures(posteriors: FloatArray, errors: FloatArray) -> dict[str, float]:
    """Return on what fraction of a plane the printed bound is violated, and from which posterior on.

    Only where the error reaches neither 0 nor 1, since there alone a bound exists.
    """
    true, printed = landscape(posteriors, errors)
    bounded = np.isfinite(true)
    violated = bounded & (true > printed * (1.0 + 1e-9))
    return {
        "points": float(bounded.sum()),
        "violated": float(violated.sum() / bounded.sum()),
        "first_violated": float(posteriors[violated.any(axis=0)].min()),
    }


def _within(posteriors: FloatArray, settings: Settings) -> npt.NDArray[np.bool_]:
    low, high = settings["claimed_range"]
    inside: npt.NDArray[np.bool_] = (posteriors >= low) & (posteriors <= high)
    return inside


def largest_allowed_error(posterior: float, relative: float) -> float:
    """Return the largest error of a posterior that keeps the ratio's relative error within `relative`.

    >>> round(largest_allowed_error(0.5, 0.15), 4)
    0.0349
    """
    return relative * posterior * (1.0 - posterior) / (1.0 + relative * posterior)


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the fractions of the plane, the claims against the truth, and how near a simulation comes to the bounds."""
    found = dict(next(result for cell, result in results if cell["error"] is None))
    for cell, result in results:
        if cell["error"] is not None:
            near = np.array(result["simulated"]) / np.array(result["true"])
            found[f"simulated_over_true.least.{cell['error']}"] = float(near.min())
            found[f"simulated_over_true.most.{cell['error']}"] = float(near.max())
    for error, claimed in RATIO_ERROR.items():
        for posterior in settings["table_posteriors"]:
            found[f"true.{error}.{posterior}"] = float(ratio_error_bound(posterior, error))
            found[f"printed.{error}.{posterior}"] = float(printed_ratio_error_bound(posterior, error))
            found[f"allowed.{claimed}.{posterior}"] = largest_allowed_error(posterior, claimed)
    return found


def series(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, list[float]]:
    """Return the curves over the posterior."""
    found: dict[str, list[float]] = {}
    for cell, result in results:
        if cell["error"] is not None:
            found[f"posterior.{cell['error']}"] = _posteriors(cell["error"], settings).tolist()
            found |= {f"{curve}.{cell['error']}": result[curve] for curve in CURVES}
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    posteriors = settings["table_posteriors"]
    low, high = settings["claimed_range"]
    rows = []
    for error, claimed in RATIO_ERROR.items():
        rows += [
            [f"{error:g}", "as claimed", *[f"below {claimed:.0%}"] * len(posteriors)],
            ["", "by the printed bound", *(f"{figures[f'printed.{error}.{p}']:.1%}" for p in posteriors)],
            ["", "in truth", *(f"{figures[f'true.{error}.{p}']:.1%}" for p in posteriors)],
            ["", f"error that keeps it to {claimed:.0%}",
             *(f"{figures[f'allowed.{claimed}.{p}']:.4f}" for p in posteriors)],
        ]  # fmt: skip
    fractions = " ".join(
        f"An error below {error:g} keeps the ratio within {claimed:.0%} on {figures[f'holds.{error}']:.0%} of the "
        f"plane between posteriors of {low:g} and {high:g}."
        for error, claimed in RATIO_ERROR.items()
    )
    least = min(figures[f"simulated_over_true.least.{error}"] for error in settings["errors"])
    most = max(figures[f"simulated_over_true.most.{error}"] for error in settings["errors"])
    return "\n".join(
        [
            "**How large the relative error of the likelihood ratio can be** when a posterior P* is reported with an "
            "error of at most the size given. Nothing is trained: the figures follow from the formulas, and "
            f"{settings['estimates']:,} random estimates at each of {settings['curve_points']} posteriors bear them "
            "out.\n",
            markdown_table(["error", "relative error of the ratio", *(f"P* = {p:g}" for p in posteriors)], rows),
            f"The printed bound is violated from P* = {figures['first_violated']:.3f} on: on {figures['violated']:.1%} "
            f"of the plane of P* and errors up to {settings['largest_error']:g} (where a bound exists). "
            "Near 0 it is too large by far. "
            f"The worst random estimates come to between {least:.2f} and {most:.2f} of the true bound, so that it is "
            f"reached and never passed. {fractions}\n",
            "The claim is read as generously as can be: as an error of every posterior. A calibration error (ECE) is "
            "an average over rows, so that it bounds no single one of them.\n",
        ]
    )


def plots(record: dict[str, Any]) -> dict[str, Figure]:
    """Draw the curves of the paper's figure and the landscape, with where the printed bound fails."""
    figure, (curves, plane) = panels(2, width=4.8, height=3.9)
    _draw_curves(curves, record["series"], record["settings"])
    _draw_landscape(figure, plane, record["settings"])
    return {"error_propagation": figure}


def _draw_curves(axes: Axes, curves: dict[str, list[float]], settings: Settings) -> None:
    handles = []
    for colour, error in zip(CURVE_COLOURS, settings["errors"], strict=False):
        x, shade = curves[f"posterior.{error}"], COLOURS[colour]
        axes.plot(x, curves[f"true.{error}"], color=shade)
        axes.plot(x, curves[f"printed.{error}"], color=shade, linestyle="--")
        axes.plot(x[::6], curves[f"simulated.{error}"][::6], color=shade, linestyle="", marker="o", markersize=3.0)
        handles.append(Line2D([], [], color=shade, linewidth=4.0, label=f"error {error:g}"))
    handles += [
        Line2D([], [], color="black", label="true bound"),
        Line2D([], [], color="black", linestyle="--", label="printed bound"),
        Line2D([], [], color="black", linestyle="", marker="o", markersize=3.0, label="worst simulated"),
        Line2D([], [], color=COLOURS["grey"], linestyle=":", label=f"{LIMIT[1]:.0%}, the paper's limit"),
    ]
    axes.axhline(LIMIT[1], color=COLOURS["grey"], linestyle=":")
    axes.set(
        yscale="log", ylim=(0.03, 30.0), xlim=(0.0, 1.0), xlabel="true posterior P*",
        ylabel="largest relative error of the ratio", title="(a) Bounds and simulation",
    )  # fmt: skip
    axes.set_yticks([0.05, 0.15, 0.5, 1.0, 5.0, 20.0], ["5 %", "15 %", "50 %", "1x", "5x", "20x"])
    axes.minorticks_off()
    axes.legend(handles=handles, loc="upper center", ncols=2)


def _draw_landscape(figure: Figure, axes: Axes, settings: Settings) -> None:
    posteriors, errors = _landscape_axes(settings)
    true, printed = landscape(posteriors, errors)
    shown = axes.pcolormesh(
        posteriors, errors, true, cmap="Greys", norm=LogNorm(0.02, 60.0), rasterized=True, shading="nearest"
    )
    violated = np.where(np.isfinite(true), (printed < true).astype(np.float64), 0.0)
    with np.errstate(invalid="ignore"):
        axes.contourf(posteriors, errors, violated, levels=[0.5, 1.5], colors="none", hatches=["//"])
    styles = ("-", "--", "-.")
    for level, colour, line in zip(settings["contours"], ("blue", "orange", "green"), styles, strict=True):
        axes.contour(posteriors, errors, true, levels=[level], colors=[COLOURS[colour]], linestyles=[line],
                     linewidths=1.8)  # fmt: skip
    handles: list[Any] = [
        Line2D([], [], color=COLOURS[colour], ls=line, label=f"{100 * level:g} % error")
        for level, colour, line in zip(settings["contours"], ("blue", "orange", "green"), styles, strict=True)
    ]
    handles += [
        Patch(facecolor="none", edgecolor="black", hatch="//", label="printed bound violated"),
        Line2D(
            [], [], color=COLOURS["black"], linewidth=3.0, label=f"error {LIMIT[0]:g}: claimed below {LIMIT[1]:.0%}"
        ),
    ]
    axes.plot(settings["claimed_range"], [LIMIT[0]] * 2, color=COLOURS["black"], linewidth=3.0)
    axes.set(
        xlim=(0.0, 1.0), ylim=(0.0, settings["largest_error"]), xlabel="true posterior P*",
        ylabel="error of the posterior", title="(b) True bound on the ratio's relative error",
    )  # fmt: skip
    axes.grid(False)
    bar = figure.colorbar(shown, ax=axes, ticks=[0.1, 1.0, 10.0], extend="both")
    bar.ax.set_yticklabels(["10 %", "1x", "10x"])
    bar.ax.minorticks_off()
    figure.legend(handles=handles, loc="outside lower right", ncols=3)
