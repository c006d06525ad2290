"""Fit a model on a labelled table and save it."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from obil.cli import tables
from obil.cli.common import AsJson, one_line_errors, print_json
from obil.cli.progress import Progress, show_step, shows_progress, working

if TYPE_CHECKING:
    from obil.estimators.table_fit import TableFit
    from obil.serving.ratio_model import RatioModel

FEW = 20  # labelled rows of a class below which little can be said about it


@one_line_errors()
def fit(
    data: Annotated[Path, tables.table_argument("Labelled table")],
    target: tables.Target,
    out: Annotated[Path, typer.Option("--out", help="Model folder to write.", show_default=False)],
    model: Annotated[str | None, typer.Option("--model", help=tables.MODELS, show_default=tables.DEFAULT_MODEL)] = None,
    score: Annotated[
        str | None, typer.Option("--score", help="Calibrate this column, a score you have, instead of a model.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", help="Column such as a patient's id that stays on one side of every fold.")
    ] = None,
    time: Annotated[str | None, typer.Option("--time", help="Column to cut the folds by, as blocks of time.")] = None,
    positive: tables.PositiveLabel = None,
    drop: tables.Drop = None,
    calibration: tables.Calibration = "affine",
    no_views: Annotated[
        bool,
        typer.Option("--no-views", help="Fit no members on feature subsets: then only labels move the prior."),
    ] = False,
    backtest: Annotated[
        bool,
        typer.Option(
            "--backtest",
            help="Also replay the past (needs --time) and keep in the model how its tracker should start: see "
            "`obil backtest`.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the folds and of the model.")] = 0,
    progress: Progress = False,
    as_json: AsJson = False,
) -> None:
    """Fit a model on a labelled table, calibrate it on rows it has not seen, and save it."""
    from obil.cli.table_notes import note_if_balanced, notes_on_table
    from obil.cli.training_table import FILE, TrainingTable
    from obil.datasets.times import as_times
    from obil.errors import InvalidInputError
    from obil.estimators.table_fit import as_groups, fit_score_column, fit_table
    from obil.serving.files import MANIFEST, save

    name = model or tables.DEFAULT_MODEL
    tables.require_folder_to_write(out)
    tables.require_model_and_calibration(name, calibration)
    if group is not None and time is not None:
        raise InvalidInputError("folds are dealt by group or cut by time: give --group or --time, not both")
    if score is not None and (model is not None or group is not None or time is not None):
        raise InvalidInputError("--score fits no model: leave out --model, --group and --time")
    if backtest and time is None:
        raise InvalidInputError("--backtest replays the past in the order of time: give --time, too")
    no_features = [column for column in (group, time, *tables.names_of(drop)) if column is not None]
    others = [*no_features, *([score] if score else [])]
    features, labels, n_unlabelled = tables.read_to_fit(
        data, target, others=others, text=[] if group is None else [group]
    )
    times = None if time is None else as_times(features[time])
    replayed = None
    if score is not None:
        fitted = fit_score_column(
            features, labels, score, positive=positive, calibration=calibration, random_state=seed
        )
    else:
        verbose = shows_progress(progress)
        learned = features.drop(columns=list(set(no_features)))
        settings: dict[str, Any] = {
            "model": name,
            "positive": positive,
            "calibration": calibration,
            "views": not no_views,
        }
        groups = None if group is None else as_groups(features[group])
        fitted = fit_table(
            learned,
            labels,
            **settings,
            groups=groups,
            time=times,
            random_state=seed,
            verbose=verbose,
            on_step=show_step,
        )
        if backtest and times is not None:  # what is replayed is what will be deployed
            from obil.evaluation.table_backtest import backtest_table

            replayed, _ = backtest_table(
                learned, labels, **settings, time=times, random_state=seed, verbose=verbose, on_step=show_step
            )
            fitted = replace(fitted, model=fitted.model.with_advice(replayed.recommendation.advice))
    is_new = not (out / MANIFEST).is_file()
    table = TrainingTable.of(features, fitted.model.encoder) if fitted.model.encoder is not None else None
    save(fitted.model, out, beside=None if table is None else {FILE: table.to_bytes()})
    summary = _summary(fitted, out=out, calibration=calibration, n_unlabelled=n_unlabelled)
    if not is_new:
        summary["notes"].append(f"replaced the model that was in {out}")
    if score is None:
        learned_from = fitted.model.feature_names or ()
        summary["notes"] += notes_on_table(features, labels, learned_from, auc=summary["auc"]["value"], time=times)
    balanced = note_if_balanced(fitted.model.prior_, "the table")
    summary["notes"] += [] if balanced is None else [balanced]
    measuring = "Measuring how fast the prior is followed..."
    show_step(measuring)
    with working(measuring):
        summary |= _expected(fitted.model, in_order=times is not None)
    _report(summary | ({} if replayed is None else {"backtest": replayed.to_json()}), as_json=as_json)


def _expected(model: "RatioModel", *, in_order: bool) -> dict[str, Any]:
    """Return what to expect of adapting: the rows to follow a jump, and, of folds in time, what changed in them."""
    from obil.evaluation.adaptation_speed import adaptation_speed
    from obil.evaluation.stream_changes import changes_in_held_out
    from obil.trackers import SafeTracker

    changes = changes_in_held_out(model) if in_order else None
    tracker = SafeTracker.for_model(model).start(model.prior_)
    return {
        "tracker": tracker.status,
        "rows_after_jump": adaptation_speed(model) if tracker.can_move else None,
        "changes": changes,
    }


def _summary(fitted: "TableFit", *, out: Path, calibration: str, n_unlabelled: int) -> dict[str, Any]:
    from obil.calibration.separation import worst_separation

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
    slopes, offsets = tables.linear_map(model.calibrator) or (None, None)
    return {
        "model": str(out),
        "rows": sum(counts),
        "unlabelled": n_unlabelled,
        "classes": [
            {"class": name, "rows": count, "prior": prior}
            for name, count, prior in zip(names, counts, model.prior_.tolist(), strict=True)
        ],
        "positive": names[1] if len(names) == 2 else None,
        "features": list(model.feature_names or ()),
        "calibration": {"method": calibration, "slopes": slopes, "offsets": offsets},
        "auc": {
            "value": separation.auc,
            "interval": list(separation.interval),
            "classes": [names[separation.lower_class], names[separation.upper_class]],
        },
        "notes": notes,
    }


def _report(summary: dict[str, Any], *, as_json: bool) -> None:
    changes, speed = summary["changes"], summary["rows_after_jump"]
    if as_json:
        print_json(
            summary
            | {
                name: None if one is None else one.to_json()
                for name, one in (("changes", changes), ("rows_after_jump", speed))
            }
        )
        return
    features, calibration, auc = summary["features"], summary["calibration"], summary["auc"]
    shown = ", ".join(features[:6]) + (f" and {len(features) - 6} more" if len(features) > 6 else "")
    rows = [("labelled rows", f"{summary['rows']:,}")]
    if summary["unlabelled"]:
        rows.append(("unlabelled rows, left out", f"{summary['unlabelled']:,}"))
    for one in summary["classes"]:
        role = " (positive)" if one["class"] == summary["positive"] else ""
        rows.append((f"class {one['class']}{role}", f"{one['rows']:,} ({one['prior']:.2%})"))
    rows.append((f"features ({len(features)})", shown))
    rows.append(("calibration", calibration["method"]))
    if calibration["slopes"] is not None:
        rows.append(("  slope", ", ".join(f"{slope:.2f}" for slope in calibration["slopes"])))
        rows.append(("  offset", ", ".join(f"{offset:+.2f}" for offset in calibration["offsets"])))
    low, high = auc["interval"]
    worst = " of the closest two classes" if len(summary["classes"]) > 2 else ""
    rows.append((f"AUC{worst}", f"{auc['value']:.3f} ({low:.3f} to {high:.3f})"))
    tables.show_table(f"Model written to {summary['model']}", ("", ""), rows)
    typer.echo(f"Before labels, what decides: {summary['tracker']}.")
    if speed is not None:
        typer.echo(
            f"Rows until a jump of the prior, after 3,000 quiet rows, is followed to within 20 %: {speed.describe()}."
        )
    if changes is not None:
        typer.echo(f"From the earlier half of the rows to the later one: {changes.sentence}")
    if "backtest" in summary:
        typer.echo(f"Backtest: {summary['backtest']['recommendation']['sentence']}")
    for note in summary["notes"]:
        typer.echo(f"Note: {note}")
    typer.echo(f"Check it on rows it has not seen: obil verify {summary['model']} holdout.csv --target ...")
