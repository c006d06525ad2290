"""Gather the commands into `obil`."""

import typer

from obil import __version__
from obil.cli.demo import demo

app = typer.Typer(
    help="Classifiers that stay right when the class balance changes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)


@app.callback(invoke_without_command=True)
def obil(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    """Classifiers that stay right when the class balance changes."""
    if version:
        typer.echo(f"obil {__version__}")
        raise typer.Exit
