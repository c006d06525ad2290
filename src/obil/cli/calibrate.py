"""Fit a saved model's calibrator again on new labelled rows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from obil.cli.common import AsJson, ModelFolder, Trust, one_line_errors, print_json
from obil.cli.tables import (
    Target,
    load_model,
    read_labelled,
    require_folder_to_write,
    show_table,
    table_argument,
)

if TYPE_CHECKING:
    from obil.serving.calibrators import Calibrator
    from obil.serving.scorers import Scorer


def calibrate(
    model: ModelFolder,
    labelled: Annotated[Path, table_argument("New labelled rows")],
    target: Target,
    out: Annotated[Path | None, typer.Option("--out", help="Model folder to write; the same one if not given.")] = None,
    calibration: Annotated[
        str | None,
        typer.Option("--calibration", help="affine, temperature, vector, spline or isotonic; as before if not given."),
    ] = None,
    trust: Trust = None,
    as_json: AsJson = False,
) -> None:
    """Fit the calibrator again on new labelled rows; the model itself stays as it is."""
    with one_line_errors():
        import numpy as np

        from obil.calibration.calibrate import fit_calibrator
        from obil.calibration.linear import SLOPE_SD
        from obil.serving.calibrators import LinearCalibrator
        from obil.serving.files import save
        from obil.serving.holdout import Holdout

        written = out or model
        fitted = load_model(model, trust)
        require_folder_to_write(written)
        rows = read_labelled(labelled, fitted, target)
        scores = fitted.scores(rows.rows)
        method = calibration or fitted.calibration
        calibrator = fit_calibrator(
            scores,
            rows.labels,
            np.ones(len(rows.labels)),
            method=method,
            slope_sd=SLOPE_SD if _are_probabilities(fitted.scorer) else None,
            random_state=0,
        )
        honest = Holdout.of(calibrator.apply(scores), rows.labels)
        save(fitted.recalibrated(calibrator, honest, calibration=method), written)

        maps = {"before": fitted.calibrator, "after": calibrator}
        if as_json:
            record = {
                "model": str(written),
                "rows": len(rows.labels),
                "unlabelled": rows.n_unlabelled,
                "method": method,
                **{
                    name: {"slopes": one.slopes[1:].tolist(), "offsets": one.offsets[1:].tolist()}
                    for name, one in maps.items()
                    if isinstance(one, LinearCalibrator)
                },
            }
            print_json(record)
            return
        left_out = f", {rows.n_unlabelled:,} without a label left out" if rows.n_unlabelled else ""
        title = f"Calibrated ({method}) on {len(rows.labels):,} rows{left_out}; written to {written}"
        show_table(title, ("", "slope", "offset"), [(name, *_figures(one)) for name, one in maps.items()])
        if fitted.view_members:
            typer.echo("Note: the views of the model were calibrated to the old rows and are left out.")


def _are_probabilities(scorer: "Scorer") -> bool:
    """Return whether the scores are log odds already, so that the slope has a known scale."""
    return "predict_proba" in {getattr(scorer, "method", None)} or getattr(scorer, "kind", None) == "probability"


def _figures(calibrator: "Calibrator") -> tuple[str, str]:
    from obil.serving.calibrators import LinearCalibrator

    if not isinstance(calibrator, LinearCalibrator):
        return "by steps", "by steps"
    slopes, offsets = calibrator.slopes[1:].tolist(), calibrator.offsets[1:].tolist()
    return ", ".join(f"{slope:.2f}" for slope in slopes), ", ".join(f"{offset:+.2f}" for offset in offsets)
