"""Decide the rows of a stream as they come, so that it survives being killed."""

import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from obil.cli import common, tables

if TYPE_CHECKING:
    from obil.cli.label_column import LabelColumn
    from obil.cli.stream_keyed import KeyedStreams
    from obil.cli.stream_single import SingleStream
    from obil.datasets.table_stream import ColumnType
    from obil.serving.ratio_model import RatioModel

ROWS_LEFT_OUT = 3  # exit code


@common.one_line_errors()
def stream(
    model: common.ModelFolder,
    data: Annotated[
        Path,
        typer.Argument(help="Rows to decide: CSV, JSON lines (gzip too) or parquet; - is standard input as it comes."),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="File that decisions are appended to (parquet: at the end, from OUT.csv); - is standard output.",
        ),
    ],
    format_: Annotated[
        str | None,
        typer.Option("--format", help="csv or jsonl (a JSON object per line); if not given, as the file's name ends."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", help="Checkpoint file, to resume from; OUT.state if not given."),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option("--prior", help="Prior of the positive class at the start, or a=.7,b=.2,c=.1; else training's."),
    ] = None,
    cost_fp: common.CostFalsePositive = None,
    cost_fn: common.CostFalseNegative = None,
    policy: common.PolicyText = None,
    budget: Annotated[
        str | None, typer.Option(help="Capacity, as alerts per rows: 100/10000 alerts on 1 % of the rows at most.")
    ] = None,
    positive: Annotated[str | None, typer.Option("--positive", help="The class to alert on.")] = None,
    keep: tables.Keep = None,
    by: Annotated[
        str | None,
        typer.Option("--by", help="Column of keys: each has a stream, with a prior and a history, of its own."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", help="Column that says when each row came: labels then teach the hour, the weekday, the season."
        ),
    ] = None,
    horizon: Annotated[
        int,
        typer.Option(
            "--horizon", min=0, help="Label horizon: rows remembered for the labels that `obil label` brings."
        ),
    ] = 0,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id", help="Column that labels know a decision by, which is kept; the row's number if not given."
        ),
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", help="Column with the true labels of the rows, which are learned later.")
    ] = None,
    label_delay: Annotated[
        int, typer.Option("--label-delay", min=0, help="Rows after which the labels of --label are learned.")
    ] = 1_000,
    trust: common.Trust = None,
    checkpoint_every: Annotated[
        int | None,
        typer.Option(min=1, help="Rows between checkpoints; 1,000 of standard input, 20,000 of a file if not given."),
    ] = None,
    on_error: Annotated[
        str,
        typer.Option(help="What a bad row does: stop, skip, or quarantine=FILE, which gets the row and what is wrong."),
    ] = "stop",
    max_bad: Annotated[
        str, typer.Option(help="Part of the rows beyond which bad ones stop the stream all the same.")
    ] = "1%",
    live: Annotated[
        bool, typer.Option("--live", help="The input continues where it stopped (after a header): skip no rows.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an output that no state belongs to.")] = False,
    change_policy: Annotated[
        bool, typer.Option("--change-policy", help="Resume with other costs or another policy than the state's.")
    ] = False,
    as_json: common.AsJson = False,
) -> None:
    """Decide each row as it comes at the current prior; the same command resumes after any interruption.

    The input has a header. Its rows, numbered from 0, are decided in order and appended to --out; the state
    says how far that went. After Ctrl-C, kill or a power cut the same command cuts the output back to the
    state, skips the rows that were decided, and resumes: the result is that of one uninterrupted run.
    """
    from obil.cli.arriving import is_parquet
    from obil.cli.decision_log import DecisionLog, digest, header_of, numbers_of
    from obil.cli.label_journal import LabelJournal, journal_of, require_new
    from obil.cli.left_out import left_out_by
    from obil.cli.stream_run import StreamRun
    from obil.cli.table_notes import warn_if_balanced
    from obil.cli.training_table import TrainingTable
    from obil.cli.unusual_rows import UnusualRows
    from obil.errors import InvalidInputError
    from obil.serving.files import MANIFEST

    to_file = str(out) != "-"
    state = Path(f"{out}.state") if state is None and to_file else state
    left_out = left_out_by(on_error, max_bad)
    quarantine = None if left_out.file is None else left_out.file.path
    lines = Path(f"{out}.csv") if is_parquet(out) else out  # a parquet file cannot be appended to
    for path in filter(is_parquet, (data, out)):
        from obil.cli.parquet_rows import require_pyarrow

        require_pyarrow(path)
    _require_paths(
        {
            "the input": data,
            "--out": out,
            "the lines of --out": None if lines is out else lines,
            "--state": state,
            "--on-error quarantine": quarantine,
        }
    )
    labels = _label_column(label, label_delay, by, id_column)
    if labels is not None:
        horizon = max(horizon, labels.horizon)
    policy = _policy_of(budget, policy)
    rule = common.chosen_policy(policy, cost_fp, cost_fn)
    fitted = tables.load_model(model, trust)
    stated = any(option is not None for option in (policy, cost_fp, cost_fn))
    alerted = tables.positive_class(positive, fitted, needed=stated)
    start = None if prior is None else tables.stated_prior(prior, fitted, alerted)
    streams = _streams(fitted, by, state, policy=rule, prior=start, positive=alerted, horizon=horizon)
    kept = tables.names_of(keep)
    kept = list(dict.fromkeys([name for name in (by, id_column) if name is not None] + kept))
    json_in = _is_json(data, format_)
    json_out = _is_json(lines, None) if to_file else json_in
    header = header_of(fitted.classes_.tolist(), kept)
    log = DecisionLog(lines if to_file else None, header, json_lines=json_out)
    saved, known = streams.read(), TrainingTable.read(model)
    run = StreamRun(
        streams=streams,
        log=log,
        left_out=left_out,
        journal=None if state is None else LabelJournal(journal_of(state)),
        id_column=id_column,
        labels=labels,
        json_lines=json_in,
        unusual=None if fitted.encoder is None else UnusualRows(fitted.encoder.columns, known.limits if known else {}),
        horizon=horizon,
        fingerprint=digest((model / MANIFEST).read_bytes()),
        keep=kept,
        decided=[0] * fitted.n_classes,
        # the rows after a state can be read again from a file, from a pipe they may be gone
        every=checkpoint_every or (1_000 if str(data) == "-" else 20_000),
        at=at,
    )
    log.check(saved, overwrite=overwrite)
    if lines is not out and saved is None and out.exists() and not overwrite:
        raise InvalidInputError(f"{out} exists and no state belongs to it: remove it, or --overwrite")
    left_out.check(saved, overwrite=overwrite)
    if saved is None and state is not None:
        require_new(journal_of(state), overwrite=overwrite)
    if saved is not None:
        run.resume(saved, change_policy=change_policy)
    try:
        with closing(streams), closing(log), closing(left_out):
            types = _types(fitted, [*kept, *(name for name in (at, label) if name is not None)], label)
            if saved is None and prior is None:
                warn_if_balanced(fitted.prior_)
            stopped = run.go(data, types, live=live, quiet=not to_file)
            summary = run.summary(stopped) | {"out": str(out)}
        if lines is not out and not stopped:
            from obil.cli.parquet_rows import write_parquet

            numbers, whole = numbers_of(header, kept, fitted.classes_)
            write_parquet(lines, out, numbers=numbers, whole=whole)
    except BrokenPipeError:  # whoever read the decisions has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    if as_json:
        common.print_json(summary, err=not to_file)  # standard output may hold the decisions
    elif to_file:
        _print_summary(summary)
        for line in [] if run.unusual is None else run.unusual.lines():
            typer.echo(f"Note: {line}", err=True)
    if stopped:
        raise typer.Exit(128 + stopped)
    if summary["left_out_this_run"]:
        raise typer.Exit(ROWS_LEFT_OUT)


