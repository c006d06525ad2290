"""Hold the design to what it promises: evidence from one fold per row, decisions by the mean of the folds.

Each part is a module with cells, figures and a table of its own; `parts` in the TOML says which of them run, and in
which order. Models are fitted without views, which change neither log ratios nor evidence and would take half of the
time.
"""

from types import ModuleType
from typing import Any

from experiments.evidence import alarms, budgets, coverage, log_loss
from experiments.protocol import named_set
from experiments.runner import Cell, Settings

PARTS: dict[str, ModuleType] = {
    "log_loss": log_loss,
    "coverage": coverage,
    "budgets": budgets,
    "alarms": alarms,
}


def missing(settings: Settings) -> str | None:
    """Return why this experiment cannot run here, or None."""
    wanted = {"mammography"} | set(settings["log_loss"]["paper_sets"])
    absent = sorted(name for name in wanted if named_set(name) is None)
    return f"these sets are not at hand: {', '.join(absent)}" if absent else None


def cells(settings: Settings) -> list[Cell]:
    """List the work of every part."""
    return [{"part": part, **cell} for part in settings["parts"] for cell in PARTS[part].cells(settings[part])]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Do one piece of work of one part."""
    result: dict[str, Any] = PARTS[cell["part"]].run(cell, settings[cell["part"]])
    return result


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the numbers of every part."""
    found: dict[str, float] = {}
    for part in settings["parts"]:
        own = [(cell, result) for cell, result in results if cell["part"] == part]
        found |= {f"{part}.{key}": value for key, value in PARTS[part].figures(own, settings[part]).items()}
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the tables of every part."""
    texts = []
    for part in settings["parts"]:
        own = {key.removeprefix(f"{part}."): value for key, value in figures.items() if key.startswith(f"{part}.")}
        texts.append(PARTS[part].table(own, settings[part]).strip())
    return "\n\n".join(texts) + "\n"
