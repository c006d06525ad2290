"""Gather the commands into `obil`."""

import typer

from obil import __version__
from obil.cli.backtest import backtest
from obil.cli.calibrate import calibrate
from obil.cli.demo import demo
from obil.cli.explain import explain
from obil.cli.fit import fit
from obil.cli.keys import keys
from obil.cli.predict import predict
from obil.cli.prior import prior
from obil.cli.report import report
from obil.cli.serve import serve
from obil.cli.serve_demo import serve_demo
from obil.cli.stream import stream
from obil.cli.verify import verify

app = typer.Typer(
    help="Classifiers that stay right when the class balance changes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(fit)
app.command()(backtest)
app.command()(calibrate)
app.command()(verify)
app.command()(predict)
app.command()(prior)
app.command()(report)
app.command()(stream)
app.command()(explain)
app.command()(serve)
app.command("serve-demo")(serve_demo)
app.add_typer(keys, name="keys")


@app.callback(invoke_without_command=True)
def obil(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    """Classifiers that stay right when the class balance changes."""
    if version:
        typer.echo(f"obil {__version__}")
        raise typer.Exit
