"""Replay a labelled table in the order of time, to tell whether adapting would have helped."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from obil.cli.common import AsJson, CostFalseNegative, CostFalsePositive, one_line_errors, print_json
from obil.cli.tables import (
    Target,
    names_of,
    require_file_to_write,
    show_table,
    source_of,
    table_argument,
    working,
    write_whole,
)

if TYPE_CHECKING:
    from obil.evaluation.backtest_advice import Replayed
    from obil.evaluation.backtest_result import Backtest

DEFAULT_MODEL = "hist_gradient_boosting"


def backtest(
    data: Annotated[Path, table_argument("Labelled table")],
    target: Target,
    time: Annotated[str, typer.Option("--time", help="Column that says when each row was.", show_default=False)],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            help="hist_gradient_boosting, logistic, random_forest, extra_trees, neural_network, or obil: networks and "
            "trees on associated problems (needs torch).",
        ),
    ] = DEFAULT_MODEL,
    train_size: Annotated[
        float, typer.Option("--train-share", help="Share of the rows, the earliest, to fit on; the rest is replayed.")
    ] = 0.5,
    cost_fp: CostFalsePositive = None,
    cost_fn: CostFalseNegative = None,
    label_rate: Annotated[
        float, typer.Option("--label-rate", help="Share of the labels that come, for the tracker that uses them.")
    ] = 0.05,
    label_delay: Annotated[
        int, typer.Option("--label-delay", help="Rows that are decided before a row's label comes.")
    ] = 500,
    positive: Annotated[
        str | None, typer.Option("--positive", help="The label to alert on; the larger of the two if not given.")
    ] = None,
    drop: Annotated[str | None, typer.Option("--drop", help="Columns to leave out: a,b.")] = None,
    calibration: Annotated[
        str, typer.Option("--calibration", help="affine, temperature, vector (many classes), spline or isotonic (two).")
    ] = "affine",
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of the folds, of the model and of which labels come.")
    ] = 0,
    out: Annotated[Path, typer.Option("--out", help="The picture to write, a PNG.")] = Path("backtest.png"),
    as_json: AsJson = False,
) -> None:
    """Fit on the earlier rows, replay the later ones, and say whether adapting would have helped.

    The prior error is the distance from the local share of the classes, which the oracle decides with. That share is
    counted in the rows around each row, as many as tell the labels best, and is noisy by itself. What labels do is the
    mean of eight draws of which ones come.
    """
    # imported here so that `obil --help` pays for none of it
    with one_line_errors():
        from obil.bayes.costs import Costs
        from obil.calibration.calibrate import CALIBRATIONS
        from obil.datasets.table_cells import require_columns
        from obil.datasets.tables import read_table, split_labels
        from obil.datasets.times import as_times
        from obil.errors import InvalidInputError
        from obil.estimators.named_models import OBIL, require_model
        from obil.evaluation.backtest_plot import draw_backtest
        from obil.evaluation.table_backtest import backtest_table

        require_file_to_write(out, unlike=data)
        if out.suffix.lower() != ".png":
            raise InvalidInputError(f"--out must end in .png, got {out}")
        require_model(model)
        if calibration not in CALIBRATIONS:
            raise InvalidInputError(f"--calibration must be one of {', '.join(CALIBRATIONS)}, got {calibration!r:.40}")
        dropped = names_of(drop)
        if target in {time, *dropped}:
            raise InvalidInputError(f"the target must be none of the other columns named, got {target!r}")
        costs = None
        if cost_fp is not None or cost_fn is not None:
            costs = Costs(
                false_positive=1.0 if cost_fp is None else cost_fp, false_negative=1.0 if cost_fn is None else cost_fn
            )

        table = read_table(source_of(data), target=target)
        require_columns([time, *dropped], list(table.columns), table=str(data))
        features, labels, n_unlabelled = split_labels(table, target)
        many = model == OBIL and sys.stderr.isatty()  # a bar of its members instead
        with nullcontext() if many else working(f"Replaying {len(labels):,} rows with {model}..."):
            found, notes = backtest_table(
                features.drop(columns=list({time, *dropped})),
                labels,
                time=as_times(features[time]),
                model=model,
                positive=positive,
                calibration=calibration,
                costs=costs,
                train_size=train_size,
                label_rate=label_rate,
                label_delay=label_delay,
                random_state=seed,
                verbose=many,
            )
            write_whole(out, lambda path: draw_backtest(found, path))
        if as_json:
            print_json({"unlabelled": n_unlabelled, **found.to_json(), "picture": str(out), "notes": list(notes)})
        else:
            _report(found, notes, data=data, out=out, n_unlabelled=n_unlabelled)


def _report(found: "Backtest", notes: tuple[str, ...], *, data: Path, out: Path, n_unlabelled: int) -> None:
    from obil.evaluation.backtest_advice import LABELLED, TITLES
    from obil.evaluation.backtest_result import LABEL_DRAWS

    if n_unlabelled:
        typer.echo(f"{n_unlabelled:,} rows without a label left out")
    titles = TITLES | {LABELLED: f"{TITLES[LABELLED]} (1)"}
    rows = []
    for one in found.methods:
        error = "" if one.method == "oracle" else f"{one.prior_error:.4f}"
        rows.append(
            (titles[one.method], f"{one.cost:.4f}", _cost_change(one), f"{one.log_loss:.4f}", *_change(one), error)
        )
    show_table(
        f"{data}: fitted on the {found.n_earlier:,} earlier rows, replayed on the {found.n_later:,} later ones",
        ("", "cost a row", "change", "log loss", "change", "+- 2 s.e.", "prior error (2)"),
        rows,
    )
    late = f"{found.label_delay:,} rows late" if found.label_delay else "at once"
    typer.echo(
        f"(1) with {100.0 * found.label_rate:g} % of the labels, {late}: {found.n_labels:,} came; the mean of "
        f"{LABEL_DRAWS} draws of which"
    )
    typer.echo(
        f"(2) mean distance from the local share, counted in {found.rows_around} and itself good to "
        f"{found.truth_error:.4f} only; the oracle knows that share, and no more"
    )
    typer.echo(f"Verdict: {found.recommendation.sentence}")
    for note in notes:
        typer.echo(f"Note: {note}")
    typer.echo(f"Picture: {out}")


def _cost_change(one: "Replayed") -> str:
    return "" if one.method == "static" or one.cost_ratio is None else f"{100.0 * (one.cost_ratio - 1.0):+.1f} %"


def _change(one: "Replayed") -> tuple[str, str]:
    """Return the change of the log loss against not adapting, and its noise, in percent."""
    if one.method == "static":
        return "", ""
    static = one.log_loss / one.log_loss_ratio
    return f"{100.0 * (one.log_loss_ratio - 1.0):+.1f} %", f"{200.0 * one.excess.standard_error / static:.1f} %"
