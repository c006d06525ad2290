"""Run an experiment cell by cell, keep what is done, and hold its figures against their bounds.

An experiment is a module here and a TOML beside it. The TOML has `[settings]`, `[quick]` (what a short run
changes in them) and `[bounds]` (figure name = {min, max}). The module has

- `cells(settings)`: the units of work, as JSON values;
- `run(cell, settings)`: the result of one of them, as JSON values;
- `figures(results, settings)`: the named numbers that come out;
- `table(figures, settings)`: those numbers as Markdown;
- `series(results, settings)`, optional: the named curves that come out, lists of numbers;
- `plots(record)`, optional: figures by name, drawn from the JSON record alone;
- `missing(settings)`, optional: why it cannot run here, or None.
"""

import hashlib
import importlib
import json
import math
import platform
import subprocess
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol, cast

from joblib import Parallel, delayed, parallel_config
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from experiments.plots import save_plot, style

FOLDER = Path(__file__).parent
EXPERIMENTS = tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))
RESULTS = FOLDER / "results"
DOCS = FOLDER.parent / "docs" / "results"
PLOTS = FOLDER.parent / "docs" / "figures"
LIBRARIES = (
    "numpy", "scipy", "numba", "scikit-learn", "pandas", "imbalanced-learn", "torch", "tabm", "mapie", "crepes", "obil",
)  # fmt: skip

Cell = dict[str, Any]
Settings = dict[str, Any]


