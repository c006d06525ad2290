"""Hand labels to a stream, whether it runs or not."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from obil.cli import common, tables

if TYPE_CHECKING:
    from obil.cli.label_journal import Label
    from obil.cli.saved_stream import SavedStream


@common.one_line_errors()
def label(
    state: Annotated[Path, typer.Argument(help="State of a stream, written by `obil stream --horizon`.")],
    data: Annotated[Path, tables.table_argument("Table with a row for each label")],
    column: Annotated[
        str, typer.Option("--label", help="Column of the true labels; a row without one is passed over.")
    ],
    id_column: Annotated[
        str,
        typer.Option("--id", help="Column that says which decision: its row, or the value of `obil stream --id`."),
    ] = "row",
    propensity: Annotated[
        float, typer.Option(help="Probability that these labels were asked for: .02 for an audit of 2 %.")
    ] = 1.0,
    as_json: common.AsJson = False,
) -> None:
    """Append labels to the journal of a stream, STATE.labels, from which the stream takes them in.

    A stream that runs does so with its next checkpoint, another when it runs again. A label that comes twice counts
    once; one that contradicts an earlier one replaces it; one whose decision has left the horizon is only counted.
    """
    from obil.cli.label_journal import append_labels
    from obil.cli.saved_stream import read_stream
    from obil.errors import InvalidInputError

    saved = read_stream(state)
    if not saved.checkpoint.horizon:
        raise InvalidInputError(f"{state} remembers no decisions for labels: run obil stream with --horizon 10000")
    if not 1e-9 <= propensity <= 1.0:
        raise InvalidInputError(f"--propensity must lie in [1e-9, 1], got {propensity!r}")
    labels = _labels(data, saved, id_column, column, propensity)
    append_labels(saved.journal.path, labels)
    record = {"labels": len(labels), "journal": str(saved.journal.path)}
    if as_json:
        common.print_json(record)
        return
    typer.echo(f"{len(labels):,} labels: {saved.journal.path}", err=True)


def _labels(data: Path, saved: "SavedStream", id_column: str, column: str, propensity: float) -> "list[Label]":
    """Return the labels in a table; a wrong one is named, and none is taken."""
    import numpy as np

    from obil.cli.label_journal import Label
    from obil.datasets.table_cells import require_columns
    from obil.datasets.tables import read_table
    from obil.errors import InvalidInputError
    from obil.online.decision_ids import LONGEST_ID
    from obil.serving.ratio_model import class_named

    names = [id_column, column, *([] if saved.by is None else [saved.by])]
    frame = read_table(tables.source_of(data), text=names)
    require_columns(names, list(frame.columns), table=str(data))
    classes = np.array(saved.checkpoint.classes, dtype=object)
    cells: list[list[Any]] = [frame[name].tolist() for name in names]
    known: dict[str, str] = {}
    labels = []
    for row, (decision, text, *keys) in enumerate(zip(*cells, strict=True), start=1):
        if not isinstance(text, str):
            continue  # it has not come yet
        try:
            if text not in known:
                known[text] = str(classes[class_named(text, classes)])
            if not all(isinstance(cell, str) for cell in (decision, *keys)):
                raise InvalidInputError(f"a label needs {' and '.join(map(repr, [names[0], *names[2:]]))}, got none")
            if saved.checkpoint.id_column is None and not decision.isdecimal():
                raise InvalidInputError(
                    f"column {id_column!r:.60} must hold row numbers, got {decision!r:.40}: run obil stream with --id "
                    "to know decisions by another column"
                )
            if len(decision) > LONGEST_ID:
                raise InvalidInputError(f"an id has at most {LONGEST_ID:,} characters, got {len(decision):,}")
        except InvalidInputError as error:
            raise InvalidInputError(f"row {row} of {data}: {error}") from None
        labels.append(Label(decision, known[text], propensity, *keys))
    return labels
