"""Write the comparison as tables beside the paper's, and draw F1 against the shift."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from experiments import paper_claims
from experiments.markdown import markdown_table
from experiments.pictures import COLOURS, panels
from experiments.runner import Settings

Figures = Mapping[str, float]
Claims = Mapping[str, Mapping[str, float]]

NAMES = {
    "yeast4": "Yeast4",
    "abalone19": "Abalone19",
    "sick_euthyroid": "Sick-euthyroid",
    "mammography": "Mammography",
    "thyroid_ann": "Thyroid",
    "creditcard": "Credit card",
}
SIGNIFICANT = 0.05
LINES = {  # what the picture shows: colour, line, marker
    "OBIL default, best threshold in hindsight": ("grey", ":", ""),
    "OBIL default, oracle prior": ("black", "--", ""),
    "OBIL default, bank": ("orange", "-", "o"),
    "OBIL default, no adaptation": ("amber", "-.", "s"),
    "OBIL paper, Algorithm 2": ("pink", "-", "v"),
    "boosting, tuned threshold": ("green", "-", "^"),
    "BBSE": ("blue", "--", "D"),
    "SMOTE": ("sky", "-.", "P"),
}


def tables(figures: Figures, settings: Settings) -> str:
    """Write every table as Markdown."""
    sets = [name for name in settings["sets"] if f"positives.{name}" in figures]
    absent = [NAMES[name] for name in settings["sets"] if name not in sets]
    low, high = min(settings["factors"]), max(settings["factors"])
    few = [name for name in sets if figures[f"positives.{name}"] < settings["fewest_positives"]]
    head = (
        f"Means over {settings['splits']} stratified, duplicate-safe splits ({settings['test_share']:.0%} held out) "
        f"and {settings['draws']} streams of {settings['n_rows']:,} rows at each imbalance ratio, drawn from the "
        "held-out rows; each row is decided with what was known before it. Every baseline was tuned on a validation "
        "part over at most six settings. In brackets: the paper's figure. **Bold**: the best that could be deployed; "
        "~: not significantly different from it (Wilcoxon signed-rank over splits, Holm's correction, "
        f"{SIGNIFICANT:.0%}). In italics: ceilings, which know what nobody knows."
    )
    if absent:
        head += f" Left out, because not at hand or not finished: {', '.join(absent)}."
    if few:
        head += f" Marked *: fewer than {settings['fewest_positives']} positives held out, so a figure says little."
    titles = {
        "f1.1.0": ("## F1, matched", paper_claims.MATCHED_F1),
        f"f1.{low}": (f"## F1 where positives are more common (Qp x {low:g})", paper_claims.COMMONER_F1),
        f"f1.{high}": (f"## F1 where positives are rarer (Qp x {high:g})", paper_claims.RARER_F1),
        "gmean.1.0": ("## G-mean, matched", paper_claims.MATCHED_GMEAN),
        "auprc.1.0": ("## AUPRC, matched", paper_claims.MATCHED_AUPRC),
    }
    parts = [head + "\n"]
    for key, (title, claims) in titles.items():
        parts += [title + "\n", _by_set(figures, key, sets, claims, few)]
    parts += ["## All shifts\n", _shifts(figures, sets, settings)]
    parts += ["## What adapting gains\n", _gains(figures, sets, low, high)]
    parts += ["## Calibration error and cost\n", _means(figures, sets, settings)]
    parts += ["## The paper's protocol: held-out rows thinned\n", _thinned(figures, sets, settings)]
    if "thyroid_ann" in sets:
        parts += ["## Thyroid, cross-site\n", _cross_site(figures, high)]
    return "\n".join(parts)


def contenders(figures: Figures, key: str, name: str) -> list[str]:
    """Return the methods that were tested against the best: all but the ceilings."""
    start, end = f"p.{key}.", f".{name}"
    return [found[len(start) : -len(end)] for found in figures if found.startswith(start) and found.endswith(end)]


def _ordered(figures: Figures, key: str, name: str) -> tuple[list[str], list[str]]:
    """Return contenders and ceilings, ours last, each in the order in which they were measured."""
    start, end = f"{key}.", f".{name}"
    methods = [found[len(start) : -len(end)] for found in figures if found.startswith(start) and found.endswith(end)]
    tested = set(contenders(figures, key, name)) or set(methods)
    running = sorted((m for m in methods if m in tested), key=lambda m: (m.startswith("OBIL"), methods.index(m)))
    return running, [method for method in methods if method not in tested]


def _by_set(figures: Figures, key: str, sets: Sequence[str], claims: Claims, few: Sequence[str]) -> str:
    """Return one measure: a row a method, a column a set."""
    running, ceilings = _ordered(figures, key, sets[0])
    best = {name: max(running, key=lambda m: figures[f"{key}.{m}.{name}"]) for name in sets}

    def cell(method: str, name: str) -> str:
        value, spread = figures[f"{key}.{method}.{name}"], figures.get(f"sd.{key}.{method}.{name}", 0.0)
        text = f"{value:.3f} ± {spread:.3f}"
        if method == best[name]:
            text = f"**{text}**"
        elif figures.get(f"p.{key}.{method}.{name}", 0.0) > SIGNIFICANT:
            text += " ~"
        claimed = claims.get(method, {}).get(name)
        return text + (f" [{claimed:.2f}]" if claimed is not None else "")

    header = ["method", *(NAMES[name] + ("*" if name in few else "") for name in sets)]
    rows = [[method, *(cell(method, name) for name in sets)] for method in running]
    rows += [[f"*{method}*", *(cell(method, name) for name in sets)] for method in ceilings]
    return markdown_table(header, rows)


def _shifts(figures: Figures, sets: Sequence[str], settings: Settings) -> str:
    """Return F1 at every ratio, as the mean over sets."""
    running, ceilings = _ordered(figures, "f1.1.0", sets[0])
    rows = []
    for method in (*running, *ceilings):
        means = [sum(figures[f"f1.{f}.{method}.{name}"] for name in sets) / len(sets) for f in settings["factors"]]
        title = f"*{method}*" if method in ceilings else method
        rows.append([title, *(f"{mean:.3f}" for mean in means), f"{sum(means) / len(means):.3f}"])
    header = ["method", *(f"Qp x {factor:g}" for factor in settings["factors"]), "mean"]
    return "F1, means over the sets.\n\n" + markdown_table(header, rows)


def _gains(figures: Figures, sets: Sequence[str], low: float, high: float) -> str:
    rows = []
    for tracker in ("bank", "safe"):
        for factor in (low, high):
            key = f"adapting.{factor}.{tracker}"
            each = [f"{figures[f'gain.{key}.{name}']:+.3f}" for name in sets]
            rows.append(
                [f"{tracker}, Qp x {factor:g}", *each, f"{figures[f'gain.{key}']:+.3f}", f"{figures[f'p.{key}']:.2g}"]
            )
    words = (
        "F1 of the default model with its tracker minus the same model that stays at the training prior; p: Wilcoxon "
        "signed-rank over all splits of all sets together, one-sided. Over all sets and shifts the default with the "
        f"bank is {figures['below_oracle.bank']:+.4f} below its oracle prior and {figures['above_boosting.bank']:+.4f} "
        f"above boosting with a tuned threshold; with the safe tracker {figures['below_oracle.safe']:+.4f} and "
        f"{figures['above_boosting.safe']:+.4f}.\n"
    )
    return words + "\n" + markdown_table(["tracker", *(NAMES[name] for name in sets), "mean", "p"], rows)


def _means(figures: Figures, sets: Sequence[str], settings: Settings) -> str:
    """Return calibration error and cost at three ratios, as means over sets."""
    factors = (min(settings["factors"]), 1.0, max(settings["factors"]))
    running, _ = _ordered(figures, "f1.1.0", sets[0])
    running += [m for m in _ordered(figures, "ece.1.0", sets[0])[0] if m not in running]
    rows = [
        [
            method,
            *(
                f"{sum(figures[f'{measure}.{factor}.{method}.{name}'] for name in sets) / len(sets):.4f}"
                for measure in ("ece", "cost")
                for factor in factors
            ),
        ]
        for method in running
    ]
    header = ["method", *(f"{m} at Qp x {factor:g}" for m in ("ECE", "cost") for factor in factors)]
    words = (
        "ECE of the probabilities at the stream's own balance (10 bins), and the mean cost with Qc = 1: the share of "
        "errors when each row is decided at probability 1/2, whatever rule the method uses for F1. Means over sets.\n"
    )
    return words + "\n" + markdown_table(header, rows)


def _thinned(figures: Figures, sets: Sequence[str], settings: Settings) -> str:
    factors = (min(settings["factors"]), 1.0, max(settings["factors"]))
    running, _ = _ordered(figures, "thinned.1.0", sets[0])
    rows = [
        [
            method,
            *(
                f"{figures[f'{key}.{method}.{name}']:.3f} ± {figures[f'sd.{key}.{method}.{name}']:.2f}"
                for name in sets
                for key in (f"thinned.{factor}" for factor in factors)
            ),
        ]
        for method in running
    ]
    left = ", ".join(
        f"{NAMES[name]} {min(figures[f'positives.{name}'], figures[f'positives.{name}'] / factors[-1]):.0f}"
        for name in sets
    )
    words = (
        "F1 when one class of the held-out rows is thinned to each ratio and every row is decided once: a stream of at "
        "most some thousand rows, which leaves a tracker little time, and few positives at the highest ratio "
        f"({left}).\n"
    )
    header = ["method", *(f"{NAMES[name]} x {factor:g}" for name in sets for factor in factors)]
    return words + "\n" + markdown_table(header, rows)


def _cross_site(figures: Figures, high: float) -> str:
    claims = paper_claims.CROSS_SITE
    measures = {"f1": "F1", "gmean": "G-mean", "auprc": "AUPRC"}
    running, ceilings = _ordered(figures, f"f1.{high}", "thyroid_ann")
    rows = []
    for method in (*running, *ceilings):
        values = []
        for measure in measures:
            value = figures.get(f"{measure}.{high}.{method}.thyroid_ann")
            claimed = claims.get(method, {}).get(measure)
            shown = "" if value is None else f"{value:.3f}"
            values.append(shown + (f" [{claimed:.2f}]" if claimed is not None else ""))
        rows.append([f"*{method}*" if method in ceilings else method, *values])
    words = (
        f"Trained as it is, tested at {high:g} times the imbalance ratio: positives are rarer, as in primary care.\n"
    )
    return words + "\n" + markdown_table(["method", *measures.values()], rows)


def severity(figures: Figures, settings: Settings) -> Figure:
    """Draw F1 against the imbalance ratio of the stream, a panel a set."""
    sets = [name for name in settings["sets"] if f"positives.{name}" in figures]
    columns = min(len(sets) + 1, 3)
    figure, axes = panels(columns, n_rows=-(-(len(sets) + 1) // columns), width=3.4, height=2.7)
    positions = range(len(settings["factors"]))
    for panel, name in zip(axes, sets, strict=False):
        for method, (colour, line, marker) in LINES.items():
            means = [figures[f"f1.{factor}.{method}.{name}"] for factor in settings["factors"]]
            spread = [figures[f"sd.f1.{factor}.{method}.{name}"] for factor in settings["factors"]]
            panel.errorbar(
                positions, means, yerr=spread if method == "OBIL default, bank" else None, color=COLOURS[colour],
                linestyle=line, marker=marker, markersize=4.0, capsize=2.5, label=method,
            )  # fmt: skip
        panel.set_title(NAMES[name])
        panel.set_xticks(list(positions), [f"x {factor:g}" for factor in settings["factors"]])
        panel.set_xlabel("imbalance ratio, times that of training")
        panel.set_ylabel("F1")
        panel.set_ylim(bottom=0.0)
    for spare in axes[len(sets) :]:
        spare.axis("off")
    handles, labels = axes[0].get_legend_handles_labels()
    axes[len(sets)].legend(handles, labels, loc="center left", title="bars: one sd over splits", fontsize=8.5)
    return figure
