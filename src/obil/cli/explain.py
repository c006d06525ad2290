"""Report what changed in a stream, since when, and what to do."""

from pathlib import Path
from typing import Annotated

import typer

from obil.cli.common import AsJson, Trust, one_line_errors, print_json
from obil.cli.tables import load_model, require_file_to_write


@one_line_errors()
def explain(
    state: Annotated[
        Path, typer.Argument(help="State of a stream: written by `obil stream`, or the bytes of `online.state()`.")
    ],
    model: Annotated[Path, typer.Option("--model", help="Model folder that the stream was decided with.")],
    out: Annotated[Path | None, typer.Option("--out", help="Plot to write as well: change.png, .svg or .pdf.")] = None,
    level: Annotated[float, typer.Option("--level", help="Level of the prior's credible interval.")] = 0.9,
    trust: Trust = None,
    as_json: AsJson = False,
) -> None:
    """Report in one paragraph what changed in a stream, since when, with what confidence, and what to do.

    What to do is one of: nothing, get labels, recalibrate, retrain. The state is only read, so this can run beside the
    stream.
    """
    # imported here so that `obil --help` pays for none of it
    from obil.online.online_classifier import OnlineClassifier
    from obil.online.reports.explain import explain as report_on
    from obil.online.reports.stream_facts import facts_of

    if out is not None:
        require_file_to_write(out, unlike=state)
    online = OnlineClassifier.from_state(load_model(model, trust), _online_state(state, model))
    facts = facts_of(online, level=level)
    report = report_on(facts, online.history)
    if out is not None:
        from obil.evaluation.change_plot import draw_change

        draw_change(facts, report, online.history, out)
    if as_json:
        print_json(report.to_json() | {"plot": None if out is None else str(out)})
        return
    typer.echo(report.paragraph)
    if out is not None:
        typer.echo(f"Plot: {out}")


def _online_state(path: Path, model: Path) -> bytes:
    """Return the state of the online classifier in a file, whichever of the two kinds it is."""
    from obil.cli.decision_log import digest
    from obil.errors import InvalidStateError
    from obil.online.state import checkpoint, stream_state
    from obil.serving.files import MANIFEST

    if path.stat().st_size > checkpoint.LARGEST_FILE:
        raise InvalidStateError(f"{path} is larger than any state of a stream")
    data = path.read_bytes()
    if data.startswith(stream_state.MAGIC):
        return data
    saved, manifest = checkpoint.read_checkpoint(path), model / MANIFEST
    if manifest.is_file() and saved.model != digest(manifest.read_bytes()):
        raise InvalidStateError(f"{path} belongs to another model than {model}")
    return saved.online