def _streams(model: "RatioModel", by: str | None, state: Path | None, **settings: Any) -> "SingleStream | KeyedStreams":
    """Return what rows are decided with: one stream, or one for each key."""
    if by is not None:
        from obil.cli.stream_keyed import KeyedStreams

        return KeyedStreams(model, by, state, **settings)
    from obil.cli.stream_single import SingleStream
    from obil.online.online_classifier import OnlineClassifier

    online = OnlineClassifier(model, **settings)
    return SingleStream(online, state, online.prior)


def _is_json(path: Path, stated: str | None) -> bool:
    """Return whether a file holds JSON lines; standard input is CSV unless something else is stated."""
    from obil.errors import InvalidInputError

    if stated not in (None, "csv", "jsonl"):
        raise InvalidInputError(f"--format must be csv or jsonl, got {stated!r:.40}")
    return stated == "jsonl" if stated else path.name.removesuffix(".gz").endswith((".jsonl", ".ndjson"))


def _policy_of(budget: str | None, policy: str | None) -> str | None:
    """Return the policy that the options name; 100/10000 is a budget of 1 % of the rows."""
    from obil.errors import InvalidInputError

    if budget is None:
        return policy
    if policy is not None:
        raise InvalidInputError(f"--budget sets the threshold by itself: leave out --policy {policy}")
    alerts, slash, rows = budget.partition("/")
    try:
        rate = float(alerts) / float(rows)
    except (ValueError, ZeroDivisionError):
        rate = -1.0
    if not slash or not 0.0 < rate <= 1.0:
        raise InvalidInputError(f"--budget must be alerts per rows, such as 100/10000, got {budget!r:.40}")
    return f"budget:{rate!r}"


