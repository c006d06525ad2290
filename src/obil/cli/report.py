"""Write a page on how well a model's ratios hold and what its alerts are worth."""

from pathlib import Path
from typing import Annotated

import typer

from obil.cli.common import (
    CostFalseNegative,
    CostFalsePositive,
    ModelFolder,
    PolicyText,
    Trust,
    chosen_policy,
    one_line_errors,
)
from obil.cli.tables import (
    Target,
    load_model,
    read_labelled,
    require_file_to_write,
    table_argument,
    working,
)


def report(
    model: ModelFolder,
    holdout: Annotated[Path, table_argument("Labelled rows the model was not fitted on")],
    target: Target,
    out: Annotated[Path, typer.Option("--out", help="The page to write.")] = Path("report.html"),
    cost_fp: CostFalsePositive = None,
    cost_fn: CostFalseNegative = None,
    policy: PolicyText = None,
    trust: Trust = None,
) -> None:
    """Write one HTML page: the gate's verdict, calibration, and operating points across priors."""
    # imported here so that `obil --help` pays for none of it
    with one_line_errors():
        from obil.evaluation.report import write_report

        require_file_to_write(out, unlike=holdout)
        rule = chosen_policy(policy, cost_fp, cost_fn)
        fitted = load_model(model, trust)
        rows = read_labelled(holdout, fitted, target)
        with working(f"Judging {len(rows.labels):,} rows..."):
            found = write_report(fitted, rows.rows, fitted.classes_[rows.labels], out, policy=rule)
    if rows.n_unlabelled:
        typer.echo(f"{rows.n_unlabelled:,} rows without a label left out")
    typer.echo(found.verdict.sentence)
    typer.echo(f"Report: {out}")
