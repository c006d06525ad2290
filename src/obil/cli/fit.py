"""Fit a model on a labelled table and save it."""

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from obil.cli.common import AsJson, one_line_errors, print_json
from obil.cli.tables import (
    Target,
    names_of,
    require_folder_to_write,
    show_table,
    source_of,
    table_argument,
    working,
)

if TYPE_CHECKING:
    from obil.estimators.table_fit import TableFit

DEFAULT_MODEL = "hist_gradient_boosting"
FEW = 20  # labelled rows of a class below which little can be said about it


def fit(
    data: Annotated[Path, table_argument("Labelled table")],
    target: Target,
    out: Annotated[Path, typer.Option("--out", help="Model folder to write.", show_default=False)],
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            help="hist_gradient_boosting (the default), logistic, random_forest, extra_trees, neural_network, or obil: "
            "networks and trees on associated problems (needs torch).",
        ),
    ] = None,
    score: Annotated[
        str | None, typer.Option("--score", help="Calibrate this column, a score you have, instead of a model.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", help="Column such as a patient's id that stays on one side of every fold.")
    ] = None,
    time: Annotated[str | None, typer.Option("--time", help="Column to cut the folds by, as blocks of time.")] = None,
    positive: Annotated[
        str | None, typer.Option("--positive", help="The label to alert on; the larger of the two if not given.")
    ] = None,
    drop: Annotated[str | None, typer.Option("--drop", help="Columns to leave out: a,b.")] = None,
    calibration: Annotated[
        str, typer.Option("--calibration", help="affine, temperature, vector (many classes), spline or isotonic (two).")
    ] = "affine",
    views: Annotated[bool, typer.Option("--views", help="Also fit members on feature subsets.")] = False,
    backtest: Annotated[
        bool,
        typer.Option(
            "--backtest",
            help="Also replay the past (needs --time) and keep in the model how its tracker should start: see "
            "`obil backtest`.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the folds and of the model.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Fit a model on a labelled table, calibrate it on rows it has not seen, and save it."""
    with one_line_errors():
        from obil.calibration.calibrate import CALIBRATIONS
        from obil.cli.rising_columns import rising_columns
        from obil.datasets.table_cells import require_columns
        from obil.datasets.tables import read_table, split_labels
        from obil.datasets.times import as_times
        from obil.errors import InvalidInputError
        from obil.estimators.named_models import OBIL, require_model
        from obil.estimators.table_fit import as_groups, fit_score_column, fit_table
        from obil.serving.files import MANIFEST, save

        require_folder_to_write(out)
        require_model(model or DEFAULT_MODEL)
        if calibration not in CALIBRATIONS:
            raise InvalidInputError(f"--calibration must be one of {', '.join(CALIBRATIONS)}, got {calibration!r:.40}")
        if group is not None and time is not None:
            raise InvalidInputError("folds are dealt by group or cut by time: give --group or --time, not both")
        if score is not None and (model is not None or group is not None or time is not None or views):
            raise InvalidInputError("--score fits no model: leave out --model, --group, --time and --views")
        if backtest and time is None:
            raise InvalidInputError("--backtest replays the past in the order of time: give --time, too")
        asides = [name for name in (group, time) if name is not None]
        dropped = names_of(drop)
        if target in {*asides, *dropped, score}:
            raise InvalidInputError(f"the target must be none of the other columns named, got {target!r}")

        table = read_table(source_of(data), target=target, text=[name for name in (group,) if name is not None])
        require_columns([*asides, *dropped, *([score] if score else [])], list(table.columns), table=str(data))
        features, labels, n_unlabelled = split_labels(table, target)
        times = None if time is None else as_times(features[time])
        if score is not None:
            fitted = fit_score_column(
                features, labels, score, positive=positive, calibration=calibration, random_state=seed
            )
        else:
            many = model == OBIL and sys.stderr.isatty()  # a bar of its members instead
            with nullcontext() if many else working(f"Fitting {model or DEFAULT_MODEL} on {len(labels):,} rows..."):
                fitted = fit_table(
                    features.drop(columns=list({*asides, *dropped})),
                    labels,
                    model=model or DEFAULT_MODEL,
                    positive=positive,
                    calibration=calibration,
                    groups=None if group is None else as_groups(features[group]),
                    time=times,
                    views=views,
                    random_state=seed,
                    verbose=many,
                )
        replayed = None
        if backtest and times is not None:
            from obil.evaluation.table_backtest import backtest_table

            with working(f"Replaying {len(labels):,} rows..."):
                replayed, _ = backtest_table(
                    features.drop(columns=list({*asides, *dropped})),
                    labels,
                    time=times,
                    model=model or DEFAULT_MODEL,
                    positive=positive,
                    calibration=calibration,
                    views=views,  # what is replayed is what will be deployed
                    random_state=seed,
                )
            fitted = replace(fitted, model=fitted.model.with_advice(replayed.recommendation.advice))
        is_new = not (out / MANIFEST).is_file()
        save(fitted.model, out)
        summary = _summary(fitted, out=out, calibration=calibration, n_unlabelled=n_unlabelled)
        if not is_new:
            summary["notes"].append(f"replaced the model that was in {out}")
        rising = rising_columns(features, fitted.model.feature_names or (), times)
        if rising:
            summary["notes"].append(
                f"{', '.join(map(repr, rising))} only rises or falls along the table: what tells the time misleads a "
                f"model; leave it out (--drop {','.join(rising)}), or cut the folds by it (--time)"
            )
        _report(summary | ({} if replayed is None else {"backtest": replayed.to_json()}), as_json=as_json)


def _summary(fitted: "TableFit", *, out: Path, calibration: str, n_unlabelled: int) -> dict[str, Any]:
    from obil.calibration.separation import worst_separation
    from obil.serving.calibrators import LinearCalibrator

    model = fitted.model
    counts = model.holdout_.counts.tolist()
    names = model.classes_.tolist()
    separation = worst_separation(model.holdout_)
    notes = list(fitted.notes)
    few = [f"{count} of {name!r}" for name, count in zip(names, counts, strict=True) if count < FEW]
    if few:
        notes.append(f"few labelled rows ({', '.join(few)}): expect wide intervals")
    if len(names) == 2 and counts[1] > counts[0]:
        notes.append(f"{names[1]!r} is both positive and the more common; --positive {names[0]} turns that round")
    if separation.auc < 0.5:
        notes.append("the score ranks the classes backwards or not at all: check --positive and --target")
    linear = model.calibrator if isinstance(model.calibrator, LinearCalibrator) else None
    return {
        "model": str(out),
        "rows": sum(counts),
        "unlabelled": n_unlabelled,
        "classes": [
            {"class": name, "rows": count, "share": share}
            for name, count, share in zip(names, counts, model.prior_.tolist(), strict=True)
        ],
        "positive": names[1] if len(names) == 2 else None,
        "features": list(model.feature_names or ()),
        "calibration": {
            "method": calibration,
            "slopes": None if linear is None else linear.slopes[1:].tolist(),
            "offsets": None if linear is None else linear.offsets[1:].tolist(),
        },
        "auc": {
            "value": separation.auc,
            "interval": list(separation.interval),
            "classes": [names[separation.lower_class], names[separation.upper_class]],
        },
        "notes": notes,
    }


def _report(summary: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(summary)
        return
    features, calibration, auc = summary["features"], summary["calibration"], summary["auc"]
    shown = ", ".join(features[:6]) + (f" and {len(features) - 6} more" if len(features) > 6 else "")
    rows = [("labelled rows", f"{summary['rows']:,}")]
    if summary["unlabelled"]:
        rows.append(("rows without a label, left out", f"{summary['unlabelled']:,}"))
    for one in summary["classes"]:
        role = " (positive)" if one["class"] == summary["positive"] else ""
        rows.append((f"class {one['class']}{role}", f"{one['rows']:,} ({one['share']:.2%})"))
    rows.append((f"features ({len(features)})", shown))
    rows.append(("calibration", calibration["method"]))
    if calibration["slopes"] is not None:
        rows.append(("  slope", ", ".join(f"{slope:.2f}" for slope in calibration["slopes"])))
        rows.append(("  offset", ", ".join(f"{offset:+.2f}" for offset in calibration["offsets"])))
    low, high = auc["interval"]
    worst = " of the closest two classes" if len(summary["classes"]) > 2 else ""
    rows.append((f"AUC{worst}", f"{auc['value']:.3f} ({low:.3f} to {high:.3f})"))
    show_table(f"Model written to {summary['model']}", ("", ""), rows)
    if "backtest" in summary:
        typer.echo(f"Backtest: {summary['backtest']['recommendation']['sentence']}")
    for note in summary["notes"]:
        typer.echo(f"Note: {note}")
    typer.echo(f"Check it on rows it has not seen: obil verify {summary['model']} holdout.csv --target ...")
