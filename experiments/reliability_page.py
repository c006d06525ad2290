"""Write the table and draw the plots of `experiments.reliability`."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.markdown import markdown_table
from experiments.paper_claims import CALIBRATION_ERROR
from experiments.plots import COLOURS, panels

METHODS = {"none": "as trained", "temperature": "temperature scaling", "affine": "obil's calibration"}
LOWEST = 2e-4  # fraction that the diagram with log axes shows
REFERENCES = ("exact", "kernel density")
# what is drawn: the paper's three, and the squared error where it learns
DRAWN = {
    "squared_error/original/none": ("squared error", "orange", "--", "x"),
    "cross_entropy/original/none": ("cross-entropy", "blue", "-", "o"),
    "cross_entropy/original/temperature": ("cross-entropy, temperature", "sky", "-.", "s"),
    "squared_error/10/none": ("squared error, trained at 10:1", "green", ":", "^"),
}


def table(figures: dict[str, float], settings: dict[str, Any]) -> str:
    """Write the figures as Markdown."""
    fraction = settings["test_share"]
    stuck = [
        f"{figures[f'{data}/squared_error/original/none/stuck']:.0%} of {count} on {where}"
        for data, count, where in (
            ("mammography", settings["splits"], "mammography"),
            ("known", settings["draws"], "normal classes"),
        )
        if f"{data}/squared_error/original/none/stuck" in figures
    ]
    parts = [
        "**Calibration of the paper's network** (128, 64, 32 units) by loss, one network per fit; means over "
        f"{settings['splits']} splits of mammography with {fraction:.0%} held out, in brackets the standard deviation "
        f"from split to split. ECE: {settings['n_bins']} equally wide bins. At the rows' own prior it can hardly be "
        "large, whatever the ratio: nearly all posteriors are near 0. At 1/2 both classes weigh the same; offset and "
        "slope are what recalibrating the held-out rows would still add to the log ratio (slope held at 1) and "
        "multiply it by (ideal 0 and 1). The paper does not say at which class ratio its networks were trained; 10:1 "
        "is one of its associated problems. Temperature scaling is the paper's, sigma(z / T) (Guo et al. 2017): the "
        "logit at the training prior is divided, and the prior odds with it. "
        f"Stuck: area under the ROC below {settings['least_area']:g}. "
        "Refused: by obil's gate, on the held-out rows.\n",
        _calibration_table(figures, "mammography"),
        f"**The same on normal classes** ({settings['known_features']} features, {settings['known_separation']:g} "
        f"standard deviations apart, {settings['known_rows']:,} rows at prior {settings['known_prior']:g}; "
        f"{settings['draws']} draws). The exact ratios show what chance alone makes of each figure.\n",
        _calibration_table(figures, "known"),
        "**Log ratios against a reference**, both classes weighted alike, everything beyond "
        f"{settings['largest_log_ratio']:g} counted as {settings['largest_log_ratio']:g}; up to "
        f"{settings['rows_compared']:,} test rows. On mammography the reference is the paper's, a kernel density of "
        "each class, itself an estimate in 6 dimensions from some 180 positives. How good such a reference is shows "
        "on the normal classes, where it is held against the truth like everything else.\n",
        _ratio_table(figures),
    ]
    if stuck:
        parts.append(
            f"Networks trained with squared error at the original class ratio that got stuck: {'; '.join(stuck)}.\n"
        )
    return "\n".join(parts)


def _names(figures: dict[str, float], data: str) -> list[str]:
    """Return what was measured on a set, in order."""
    keys = (key.removeprefix(f"{data}/") for key in figures if key.startswith(f"{data}/"))
    return list(dict.fromkeys(key.rpartition("/")[0] for key in keys))


def _label(name: str) -> list[str]:
    """Return loss, class ratio and calibration as text."""
    if name in REFERENCES:
        return [{"exact": "the exact ratios"}.get(name, name), "", ""]
    loss, class_ratio, method = name.split("/")
    return [{"squared_error": "squared error"}.get(loss, "cross-entropy"),
            class_ratio if class_ratio == "original" else f"{class_ratio}:1", METHODS[method]]  # fmt: skip


def _calibration_table(figures: dict[str, float], data: str) -> str:
    def with_spread(name: str, measure: str, form: str) -> str:
        key = f"{data}/{name}/{measure}"
        return f"{figures[key]:{form}} ({figures[f'sd {key}']:{form.removeprefix('+')}})"

    paper = data == "mammography"
    header = ["loss", "trained at", "calibration", *(["ECE, the paper's"] if paper else []), "ECE, own prior"]
    rows = [
        [
            *_label(name),
            *([f"{CALIBRATION_ERROR[name]:.3f}" if name in CALIBRATION_ERROR else ""] if paper else []),
            with_spread(name, "own_ece", ".4f"),
            with_spread(name, "ece", ".3f"),
            with_spread(name, "offset", "+.2f"),
            with_spread(name, "slope", ".2f"),
            with_spread(name, "auprc", ".3f"),
            f"{figures[f'{data}/{name}/stuck']:.0%}" if f"{data}/{name}/stuck" in figures else "",
            f"{figures[f'{data}/{name}/refused']:.0%}",
        ]
        for name in _names(figures, data)
    ]
    return markdown_table([*header, "ECE at 1/2", "offset", "slope", "AUPRC", "stuck", "refused"], rows)


def _ratio_table(figures: dict[str, float]) -> str:
    known = set(_names(figures, "known"))
    real = set(_names(figures, "mammography"))
    rows = []
    for name in dict.fromkeys([*_names(figures, "mammography"), *_names(figures, "known")]):
        if name == "exact":
            continue
        cells = []
        for data, present in (("mammography", real), ("known", known)):
            for measure in ("correlation", "rms"):
                is_reference = data == "mammography" and name == "kernel density"
                shown = name in present and not is_reference
                cells.append(f"{figures[f'{data}/{name}/{measure}']:.2f}" if shown else "")
        rows.append([*_label(name), *cells])
    header = ["loss", "trained at", "calibration", "mammography, kernel density: correlation", "rms"]
    return markdown_table([*header, "normal classes, the truth: correlation", "rms"], rows)


def plots(record: dict[str, Any]) -> dict[str, Figure]:
    """Draw the diagrams at both priors, and the log ratios against the kernel density and against the truth."""
    curves, settings = record["series"], record["settings"]
    figure, (own, even, kernel, known) = panels(2, n_rows=2, width=4.4, height=3.7)
    for axes, diagram in ((own, "own"), (even, "even")):
        axes.plot([0.0001, 1.0], [0.0001, 1.0], color=COLOURS["grey"], linewidth=1.0)
        for name, (label, colour, line, marker) in DRAWN.items():
            if f"{diagram}/mammography/{name}/promised" in curves:
                happened = curves[f"{diagram}/mammography/{name}/happened"]
                if diagram == "own":  # a bin without positives has no place on a log axis: it stands on the edge
                    happened = [max(fraction, LOWEST) for fraction in happened]
                axes.plot(
                    curves[f"{diagram}/mammography/{name}/promised"], happened, color=COLOURS[colour],
                    linestyle=line, marker=marker, markersize=4.0, linewidth=1.3, label=label,
                )  # fmt: skip
        axes.set(xlabel="mean posterior of a bin", ylabel="fraction of positives in it")
    own.set(
        xscale="log",
        yscale="log",
        xlim=(LOWEST, 1.2),
        ylim=(LOWEST, 1.2),
        title="(a) At the rows' own prior (log axes)",
    )
    even.set(title="(b) At prior 1/2, the same networks")
    handles, labels = own.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3)
    _draw_points(kernel, curves, "mammography", settings)
    _draw_points(known, curves, "known", settings)
    kernel.set(xlabel="log ratio by kernel density (an estimate)", title="(c) Mammography, one split")
    known.set(xlabel="true log ratio", title="(d) Normal classes, one draw")
    return {"reliability": figure}


def _draw_points(axes: Axes, curves: dict[str, list[float]], data: str, settings: dict[str, Any]) -> None:
    reach = settings["largest_log_ratio"]
    axes.plot([-reach, reach], [-reach, reach], color=COLOURS["grey"], linewidth=1.0)
    for name, (_, colour, _, marker) in DRAWN.items():
        if f"points/{data}/{name}" in curves:
            axes.plot(
                curves[f"points/{data}/reference"], curves[f"points/{data}/{name}"], color=COLOURS[colour],
                linestyle="", marker=marker, markersize=2.8, alpha=0.7, markeredgewidth=0.6, rasterized=True,
            )  # fmt: skip
    axes.set(xlim=(-1.05 * reach, 1.05 * reach), ylim=(-1.05 * reach, 1.05 * reach), ylabel="log ratio of the network")
