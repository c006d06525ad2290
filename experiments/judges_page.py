"""Write the page on prevalence from a judge from its figures."""

from experiments.markdown import markdown_table
from experiments.runner import Settings

NAMES = {
    "integrated": "`prevalence_from_judge`",
    "profile": "maximum likelihood, profile interval",
    "likelihood": "maximum likelihood, Fisher information",
    "likelihood_logit": "maximum likelihood, Fisher information, logit",
    "ppi_plus_plus": "PPI++",
    "ppi_plus_plus_logit": "PPI++, logit",
    "ppi": "PPI",
    "ppi_logit": "PPI, logit",
    "rogan_gladen": "Rogan-Gladen, delta method",
    "rogan_gladen_logit": "Rogan-Gladen, delta method, logit",
    "exact": "Rogan-Gladen, exact",
}
BY_CELL = ("integrated", "profile", "ppi_plus_plus_logit", "ppi", "rogan_gladen", "exact")
TEXT = """{n_labels} labels of {n_items} items; the other {n_judged} have verdicts alone. Intervals of {level:.0%};
{n_samples:,} samples in each cell, so that the standard error of a coverage of {level:g} is
{error:.4f}. Logit: the normal approximation is in the logit of the estimate, not around the estimate itself.

Judges (sensitivity / specificity): {judges}.
"""
SAME_TEXT = """**The labelled items are a random sample.** Prevalences {prevalences}: {n_cells} cells.
"""
SHIFTED_TEXT = """**The prevalence of the labelled items is three times as high or as low.** Judged / labelled: {pairs}:
{n_cells} cells. PPI and PPI++ assume a random sample.
"""
RELATIVE_TEXT = """Mean width over that of the narrowest other method that covers {enough:g} in every cell: {others};
over that of the exact Rogan-Gladen interval: {exact:.3f}.
"""
CELLS_TEXT = """**By cell**: coverage and mean width.
"""
REAL_TEXT = """**Two language models as judges.** Which of two answers is better, as people judged it: {n_labels} random
items of each file are labelled, the others are judged; {n_real_samples:,} draws, where both judges are read together
{n_fused:,}. The truth is the prevalence in the file, so that intervals for what it was drawn from cover a little more.
Coverage and mean width.
"""
TRANSFER_TEXT = """**Labels of one file, verdicts of another**: other models are compared there, and nothing says that
the judge makes the same errors. Coverage and mean width.
"""


