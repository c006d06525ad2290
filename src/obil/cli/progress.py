"""Show that long work is in progress: a status on a terminal, one plain line per step elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer


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
