"""Write a page on how well a model's ratios hold and what its alerts are worth."""

from pathlib import Path
from typing import Annotated

import typer

from obil.cli import common, tables
from obil.cli.progress import working


@common.one_line_errors()
def report(
    model: common.ModelFolder,
    holdout: Annotated[Path, tables.table_argument("Labelled rows the model was not fitted on")],
    target: tables.Target,
    out: Annotated[Path, typer.Option("--out", help="The page to write.")] = Path("report.html"),
    cost_fp: common.CostFalsePositive = None,
    cost_fn: common.CostFalseNegative = None,
    policy: common.PolicyText = None,
    trust: common.Trust = None,
) -> None:
    """Write one HTML page: the gate's verdict, calibration, and operating points across priors."""
    # imported here so that `obil --help` pays for none of it
    from obil.cli.training_table import warn_of_seen_rows
    from obil.evaluation.report import write_report

    tables.require_file_to_write(out, unlike=holdout)
    rule = common.chosen_policy(policy, cost_fp, cost_fn)
    fitted = tables.load_model(model, trust)
    rows = tables.read_labelled(holdout, fitted, target)
    warn_of_seen_rows(fitted, model, rows.rows, len(rows.labels), holdout)
    with working(f"Judging {len(rows.labels):,} rows..."):
        found = write_report(fitted, rows.rows, fitted.classes_[rows.labels], out, policy=rule)
    if rows.n_unlabelled:
        typer.echo(f"{rows.n_unlabelled:,} unlabelled rows left out")
    typer.echo(found.verdict.sentence)
    typer.echo(f"Report: {out}")
