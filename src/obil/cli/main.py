"""Gather the commands into `obil`; each is imported when it is asked for."""

from collections import UserDict
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from obil import __version__

HELP = "Classifiers that stay right under label shift: when the class prior changes."
# each is a function, or an app of its own, in the module of its name
COMMANDS = (
    "demo", "fit", "backtest", "calibrate", "verify", "plan", "predict", "prior", "sql", "report", "stream", "label",
    "status", "performance", "explain", "serve", "serve-demo", "keys", "compile",
)  # fmt: skip


class _Commands(UserDict[str, Any]):
    """The commands by name, in the order of the help."""

    def __init__(self) -> None:
        self.data = dict.fromkeys(COMMANDS)

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            attribute = name.replace("-", "_")
            found = getattr(import_module(f"obil.cli.{attribute}"), attribute)
            if not isinstance(found, typer.Typer):
                function, found = found, typer.Typer(add_completion=False)
                found.command(name)(function)
            self.data[name] = get_command(found)
            self.data[name].name = name
        return self.data[name]


class _Group(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()


app = typer.Typer(cls=_Group, help=HELP, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True, help=HELP)
def obil(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    """Print the version where that is asked for."""
    if version:
        typer.echo(f"obil {__version__}")
        raise typer.Exit
