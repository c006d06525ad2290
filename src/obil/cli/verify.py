"""Judge a saved model on labelled rows that it was not fitted on."""

from pathlib import Path
from typing import Annotated

import typer

from obil.cli import tables
from obil.cli.common import AsJson, ModelFolder, Trust, one_line_errors, print_json
from obil.cli.progress import working

REFUSED = 1  # exit code


@one_line_errors()
def verify(
    model: ModelFolder,
    holdout: Annotated[Path, tables.table_argument("Labelled rows the model was not fitted on")],
    target: tables.Target,
    trust: Trust = None,
    as_json: AsJson = False,
) -> None:
    """Judge calibration on held-out rows; exit code 1 when the deployment gate refuses the model."""
    from obil.cli.table_notes import warn_if_balanced
    from obil.cli.training_table import warn_of_seen_rows
    from obil.evaluation.verify import verify as verified

    fitted = tables.load_model(model, trust)
    rows = tables.read_labelled(holdout, fitted, target)
    warn_of_seen_rows(fitted, model, rows.rows, len(rows.labels), holdout)
    with working(f"Judging {len(rows.labels):,} rows..."):
        found = verified(fitted, rows.rows, fitted.classes_[rows.labels])
    warn_if_balanced(fitted.prior_)
    if as_json:
        print_json({"model": str(model), "unlabelled": rows.n_unlabelled} | found.to_json())
    else:
        left_out = [f"{rows.n_unlabelled:,} unlabelled rows left out"] if rows.n_unlabelled else []
        typer.echo("\n".join([*left_out, *found.lines()]))
    if found.verdict.decision == "refuse":
        raise typer.Exit(REFUSED)