class Experiment(Protocol):
    """What a module of this folder offers the runner."""

    def cells(self, settings: Settings) -> list[Cell]:
        """List the units of work."""

    def run(self, cell: Cell, settings: Settings) -> dict[str, Any]:
        """Do one of them."""

    def figures(self, results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
        """Name the numbers that come out."""

    def table(self, figures: dict[str, float], settings: Settings) -> str:
        """Write them as Markdown."""


def run_experiment(name: str, *, quick: bool, jobs: int) -> int:
    """Run one experiment, write its JSON and its table, and return how many bounds it missed."""
    console = Console()
    module, settings, bounds = load(name, quick=quick)
    reason = module.missing(settings) if hasattr(module, "missing") else None
    if reason is not None:
        console.print(f"{name}: skipped, {reason}")
        return 0
    started = time.monotonic()
    results = list(_finished_cells(name, module, settings, quick=quick, jobs=jobs, console=console))
    figures = module.figures(results, settings)
    rounded = {key: float(f"{value:.6g}") for key, value in figures.items()}
    curves = module.series(results, settings) if hasattr(module, "series") else {}
    record = {
        "experiment": name,
        "quick": quick,
        "settings": settings,
        "seconds": round(time.monotonic() - started, 1),
        "commit": commit(),
        "versions": versions(),
        "bounds": bounds,
        "figures": rounded,
    }
    if curves:
        record["series"] = {key: [float(f"{value:.4g}") for value in values] for key, values in curves.items()}
    target = _folder(quick)
    target.mkdir(parents=True, exist_ok=True)
    (target / f"{name}.json").write_text(_as_json(record))
    _partial(name, quick).unlink(missing_ok=True)
    render(name, quick=quick)
    return report(console, rounded, bounds, title=f"{name}{' (quick)' if quick else ''}")


def load(name: str, *, quick: bool, folder: Path = FOLDER) -> tuple[Any, Settings, dict[str, dict[str, float]]]:
    """Return the module, the settings and the bounds of an experiment; a quick run has no bounds to meet."""
    with (folder / f"{name}.toml").open("rb") as file:
        config = tomllib.load(file)
    settings = config["settings"] | (config.get("quick", {}) if quick else {})
    module = cast(Any, importlib.import_module(f"{folder.name}.{name}"))
    return module, settings, {} if quick else config.get("bounds", {})


def render(name: str, *, quick: bool = False) -> None:
    """Write the Markdown table of an experiment and draw its plots, from its JSON alone; without one, say so."""
    module, _, _ = load(name, quick=quick)
    path = _folder(quick) / f"{name}.json"
    tables, drawings = (_folder(True), _folder(True)) if quick else (DOCS, PLOTS)
    tables.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        (tables / f"{name}.md").write_text(f"The full run is not finished: `python -m experiments {name}`.\n")
        return
    record = json.loads(path.read_text())
    head = f"<!-- made by `python -m experiments {name} --render` from experiments/results/{name}.json -->\n\n"
    (tables / f"{name}.md").write_text(head + module.table(record["figures"], record["settings"]).rstrip() + "\n")
    with style():
        for plot, figure in (module.plots(record) if hasattr(module, "plots") else {}).items():
            save_plot(figure, drawings / f"{plot}.svg")


def report(console: Console, figures: dict[str, float], bounds: dict[str, dict[str, float]], *, title: str) -> int:
    """Print every figure that has a bound, or all of them where none has; return how many missed."""
    table = Table(title=title)
    for column in ("figure", "measured", "bound", ""):
        table.add_column(column, justify="left" if column == "figure" else "right")
    missed = missed_bounds(figures, bounds)
    for key in bounds or figures:
        value, bound = figures.get(key), bounds.get(key, {})
        wanted = ", ".join(f"{side} {limit:g}" for side, limit in bound.items())
        verdict = "" if not bound else "MISSED" if key in missed else "ok"
        table.add_row(key, "absent" if value is None else f"{value:.4g}", wanted, verdict)
    console.print(table)
    return len(missed)


def missed_bounds(figures: dict[str, float], bounds: dict[str, dict[str, float]]) -> set[str]:
    """Name the figures that are absent or outside their bounds."""
    return {
        key
        for key, bound in bounds.items()
        if key not in figures or not bound.get("min", -math.inf) <= figures[key] <= bound.get("max", math.inf)
    }


def versions() -> dict[str, str]:
    """Return the versions that the figures depend on, of what is installed."""
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        with suppress(PackageNotFoundError):
            found[library] = version(library)
    return found


def commit() -> str:
    """Return the commit the figures were measured at, marked when the tree had other changes."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=FOLDER, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return described.stdout.strip()


def _finished_cells(
    name: str, module: Experiment, settings: Settings, *, quick: bool, jobs: int, console: Console
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Yield every cell with its result in order, computing only those that an interrupted run left open."""
    cells = module.cells(settings)
    keys = [json.dumps(cell, sort_keys=True) for cell in cells]
    partial = _partial(name, quick)
    fingerprint = _fingerprint(settings)
    done = _read_partial(partial, fingerprint)
    todo = [(key, cell) for key, cell in zip(keys, cells, strict=True) if key not in done]
    if done:
        console.print(f"{name}: {len(cells) - len(todo)} of {len(cells)} cells were done before")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    partial.parent.mkdir(parents=True, exist_ok=True)
    with Progress(*columns, console=console) as progress, partial.open("a") as file:
        task = progress.add_task(name, total=len(cells), completed=len(cells) - len(todo))
        with parallel_config(backend="loky", inner_max_num_threads=1):
            work = Parallel(n_jobs=jobs, return_as="generator_unordered")(
                delayed(_run_cell)(name, key, cell, settings) for key, cell in todo
            )
            for key, result in work:
                done[key] = result
                file.write(json.dumps({"of": fingerprint, "key": key, "result": result}) + "\n")
                file.flush()
                progress.advance(task)
    yield from ((cell, done[key]) for key, cell in zip(keys, cells, strict=True))


def _run_cell(name: str, key: str, cell: Cell, settings: Settings) -> tuple[str, dict[str, Any]]:
    return key, importlib.import_module(f"experiments.{name}").run(cell, settings)


def _folder(quick: bool) -> Path:
    return RESULTS / "quick" if quick else RESULTS


def _as_json(record: dict[str, Any]) -> str:
    """Return a record as JSON with a line a figure, and a line a curve."""
    curves = record.get("series", {})
    text = json.dumps({**record, "series": dict.fromkeys(curves, "?")} if curves else record, indent=1)
    for key, values in curves.items():
        text = text.replace(f'{json.dumps(key)}: "?"', f"{json.dumps(key)}: {json.dumps(values)}")
    return text + "\n"


def _partial(name: str, quick: bool) -> Path:
    return RESULTS / f"{name}{'.quick' if quick else ''}.partial.jsonl"


def _read_partial(path: Path, fingerprint: str) -> dict[str, dict[str, Any]]:
    done = {}
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:  # the line a killed run was writing
                continue
            if entry["of"] == fingerprint:
                done[entry["key"]] = entry["result"]
    return done


def _fingerprint(settings: Settings) -> str:
    """Return a hash of the settings and the source: results of other code are not continued."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for source in sorted([*FOLDER.rglob("*.py"), *(FOLDER.parent / "src").rglob("*.py")]):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
