"""Show that long work is in progress: a status on a terminal, one plain line per step elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

Progress = Annotated[
    bool,
    typer.Option("--progress", help="Show how many fits are done and the time left also where there is no terminal."),
]


def shows_progress(stated: bool) -> bool:
    """Return whether fits are counted on standard error."""
    return stated or sys.stderr.isatty()


@contextmanager
def working(message: str) -> Iterator[None]:
    """Show a status while the work lasts, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(message):
        yield


def show_step(message: str) -> None:
    """Print a line on the step that begins, where standard error is no terminal: a log is not silent for minutes."""
    if not sys.stderr.isatty():
        typer.echo(message, err=True)
