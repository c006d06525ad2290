"""Estimate the prevalence in a table, whole or by group."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from obil.cli import tables
from obil.cli.common import AsJson, ModelFolder, Trust, one_line_errors, print_json
from obil.cli.progress import working

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from obil.arrays import FloatArray
    from obil.online.evidence_file import PooledEvidence
    from obil.online.segments import SegmentEstimates
    from obil.serving.ratio_model import RatioModel
    from obil.trackers.evidence import PriorEstimate

MISSING = "(missing)"
EVERYTHING = "all rows"


@one_line_errors()
def prior(
    model: ModelFolder,
    data: Annotated[Path | None, tables.table_argument("Rows without labels")] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", help="Column of segments: each is estimated, those with few rows drawn to the others."),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Level of the intervals.")] = 0.9,
    evidence_out: Annotated[
        Path | None,
        typer.Option("--evidence-out", help="File to write what the rows tell of the prior to, as counts."),
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option("--noise", help="Epsilon of differential privacy for that file: 1 is usual, less hides more."),
    ] = None,
    evidence_in: Annotated[
        list[Path] | None,
        typer.Option("--evidence-in", help="Such a file of another site, to pool; may be given more than once."),
    ] = None,
    trust: Trust = None,
    as_json: AsJson = False,
) -> None:
    """Estimate the prevalence of each class in unlabelled rows, with an interval.

    With --by the segments learn from each other, and those that deviate from the others are marked. Sites with the same
    model pool what they know without sharing rows: each writes --evidence-out, one reads them all by --evidence-in.
    """
    from obil.arrays import require_in

    require_in("--level", level, 1e-6, 1.0 - 1e-6)
    files = evidence_in or []
    _require_options(data, files, evidence_out, noise)
    fitted = tables.load_model(model, trust)
    rows = {} if data is None else _rows_by_segment(fitted, data, by)
    if evidence_out is not None and data is not None:
        _write(fitted, model, rows, by, evidence_out, noise)
    classes, pooled = fitted.classes_.tolist(), None
    if files:
        pooled = _pooled(fitted, model, files, rows, by)
        by = pooled.by
    with working("Estimating the prevalence..."):
        groups = _groups(fitted, rows, by, level) if pooled is None else _pooled_groups(fitted, pooled, level)
    if as_json:
        record: dict[str, Any] = {"level": level, "by": by, "groups": [group.as_json(classes) for group in groups]}
        files_record = [] if pooled is None else [{"epsilon": epsilon} for epsilon in pooled.epsilons]
        print_json(record | ({"noise": noise} if evidence_out else {}) | ({"evidence": files_record} if pooled else {}))
        return
    shown = [1] if len(classes) == 2 else range(len(classes))
    learned = any(group.alone is not None for group in groups)
    header = ["" if by is None else by, "rows"]
    for k in shown:
        header += [f"prevalence of {classes[k]}", f"{level:.0%} interval"]
    alone = learned and len(classes) == 2  # a table of more classes would be too wide
    header += ["by its own rows"] if alone else []
    lines = []
    for group in groups:
        line = [EVERYTHING if group.name is None else group.name, f"{group.estimate.n_rows:,}"]
        for k in shown:
            low, high = group.estimate.interval[k]
            line += [f"{group.estimate.prior[k]:.4f}", f"{low:.4f} to {high:.4f}"]
        if alone:
            line.append("" if group.alone is None else f"{group.alone.prior[1]:.4f}")
        lines.append([*line, "yes" if group.deviates else ""] if learned else line)
    sources = [] if data is None else [str(data)]
    sources += [f"{len(files)} evidence file{'s' if len(files) > 1 else ''}"] if files else []
    tables.show_table(f"Prevalence in {' and '.join(sources)}", [*header, "deviates"] if learned else header, lines)
    for path, epsilon in zip(files, () if pooled is None else pooled.epsilons[: len(files)], strict=True):
        if epsilon is not None:
            typer.echo(f"{path}: counts with noise of epsilon {epsilon:g}, which the intervals allow for")


def _require_options(data: Path | None, files: list[Path], out: Path | None, noise: float | None) -> None:
    """Refuse options that do not fit each other, before the long work."""
    from obil.errors import InvalidInputError
    from obil.online.evidence_file import LARGEST_EPSILON, LEAST_EPSILON

    if data is None and not files:
        raise InvalidInputError("there are no rows: name a table, or evidence files with --evidence-in")
    if out is not None and (files or data is None):
        raise InvalidInputError(
            "--evidence-out is of the rows of one table: leave out --evidence-in, and pool where the files are read"
        )
    if noise is not None and out is None:
        raise InvalidInputError(f"--noise is for a file that leaves the site, got {noise:g}: give --evidence-out too")
    if noise is not None and not LEAST_EPSILON <= noise <= LARGEST_EPSILON:
        raise InvalidInputError(f"--noise must lie in [{LEAST_EPSILON:g}, {LARGEST_EPSILON:g}], got {noise:g}")
    if out is not None and data is not None:
        tables.require_file_to_write(out, unlike=data)
    places = [path.resolve() for path in files]
    repeated = [str(path) for path in files if places.count(path.resolve()) > 1]
    if repeated:
        raise InvalidInputError(
            f"--evidence-in must name a file once, or its rows count twice: got {repeated[0]} again"
        )


def _rows_by_segment(model: "RatioModel", data: Path, by: str | None) -> "dict[str | None, FloatArray]":
    """Return the log ratios of the table's rows by each fold, (n, F, K), by segment; those of all rows by None."""
    from obil.errors import InvalidInputError

    if by in (model.feature_names or ()):
        # inside one ward the ratio would count the ward itself as evidence, over and over
        raise InvalidInputError(
            f"--by must not be a column the model learns from, or its estimates are wrong, got {by!r}: "
            f"fit the model again with --drop {by}"
        )
    table = tables.read_for_model(data, model, text=[] if by is None else [by])
    rows = model.evidence_rows(table.rows)
    if by is None:
        return {None: rows}
    names = _names(table.frame[by])
    return {str(name): rows[names == name] for name in sorted(set(names.tolist()))}


