"""Judge a saved model on labelled rows that it was not fitted on."""

from pathlib import Path
from typing import Annotated

import typer

from obil.cli.common import AsJson, ModelFolder, Trust, one_line_errors, print_json
from obil.cli.tables import Target, load_model, read_labelled, table_argument, working

REFUSED = 1  # exit code


def verify(
    model: ModelFolder,
    holdout: Annotated[Path, table_argument("Labelled rows the model was not fitted on")],
    target: Target,
    trust: Trust = None,
    as_json: AsJson = False,
) -> None:
    """Judge calibration on held-out rows; exit code 1 when the gate refuses the model."""
    with one_line_errors():
        from obil.evaluation.verify import verify as verified

        fitted = load_model(model, trust)
        rows = read_labelled(holdout, fitted, target)
        with working(f"Judging {len(rows.labels):,} rows..."):
            found = verified(fitted, rows.rows, fitted.classes_[rows.labels])
        if as_json:
            print_json({"model": str(model), "unlabelled": rows.n_unlabelled} | found.to_json())
        else:
            if rows.n_unlabelled:
                typer.echo(f"{rows.n_unlabelled:,} rows without a label left out")
            for line in found.lines():
                typer.echo(line)
    if found.verdict.decision == "refuse":
        raise typer.Exit(REFUSED)
