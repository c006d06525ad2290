"""Write the kind of tables the commands meet, and run the commands."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from typer.testing import CliRunner, Result

from obil.cli.main import app


def obil(*arguments: object, stdin: bytes | None = None) -> Result:
    """Run one command in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin, catch_exceptions=False)


def error_line(result: Result) -> str:
    """Return the one line that says what is wrong: the last, after the steps that had begun."""
    *steps, line, end = result.stderr.split("\n")
    assert all(step.endswith("...") for step in steps), steps
    assert end == ""
    assert line.startswith("Error: ")
    return line


def ward_rows(n: int, prior: float, *, seed: int, separation: float = 2.0) -> list[list[str]]:
    """Return rows of id, size, pulse (sometimes missing), ward, ill (yes/no), score in [0, 1] of a sick ward."""
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < prior
    size = rng.normal(separation * ill, 1.0)
    pulse = np.round(rng.normal(70.0 + 8.0 * ill, 10.0))
    rows = []
    for i in range(n):
        ward = str(rng.choice(["North", "South", "East"], p=[0.5, 0.3, 0.2] if ill[i] else [0.2, 0.3, 0.5]))
        beat = "" if rng.random() < 0.05 else f"{pulse[i]:.0f}"
        score = 1.0 / (1.0 + np.exp(-(separation * size[i] - separation**2 / 2 - 1.0)))
        rows.append([f"p{i:04d}", f"{size[i]:.4f}", beat, ward, "yes" if ill[i] else "no", f"{score:.5f}"])
    return rows


HEADER = ["id", "size", "pulse", "ward", "ill", "score"]


def write_csv(
    path: Path, rows: Iterable[list[str]], *, header: list[str] | None = None, delimiter: str = ",", decimal: str = "."
) -> Path:
    """Write a table; with a decimal comma in every number that has a point."""
    lines = [delimiter.join(HEADER if header is None else header)]
    lines += [delimiter.join(cell.replace(".", decimal) for cell in row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def listing(folder: Path) -> dict[str, bytes | None]:
    """Return every file under a folder with its bytes, every folder with None."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
