"""Hold what several commands need: options, one-line errors, tables on a terminal and off it."""

import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from obil.bayes.costs import Costs
    from obil.policies import Policy

ModelFolder = Annotated[Path, typer.Argument(help="Model folder written by `obil fit`.", show_default=False)]
Trust = Annotated[
    list[str] | None,
    typer.Option("--trust", help="A type in the model file that you vouch for; may be given more than once."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
CostFalsePositive = Annotated[float | None, typer.Option("--cost-fp", help="Cost of a false alarm.")]
CostFalseNegative = Annotated[float | None, typer.Option("--cost-fn", help="Cost of a miss.")]
PolicyText = Annotated[
    str | None,
    typer.Option("--policy", help="f1, fbeta:2, gmean, recall:0.9, precision:0.8, budget:0.01 or cost."),
]
BAD_INPUT = 2  # exit code


def fail(message: str) -> NoReturn:
    """Print one line and stop with exit code 2."""
    typer.echo(f"Error: {' '.join(str(message).split())}", err=True)
    raise typer.Exit(BAD_INPUT)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn what a user can cause into one line and exit code 2; everything else stays a bug with a traceback."""
    from obil.errors import ObilError

    try:
        yield
    except ObilError as error:
        fail(str(error))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        fail(f"{error.filename}: {error.strerror}")
    except BrokenPipeError:
        raise  # whoever read the output has seen enough: typer ends quietly
    except OSError as error:
        fail(f"{error.filename or ''}: {error.strerror or error}")
    except MemoryError:
        fail("not enough memory for this input")


def stated_costs(cost_fp: float | None, cost_fn: float | None) -> "Costs":
    """Return the costs that the options state, 1 where one is not given."""
    from obil.bayes.costs import Costs

    return Costs(false_positive=1.0 if cost_fp is None else cost_fp, false_negative=1.0 if cost_fn is None else cost_fn)


def chosen_policy(policy: str | None, cost_fp: float | None, cost_fn: float | None) -> "Policy":
    """Return the policy that the options name: a policy, or costs (1 where only one is given), or equal costs."""
    from obil.policies import CostPolicy
    from obil.policies.notation import policy_from_text

    costs = stated_costs(cost_fp, cost_fn)
    if policy is None or policy == "cost":
        return CostPolicy(costs)
    if cost_fp is not None or cost_fn is not None:
        fail(f"--policy {policy} sets the threshold by itself: leave out --cost-fp and --cost-fn")
    return policy_from_text(policy)


def console() -> "Console":
    """Return a console that is plain where standard output is no terminal."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table: first column to the left, the others to the right; brackets in a cell are text, not markup."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.ROUNDED if sys.stdout.isatty() else box.ASCII)
    for number, name in enumerate(header):
        table.add_column(escape(name), justify="right" if number else "left")
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    console().print(table)


def print_json(record: Any, *, err: bool = False) -> None:
    """Print one JSON document; numbers that JSON does not have become null."""
    typer.echo(json.dumps(_jsonable(record), indent=1, ensure_ascii=False), err=err)


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _jsonable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(inner) for inner in value]
    if hasattr(value, "tolist"):
        return _jsonable(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
