"""Help is complete and pays for nothing heavy."""

import subprocess
import sys
from pathlib import Path

import pytest

import obil as package
from tests.cli.cases import obil

HEAVY = ("numba", "sklearn", "torch", "pandas", "matplotlib", "scipy", "numpy", "skops")
COMMANDS = (
    "fit", "calibrate", "verify", "predict", "prior", "stream", "label", "status", "performance", "explain", "backtest",
)  # fmt: skip


@pytest.mark.parametrize("arguments", [["--help"], *([command, "--help"] for command in COMMANDS)], ids=" ".join)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = f"""
import sys
from obil.cli.main import app
try:
    app({arguments!r})
except SystemExit as stop:
    assert stop.code == 0
print("HEAVY", [name for name in {HEAVY!r} if name in sys.modules])
"""
    source = str(Path(package.__file__).parents[1])
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": source}
    )
    assert ran.stdout.rstrip().endswith("HEAVY []")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_sentence_and_every_option_a_help(command: str) -> None:
    from typer.main import get_command

    from obil.cli.main import app

    found = get_command(app).commands[command]
    assert (found.help or "").endswith(".")
    assert all(parameter.help for parameter in found.params), [p.name for p in found.params]


def test_the_list_of_models_in_the_help_is_the_list_of_models() -> None:
    from obil.estimators.named_models import MODELS

    text = " ".join(obil("fit", "--help").stdout.replace("│", " ").split())
    assert all(name in text for name in MODELS)
