"""Estimate the prevalence in a table, whole or by group."""

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

    from obil.serving.ratio_model import RatioModel
    from obil.trackers.evidence import PriorEstimate

MISSING = "(missing)"
EVERYTHING = "all rows"


@one_line_errors()
def prior(
    model: ModelFolder,
    data: Annotated[Path, tables.table_argument("Rows without labels")],
    by: Annotated[
        str | None,
        typer.Option("--by", help="Column of segments: each is estimated, those with few rows drawn to the others."),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Level of the intervals.")] = 0.9,
    trust: Trust = None,
    as_json: AsJson = False,
) -> None:
    """Estimate the prevalence of each class in unlabelled rows, with an interval.

    With --by and two classes the segments learn from each other, and those that deviate from the others are marked.
    """
    from obil.arrays import require_in
    from obil.errors import InvalidInputError

    require_in("--level", level, 1e-6, 1.0 - 1e-6)
    fitted = tables.load_model(model, trust)
    if by in (fitted.feature_names or ()):
        # inside one ward the ratio would count the ward itself as evidence, over and over
        raise InvalidInputError(
            f"--by must not be a column the model learns from, or its estimates are wrong, got {by!r}: "
            f"fit the model again with --drop {by}"
        )
    table = tables.read_for_model(data, fitted, text=[] if by is None else [by])
    names = None if by is None else _names(table.frame[by])
    classes = fitted.classes_.tolist()
    with working("Estimating the prevalence..."):
        groups = _groups(fitted, table.rows, names, level)
    if as_json:
        print_json({"level": level, "by": by, "groups": [group.as_json(classes) for group in groups]})
        return
    shown = [1] if len(classes) == 2 else range(len(classes))
    learned = any(group.alone is not None for group in groups)
    header = ["" if by is None else by, "rows"]
    for k in shown:
        header += [f"prevalence of {classes[k]}", f"{level:.0%} interval"]
    header += ["by its own rows", "deviates"] if learned else []
    lines = []
    for group in groups:
        line = [EVERYTHING if group.name is None else group.name, f"{group.estimate.n_rows:,}"]
        for k in shown:
            low, high = group.estimate.interval[k]
            line += [f"{group.estimate.prior[k]:.4f}", f"{low:.4f} to {high:.4f}"]
        if learned:
            line += ["" if group.alone is None else f"{group.alone.prior[1]:.4f}", "yes" if group.deviates else ""]
        lines.append(line)
    tables.show_table(f"Prevalence in {data}", header, lines)


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


def _groups(model: "RatioModel", rows: Any, names: "NDArray[np.str_] | None", level: float) -> list[_Group]:
    """Return the estimates of all rows and of each group: with two classes, groups learn from each other."""
    from obil.online.estimate_prior import estimate_prior

    if names is None:
        return [_Group(None, estimate_prior(model, rows, level=level))]
    if model.n_classes > 2:
        own = [_Group(name, estimate_prior(model, rows[names == name], level=level)) for name in sorted(set(names))]
        return [_Group(None, estimate_prior(model, rows, level=level)), *own]
    found = estimate_prior(model, rows, by=names, level=level)
    deviating = set(found.deviating())
    own = [_Group(str(name), found[name], found.alone[name], name in deviating) for name in found]
    return [_Group(None, found.common), *own]
