"""Replay a labelled table in the order of time, to tell whether adapting would have helped."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from obil.cli import tables
from obil.cli.common import AsJson, CostFalseNegative, CostFalsePositive, one_line_errors, print_json, stated_costs
from obil.cli.progress import Progress, show_step, shows_progress

if TYPE_CHECKING:
    from obil.evaluation.backtest_advice import Replayed
    from obil.evaluation.backtest_result import Backtest


@one_line_errors()
def backtest(
    data: Annotated[Path, tables.table_argument("Labelled table")],
    target: tables.Target,
    time: Annotated[str, typer.Option("--time", help="Column that says when each row was.", show_default=False)],
    model: Annotated[str, typer.Option("--model", help=tables.MODELS)] = tables.DEFAULT_MODEL,
    train_size: Annotated[
        float, typer.Option("--train-size", help="Fraction of the rows, the earliest, to fit on; the rest is replayed.")
    ] = 0.5,
    cost_fp: CostFalsePositive = None,
    cost_fn: CostFalseNegative = None,
    label_rate: Annotated[
        float,
        typer.Option("--label-rate", help="Fraction of the rows that get a label, for the tracker that uses them."),
    ] = 0.05,
    label_delay: Annotated[
        int, typer.Option("--label-delay", help="Rows that are decided before a row's label comes.")
    ] = 500,
    positive: tables.PositiveLabel = None,
    drop: tables.Drop = None,
    calibration: tables.Calibration = "affine",
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of the folds, of the model and of which labels come.")
    ] = 0,
    out: Annotated[Path, typer.Option("--out", help="The plot to write, a PNG.")] = Path("backtest.png"),
    progress: Progress = False,
    as_json: AsJson = False,
) -> None:
    """Fit on the earlier rows, replay the later ones, and report whether adapting would have helped.

    The prior error is the mean distance from the local class prior, which the oracle decides with. That prior is
    counted in the rows around each row, as many as predict the labels best, and is noisy itself. The figures with
    labels are the mean of eight draws of which rows are labelled.
    """
    # imported here so that `obil --help` pays for none of it
    from obil.datasets.times import as_times
    from obil.errors import InvalidInputError
    from obil.evaluation.prior_plots import draw_backtest
    from obil.evaluation.table_backtest import backtest_table

    tables.require_file_to_write(out, unlike=data)
    if out.suffix.lower() != ".png":
        raise InvalidInputError(f"--out must end in .png, got {out}")
    tables.require_model_and_calibration(model, calibration)
    costs = None if cost_fp is None and cost_fn is None else stated_costs(cost_fp, cost_fn)
    others = list(dict.fromkeys([time, *tables.names_of(drop)]))
    features, labels, n_unlabelled = tables.read_to_fit(data, target, others=others)
    found, notes = backtest_table(
        features.drop(columns=others),
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
        verbose=shows_progress(progress),
        on_step=show_step,
    )
    tables.write_whole(out, lambda path: draw_backtest(found, path))
    if as_json:
        print_json({"unlabelled": n_unlabelled, **found.to_json(), "plot": str(out), "notes": list(notes)})
    else:
        _report(found, notes, data=data, out=out, n_unlabelled=n_unlabelled)


def _report(found: "Backtest", notes: tuple[str, ...], *, data: Path, out: Path, n_unlabelled: int) -> None:
    from obil.evaluation.backtest_advice import LABELLED, TITLES
    from obil.evaluation.backtest_result import LABEL_DRAWS, change

    if n_unlabelled:
        typer.echo(f"{n_unlabelled:,} unlabelled rows left out")
    titles = TITLES | {LABELLED: f"{TITLES[LABELLED]} (1)"}
    rows = []
    for one in found.methods:
        error = "" if one.method == "oracle" else f"{one.prior_error:.4f}"
        changes = change(one, one.log_loss_ratio), _noise(one)
        rows.append(
            (titles[one.method], f"{one.cost:.4f}", change(one, one.cost_ratio), f"{one.log_loss:.4f}", *changes, error)
        )
    tables.show_table(
        f"{data}: fitted on the {found.n_earlier:,} earlier rows, replayed on the {found.n_later:,} later ones",
        ("", "cost per row", "change", "log loss", "change", "+- 2 s.e.", "prior error (2)"),
        rows,
    )
    late = f"{found.label_delay:,} rows late" if found.label_delay else "at once"
    typer.echo(
        f"(1) with {100.0 * found.label_rate:g} % of the labels, {late}: {found.n_labels:,} came; the mean of "
        f"{LABEL_DRAWS} draws of which"
    )
    typer.echo(
        f"(2) mean distance from the local prior, counted in {found.rows_around} and itself accurate to "
        f"{found.truth_error:.4f} only; the oracle knows that prior, and no more"
    )
    typer.echo(f"What changed: {found.changes.sentence}")
    typer.echo(f"Verdict: {found.recommendation.sentence}")
    for note in notes:
        typer.echo(f"Note: {note}")
    typer.echo(f"Plot: {out}")


def _noise(one: "Replayed") -> str:
    """Return two standard errors of the change of the log loss against not adapting, in percent."""
    if one.method == "static":
        return ""
    static = one.log_loss / one.log_loss_ratio
    return f"{200.0 * one.excess.standard_error / static:.1f} %"
