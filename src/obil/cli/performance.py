"""Report how good the decisions of a stream are: expected, and measured by its labels."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from obil.cli import common, tables

if TYPE_CHECKING:
    from obil.online.reports.performance_report import Performance


@common.one_line_errors()
def performance(
    state: Annotated[Path, typer.Argument(help="State of a stream, written by `obil stream`.")],
    model: Annotated[Path, typer.Option("--model", help="Model folder that the stream was decided with.")],
    level: Annotated[float, typer.Option("--level", help="Level of the intervals.")] = 0.9,
    trust: common.Trust = None,
    as_json: common.AsJson = False,
) -> None:
    """Report precision, recall, F1, alert rate and cost, now and over about the last 5,000 rows.

    Without labels they follow from the prior and the calibrated scores, with labels from these; labels that wait in the
    journal of the stream count too. The state is only read, so this can run beside the stream.
    """
    from obil.cli.decision_log import digest
    from obil.cli.saved_stream import read_stream
    from obil.errors import InvalidInputError, InvalidStateError
    from obil.online.online_classifier import OnlineClassifier
    from obil.serving.files import MANIFEST
    from obil.serving.ratio_model import class_named

    if not 0.0 < level < 1.0:
        raise InvalidInputError(f"--level must lie between 0 and 1, got {level!r}")
    saved = read_stream(state)
    if saved.by is not None:
        raise InvalidInputError(f"{state} holds keyed streams, by {saved.by!r:.60}: only a single stream is reported")
    fitted = tables.load_model(model, trust)
    if saved.checkpoint.model != digest((model / MANIFEST).read_bytes()):
        raise InvalidStateError(f"{state} belongs to another model than {model}")
    online = OnlineClassifier.from_state(fitted, saved.checkpoint.online)
    classes = fitted.classes_.tolist()
    saved.journal.check()
    for label in saved.journal.take():
        decision = int(label.id) if saved.checkpoint.id_column is None else label.id
        online.feedback(decision, classes[class_named(label.label, fitted.classes_)], propensity=label.propensity)
    report = online.performance(level=level)
    if as_json:
        prior = dict(zip(classes, online.prior.tolist(), strict=True))
        common.print_json({"prior": prior, "now": _record(report.now), "window": _record(report.window)})
        return
    typer.echo(str(report))


def _record(one: "Performance") -> dict[str, Any]:
    figures = {name: asdict(figure) for name, figure in one.figures()}
    return {**figures, "rows": one.n_rows, "labels": one.n_labels, "trusted": one.trusted, "text": one.describe()}
