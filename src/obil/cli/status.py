"""Say where a stream stands."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from obil.cli import common


@common.one_line_errors()
def status(
    state: Annotated[Path, typer.Argument(help="State of a stream, written by `obil stream`.")],
    as_json: common.AsJson = False,
) -> None:
    """Say how far a stream is, what it decided and left out, and which labels wait for it.

    The state is only read, so this can run beside the stream; `obil performance` says how good its decisions are.
    """
    from obil.cli.saved_stream import read_stream

    saved = read_stream(state)
    checkpoint, journal = saved.checkpoint, saved.journal
    journal.check()
    decided = dict(zip(checkpoint.classes, checkpoint.decided, strict=True))
    waiting = len(journal.take())
    written = datetime.fromtimestamp(state.stat().st_mtime, UTC).isoformat(timespec="seconds")
    record = {
        "rows": checkpoint.n_rows,
        "left_out": checkpoint.n_left_out,
        "decided": decided,
        "by": saved.by,
        "id": checkpoint.id_column,
        "horizon": checkpoint.horizon,
        "labels_waiting": waiting,
        "out_bytes": checkpoint.out_bytes,
        "written": written,
    }
    if as_json:
        common.print_json(record)
        return
    counts = ", ".join(f"{count:,} {name}" for name, count in decided.items())
    typer.echo(f"{checkpoint.n_rows:,} rows decided ({counts}), {checkpoint.n_left_out:,} left out; state of {written}")
    keyed = "" if saved.by is None else f"a stream for each {saved.by!r:.60}; "
    known_by = "their row" if checkpoint.id_column is None else repr(checkpoint.id_column)
    remembered = (
        f"the last {checkpoint.horizon:,} rows are remembered for labels, by {known_by}; {waiting:,} labels wait"
    )
    typer.echo(keyed + (remembered if checkpoint.horizon else "no rows are remembered for labels (--horizon)"))
