"""Fit a saved model's calibrator again on new labelled rows."""

from pathlib import Path
from typing import Annotated, Any

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
        typer.Option(
            "--calibration", help="affine, temperature, vector, matrix, spline, isotonic; as before if not given."
        ),
    ] = None,
    trust: Trust = None,
    as_json: AsJson = False,
) -> None:
    """Fit the calibrator again on new labelled rows; the model itself stays as it is."""
    from dataclasses import replace

    import numpy as np

    from obil.calibration.calibrate import fit_calibrator
    from obil.calibration.evidence_map import fit_evidence_map
    from obil.calibration.linear import SLOPE_SD
    from obil.cli.training_table import kept_beside
    from obil.serving.files import save
    from obil.serving.folds import folds_of_rows
    from obil.serving.holdout import Holdout
    from obil.serving.ratio_model import Evidence

    written = out or model
    fitted = tables.load_model(model, trust)
    tables.require_folder_to_write(written)
    rows = tables.read_labelled(labelled, fitted, target)
    n_rows, weights = len(rows.labels), np.ones(len(rows.labels))
    beside = kept_beside(model)
    scores = fitted.scores(rows.rows)  # (n, K) that decide
    method = calibration or fitted.calibration
    slope_sd = SLOPE_SD if fitted.scores_probabilities else None
    known: dict[str, Any] = {"method": method, "slope_sd": slope_sd, "random_state": 0}
    calibrator = fit_calibrator(scores, rows.labels, weights, **known)
    held_out = Holdout.of(fitted.calibrated(scores, calibrator), rows.labels)
    # no fold has seen these rows, so any one of them is as good: the one that a stream would choose
    seen = fitted.fold_scores(rows.rows)[np.arange(n_rows), folds_of_rows(0, n_rows, fitted.n_own_folds)]  # (n, K)
    same = calibrator if np.array_equal(seen, scores) else None
    score_map, choice = fit_evidence_map(seen, rows.labels, weights, calibrator=same, **known)
    before = fitted.evidence or Evidence(score_map, seen)
    evidence = replace(before, calibrator=score_map, scores=seen, choice=choice)  # the folds and their tolerance stay
    save(fitted.recalibrated(calibrator, held_out, calibration=method, evidence=evidence), written, beside=beside)

    maps = {"before": tables.linear_map(fitted.calibrator), "after": tables.linear_map(calibrator)}
    if as_json:
        summary = {"model": str(written), "rows": n_rows, "unlabelled": rows.n_unlabelled, "method": method}
        linear = {name: {"slopes": one[0], "offsets": one[1]} for name, one in maps.items() if one is not None}
        print_json(summary | linear)
        return
    left_out = f", {rows.n_unlabelled:,} unlabelled left out" if rows.n_unlabelled else ""
    title = f"Calibrated ({method}) on {n_rows:,} rows{left_out}; written to {written}"
    tables.show_table(title, ("", "slope", "offset"), [(name, *_figures(one)) for name, one in maps.items()])
    if fitted.n_views:
        typer.echo("Note: the views of the model were calibrated to the old rows and are left out.")


def _figures(linear: tuple[list[float], list[float]] | None) -> tuple[str, str]:
    if linear is None:
        return "by steps", "by steps"
    slopes, offsets = linear
    return ", ".join(f"{slope:.2f}" for slope in slopes), ", ".join(f"{offset:+.2f}" for offset in offsets)
