"""Fit a saved model's calibrator again on new labelled rows."""

from pathlib import Path
from typing import Annotated

import typer

from obil.cli import tables
from obil.cli.common import AsJson, ModelFolder, Trust, one_line_errors, print_json


@one_line_errors()
def calibrate(
    model: ModelFolder,
    labelled: Annotated[Path, tables.table_argument("New labelled rows")],
    target: tables.Target,
    out: Annotated[Path | None, typer.Option("--out", help="Model folder to write; the same one if not given.")] = None,
    calibration: Annotated[
        str | None,
        typer.Option("--calibration", help="affine, temperature, vector, spline or isotonic; as before if not given."),
    ] = None,
    trust: Trust = None,
    as_json: AsJson = False,
) -> None:
    """Fit the calibrator again on new labelled rows; the model itself stays as it is."""
    import numpy as np

    from obil.calibration.calibrate import fit_calibrator
    from obil.calibration.linear import SLOPE_SD
    from obil.serving.files import save
    from obil.serving.holdout import Holdout

    written = out or model
    fitted = tables.load_model(model, trust)
    tables.require_folder_to_write(written)
    rows = tables.read_labelled(labelled, fitted, target)
    scores = fitted.scores(rows.rows)
    method = calibration or fitted.calibration
    calibrator = fit_calibrator(
        scores,
        rows.labels,
        np.ones(len(rows.labels)),
        method=method,
        slope_sd=SLOPE_SD if fitted.scores_probabilities else None,
        random_state=0,
    )
    held_out = Holdout.of(fitted.calibrated(scores, calibrator), rows.labels)
    save(fitted.recalibrated(calibrator, held_out, calibration=method), written)

    maps = {"before": tables.linear_map(fitted.calibrator), "after": tables.linear_map(calibrator)}
    if as_json:
        summary = {"model": str(written), "rows": len(rows.labels), "unlabelled": rows.n_unlabelled, "method": method}
        linear = {name: {"slopes": one[0], "offsets": one[1]} for name, one in maps.items() if one is not None}
        print_json(summary | linear)
        return
    left_out = f", {rows.n_unlabelled:,} unlabelled left out" if rows.n_unlabelled else ""
    title = f"Calibrated ({method}) on {len(rows.labels):,} rows{left_out}; written to {written}"
    tables.show_table(title, ("", "slope", "offset"), [(name, *_figures(one)) for name, one in maps.items()])
    if fitted.n_views:
        typer.echo("Note: the views of the model were calibrated to the old rows and are left out.")


def _figures(linear: tuple[list[float], list[float]] | None) -> tuple[str, str]:
    if linear is None:
        return "by steps", "by steps"
    slopes, offsets = linear
    return ", ".join(f"{slope:.2f}" for slope in slopes), ", ".join(f"{offset:+.2f}" for offset in offsets)