def judges_page(figures: dict[str, float], settings: Settings) -> str:
    """Return the tables of the page."""
    judges = ", ".join(f"{sensitivity:g} / {specificity:g}" for sensitivity, specificity in settings["judges"])
    level, n_samples = settings["level"], settings["n_samples"]
    parts = [
        TEXT.format(
            **settings | {"judges": judges, "n_judged": settings["n_items"] - settings["n_labels"]},
            error=(level * (1.0 - level) / n_samples) ** 0.5,
        ),
        SAME_TEXT.format(
            prevalences=", ".join(f"{one:g}" for one in settings["prevalences"]),
            n_cells=len(settings["prevalences"]) * len(settings["judges"]),
        ),
        _summary(figures, "same", settings),
        SHIFTED_TEXT.format(
            pairs=", ".join(f"{judged:g} / {labelled:g}" for judged, labelled in settings["shifted"]),
            n_cells=len(settings["shifted"]) * len(settings["judges"]),
        ),
        _summary(figures, "shifted", settings),
    ]
    real = [key.removesuffix(".prevalence") for key in figures if key.startswith("real.") and "prevalence" in key]
    if real:
        parts += [REAL_TEXT.format(**settings, n_fused=settings["n_real_samples"] // 4), _real(figures, real)]
        transfer = [
            key.removesuffix(".prevalence") for key in figures if key.startswith("transfer.") and "prevalence" in key
        ]
        parts += [TRANSFER_TEXT, _transfer(figures, transfer)]
    return "\n".join([*parts, CELLS_TEXT, _cells(figures, "same"), _cells(figures, "shifted")])


def _summary(figures: dict[str, float], kind: str, settings: Settings) -> str:
    """Return coverage and width over a grid, and how ours compare."""
    rows = [
        [
            name,
            f"{figures[f'{kind}.{method}.least']:.3f}",
            f"{figures[f'{kind}.{method}.coverage']:.3f}",
            f"{figures[f'{kind}.{method}.enough']:.0%}",
            f"{figures[f'{kind}.{method}.width']:.3f}",
        ]
        for method, name in NAMES.items()
        if f"{kind}.{method}.least" in figures
    ]
    others = figures.get(f"{kind}.integrated.against_others")
    relative = RELATIVE_TEXT.format(
        enough=settings["enough"],
        others="there is none" if others is None else f"{others:.3f}",
        exact=figures[f"{kind}.integrated.against_exact"],
    )
    header = ["interval", "least coverage", "mean coverage", f"cells of {settings['enough']:g} or more", "mean width"]
    return markdown_table(header, rows) + "\n" + relative


def _entry(figures: dict[str, float], cell: str, method: str) -> str:
    if f"{cell}.{method}.coverage" not in figures:
        return ""
    return f"{figures[f'{cell}.{method}.coverage']:.3f}, {figures[f'{cell}.{method}.width']:.3f}"


def _real(figures: dict[str, float], cells: list[str]) -> str:
    rows = []
    for cell in cells:
        _, file, judge = cell.split(".")
        rows.append([f"{_short(file)}, {_judge(judge)}", *_about(figures, cell)])
        rows[-1] += [_entry(figures, cell, method) for method in BY_CELL]
    files = dict.fromkeys(cell.split(".")[1] for cell in cells)
    rows += [
        [
            f"{_short(file)}, both judges",
            "",
            "",
            _entry(figures, f"fused.{file}.both", "integrated"),
            *[""] * (len(BY_CELL) - 1),
        ]
        for file in files
    ]
    return markdown_table(
        ["file, judge", "prevalence", "sensitivity / specificity", *(NAMES[method] for method in BY_CELL)], rows
    )


def _transfer(figures: dict[str, float], cells: list[str]) -> str:
    shown = ("integrated", "profile", "ppi", "rogan_gladen", "exact")
    rows = []
    for cell in cells:
        _, files, judge = cell.split(".")
        labelled, judged = files.split("_to_")
        rows.append([f"{_short(labelled)} to {_short(judged)}, {_judge(judge)}", *_about(figures, cell)])
        rows[-1] += [_entry(figures, cell, method) for method in shown]
    return markdown_table(
        ["labelled to judged file", "prevalence", "sensitivity / specificity", *(NAMES[method] for method in shown)],
        rows,
    )


def _cells(figures: dict[str, float], kind: str) -> str:
    cells = [
        key.removesuffix(".integrated.coverage")
        for key in figures
        if key.startswith(f"{kind}.") and key.endswith(".integrated.coverage") and key.count(".") > 2
    ]
    rows = []
    for cell in cells:
        judge, prevalence = _parts(cell.removeprefix(f"{kind}."))
        rows.append([f"{judge}, {prevalence}", *(_entry(figures, cell, method) for method in BY_CELL)])
    return markdown_table(["judge, prevalence", *(NAMES[method] for method in BY_CELL)], rows)


def _parts(name: str) -> tuple[str, str]:
    """Return a judge and the prevalences of a cell as text.

    >>> _parts("0.95_0.6.0.1_0.3")
    ('0.95 / 0.6', '0.1 (labelled 0.3)')
    >>> _parts("0.9_0.9.0.5_0.5")
    ('0.9 / 0.9', '0.5')
    """
    sensitivity, middle, labelled = name.split("_")
    specificity, prevalence = middle.rsplit(".", 2)[0], ".".join(middle.rsplit(".", 2)[1:])
    return f"{sensitivity} / {specificity}", prevalence + ("" if labelled == prevalence else f" (labelled {labelled})")


def _about(figures: dict[str, float], cell: str) -> list[str]:
    rates = f"{figures[f'{cell}.sensitivity']:.2f} / {figures[f'{cell}.specificity']:.2f}"
    return [f"{figures[f'{cell}.prevalence']:.3f}", rates]


def _short(file: str) -> str:
    return file.replace("_", ".").removesuffix("-a22b-no-thinking")


def _judge(judge: str) -> str:
    return judge.removeprefix("judge_").replace("_", "-", 1).replace("_", ".") if "5" in judge else "gpt-4o-mini"