def _names(column: "pd.Series[Any]") -> "NDArray[np.str_]":
    """Return the name of each row's group as text, (n,)."""
    names = column.map(lambda cell: str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell))
    return names.where(column.notna(), MISSING).to_numpy(dtype=str)


class _Group(NamedTuple):
    """All rows, or those of one value, with what they say alone and whether they deviate."""

    name: str | None
    estimate: "PriorEstimate"
    alone: "PriorEstimate | None" = None  # None where segments do not learn from each other
    deviates: bool | None = None

    def as_json(self, classes: list[Any]) -> dict[str, Any]:
        """Return the figures by class as JSON values."""
        found: dict[str, Any] = {"group": self.name, "rows": self.estimate.n_rows} | _figures(self.estimate, classes)
        return (
            found if self.alone is None else found | {"alone": _figures(self.alone, classes), "deviates": self.deviates}
        )


def _figures(estimate: "PriorEstimate", classes: list[Any]) -> dict[str, Any]:
    return {
        "prior": dict(zip(classes, estimate.prior.tolist(), strict=True)),
        "interval": dict(zip(classes, estimate.interval.tolist(), strict=True)),
    }


def _groups(model: "RatioModel", rows: "dict[str | None, FloatArray]", by: str | None, level: float) -> list[_Group]:
    """Return the estimates of all rows and of each segment."""
    from obil.online.estimate_prior import estimate_by_segment, evidence_by_segment, with_calibration
    from obil.trackers.pass_search import estimate_from_rows

    if by is None:
        return [_Group(None, with_calibration(model, estimate_from_rows(rows[None], level=level)))]
    return _learned(estimate_by_segment(model, evidence_by_segment(rows), level=level))


def _pooled_groups(model: "RatioModel", pooled: "PooledEvidence", level: float) -> list[_Group]:
    """Return the estimates from files of evidence."""
    from obil.online.estimate_prior import estimate_by_segment, with_calibration

    if pooled.by is None:
        return [_Group(None, with_calibration(model, pooled.segments[None].estimate(level=level)))]
    names = sorted(pooled.segments, key=str)
    return _learned(estimate_by_segment(model, {name: pooled.segments[name] for name in names}, level=level))


def _learned(found: "SegmentEstimates") -> list[_Group]:
    deviating = set(found.deviating())
    own = [_Group(str(name), found[name], found.alone.get(name), name in deviating) for name in found]
    return [_Group(None, found.common), *own]


def _fingerprint(model: Path) -> str:
    from obil.serving.files import MANIFEST

    return hashlib.sha256((model / MANIFEST).read_bytes()).hexdigest()


def _write(
    fitted: "RatioModel",
    model: Path,
    rows: "dict[str | None, FloatArray]",
    by: str | None,
    out: Path,
    noise: float | None,
) -> None:
    """Write the evidence of a table, and say what leaves the site."""
    from obil.online.evidence_file import evidence_record, write_evidence

    record = evidence_record(fitted, _fingerprint(model), rows, by=by, epsilon=noise)
    tables.write_whole(out, lambda path: write_evidence(record, path))
    hidden = (
        "without noise, so that a count may be of a single row"
        if noise is None
        else f"with noise of epsilon {noise:g} for each row; each such file of the same rows spends epsilon again"
    )
    named = "" if by is None else f", by the names in {by!r}"
    typer.echo(f"Wrote {out}: counts of rows by log ratio{named}, {hidden}.", err=True)


def _pooled(
    fitted: "RatioModel", model: Path, files: list[Path], rows: "dict[str | None, FloatArray]", by: str | None
) -> "PooledEvidence":
    """Return the evidence of files together, and of the rows of a table if there is one."""
    from obil.errors import InvalidInputError
    from obil.online.evidence_file import PooledEvidence, read_evidence
    from obil.online.row_counts import RowCounts

    parts = [read_evidence(path, fitted, _fingerprint(model)) for path in files]
    if rows:
        parts.append(PooledEvidence(by, {name: RowCounts.of(own).weighted() for name, own in rows.items()}, ()))
    elif by not in (None, parts[0].by):
        raise InvalidInputError(f"--by must be that of the evidence files, {parts[0].by!r:.60}, got {by!r:.60}")
    return sum(parts[1:], parts[0])
