"""Write the page of prediction sets from its figures."""

from experiments.markdown import markdown_table
from experiments.runner import Settings

NAMES = {
    "marginal": "marginal, at the bank's prior",
    "oracle": "marginal, at the true prior",
    "class": "by class, at the bank's prior",
    "class_fixed": "by class, at the training prior",
    "split": "split conformal, at the training prior",
    "ends": "marginal, at both ends of the 90 % interval",
    "mapie_lac": "MAPIE, LAC",
    "mapie_aps": "MAPIE, APS",
    "mapie_raps": "MAPIE, RAPS",
    "mapie_top_k": "MAPIE, top k",
    "crepes": "crepes",
    "crepes_class": "crepes, by class",
}
CIFAR_TEXT = """Means over {n_divisions} divisions of the labelled rows and five label shifts of {n_rows:,} rows.
Coverage asked for: {coverage:.0%} on CIFAR-10, {binary_coverage:.0%} on sets of two classes. A window has {window:,}
rows; its least and largest coverage, and that of the class covered least, are means over divisions. Coverage is
reached where no path and no window is short by more than {tolerance:g} and three standard errors. Libraries are run on
the first {n_library_divisions} divisions.

**CIFAR-10, ten classes.**
"""
RELATIVE_TEXT = """Marginal sets at the bank's prior have {relative:.3f} of the classes of sets by class at the training
prior, and {against:.3f} of those of sets by class at the bank's prior.{libraries}
"""
LIBRARIES_TEXT = " The smallest sets of a library that reaches coverage are {times:.2f} times as large."
BINARY_TEXT = """**Two classes.** A logistic regression; the prevalence moves between that of training and
{odds_factor:g} times its odds, along the same paths. Not one class: both or none, sent to a person.
"""


def sets_page(figures: dict[str, float], settings: Settings) -> str:
    """Return the tables of the page."""
    against = figures.get("cifar.marginal.against_libraries")
    relative = RELATIVE_TEXT.format(
        relative=figures["cifar.marginal.relative_size"],
        against=figures["cifar.marginal.against_class"],
        libraries="" if against is None else LIBRARIES_TEXT.format(times=1.0 / against),
    )
    rows = [
        [NAMES[method], *_row(figures, f"cifar.{method}", settings), f"{figures[f'cifar.{method}.size']:.3f}"]
        for method in NAMES
        if f"cifar.{method}.size" in figures
    ]
    binary = [
        [
            name,
            NAMES[method],
            *_row(figures, f"{name}.{method}", settings),
            f"{figures[f'{name}.{method}.not_one']:.3f}",
        ]
        for name in settings["binary_sets"]
        for method in NAMES
        if f"{name}.{method}.size" in figures
    ]
    header = ["sets", "coverage", "windows", "class covered least", "reached"]
    return "\n".join([
        CIFAR_TEXT.format(**settings),
        markdown_table([*header, "size"], rows),
        relative,
        BINARY_TEXT.format(**settings),
        markdown_table(["data set", *header, "not one class"], binary),
    ])  # fmt: skip


def _row(figures: dict[str, float], key: str, settings: Settings) -> list[str]:
    return [
        f"{figures[f'{key}.coverage']:.3f}",
        f"{figures[f'{key}.window.least']:.3f} to {figures[f'{key}.window.most']:.3f}",
        f"{figures[f'{key}.class.least']:.3f}",
        "yes" if figures[f"{key}.short"] <= settings["tolerance"] else "no",
    ]