def _label_column(name: str | None, delay: int, by: str | None, id_column: str | None) -> "LabelColumn | None":
    from obil.cli.label_column import LabelColumn
    from obil.errors import InvalidInputError

    if name is None:
        return None
    for option, given in (("--by", by), ("--id", id_column)):
        if given is not None:
            raise InvalidInputError(
                f"--label does not work with {option} {given}: hand the labels over with obil label"
            )
    return LabelColumn(name, delay)


def _require_paths(named: dict[str, Path | None]) -> None:
    from obil.errors import InvalidInputError

    paths = {name: path.resolve() for name, path in named.items() if path is not None and str(path) != "-"}
    if len(set(paths.values())) < len(paths):
        raise InvalidInputError(f"{', '.join(paths)} must be different files")
    for name, path in paths.items():
        if path.is_dir():
            raise InvalidInputError(f"{name} must be a file, and {named[name]} is a folder")
        if name != "the input" and not path.parent.is_dir():
            raise InvalidInputError(f"{name} must lie in a folder that exists, got {named[name]}")


def _types(model: "RatioModel", keep: Sequence[str], label: str | None) -> "dict[str, ColumnType]":
    """Return which columns of the input are needed, and as what."""
    from obil.errors import InvalidInputError

    types: dict[str, ColumnType] = {}
    if model.encoder is not None:
        types = {column.name: "text" if column.is_category else "number" for column in model.encoder.columns}
    elif model.feature_names is not None:
        types = dict.fromkeys(model.feature_names, "number")
    else:
        raise InvalidInputError("this model knows no column names: fit it with `obil fit`, or on a DataFrame")
    if label is not None and label in types:
        raise InvalidInputError(f"--label must not be a column that the model learned from, got {label!r:.60}")
    for name in keep:
        types.setdefault(name, "text")
    return types


def _print_summary(summary: dict[str, Any]) -> None:
    def say(text: str) -> None:
        typer.echo(text, err=True)

    positive, rows = summary["positive"], f"{summary['rows']:,} rows"
    if summary["rows_this_run"] != summary["rows"]:
        rows += f" ({summary['rows_this_run']:,} in this run)"
    if "by" in summary:
        rows += f" of {summary['keys']:,} keys of {summary['by']!r:.60}"
    counts = ", ".join(f"{count:,} {name}" for name, count in summary["decided"].items())
    say(f"{rows}, {counts if positive is None else format(summary['alerts'], ',') + ' alerts'}: {summary['out']}")
    if summary["labels_this_run"]:
        known = summary["labels_this_run"] - summary["unknown_labels_this_run"]
        say(f"{summary['labels_this_run']:,} labels came, {known:,} of them of decisions that are remembered")
    if summary["left_out"]:
        say(_left_out_line(summary))
    for name, now in summary.get("prior", {}).items():
        if positive is not None and name != positive:
            continue
        line = f"prior of {name}: {summary['prior_at_start'][name]:.4g} -> {now:.4g}"
        if summary["interval_90"] is not None:
            low, high = summary["interval_90"][name]
            line += f" (90 % interval {low:.4g} to {high:.4g})"
        say(line)
    if summary.get("log_threshold") is not None:
        say(f"threshold: {summary['log_threshold']:.4g} on the log ratio")
    if summary.get("expected") is not None:
        say(summary["expected"]["text"].replace("Now:", "Expected of the next rows:", 1))
    if summary["stopped_by_signal"]:
        say("Stopped; the same command resumes from here.")


def _left_out_line(summary: dict[str, Any]) -> str:
    bad, rows = summary["left_out"], summary["rows"]
    line = f"{bad:,} bad rows were left out ({100 * bad / (bad + rows):.2g} %)"
    if summary["first_left_out"] is not None:
        line += f", the first of this run because {summary['first_left_out']}"
    return line if summary["quarantine"] is None else f"{line}: {summary['quarantine']}"
