"""Estimate the prevalence in a table, whole or by group."""

from pathlib import Path
from typing import Annotated, Any

import typer

from obil.cli import tables
from obil.cli.common import AsJson, ModelFolder, Trust, one_line_errors, print_json
from obil.cli.progress import working

MISSING = "(missing)"
EVERYTHING = "all rows"


@one_line_errors()
def prior(
    model: ModelFolder,
    data: Annotated[Path, tables.table_argument("Rows without labels")],
    by: Annotated[str | None, typer.Option("--by", help="Column whose values are estimated one by one.")] = None,
    level: Annotated[float, typer.Option("--level", help="Level of the confidence intervals.")] = 0.9,
    trust: Trust = None,
    as_json: AsJson = False,
) -> None:
    """Estimate the prevalence of each class in unlabelled rows, with a confidence interval."""
    from obil.arrays import require_in
    from obil.errors import InvalidInputError
    from obil.online.estimate_prior import estimate_prior

    require_in("--level", level, 1e-6, 1.0 - 1e-6)
    fitted = tables.load_model(model, trust)
    if by in (fitted.feature_names or ()):
        # inside one ward the ratio would count the ward itself as evidence, over and over
        raise InvalidInputError(
            f"--by must not be a column the model learns from, or its estimates are wrong, got {by!r}: "
            f"fit the model again with --drop {by}"
        )
    table = tables.read_for_model(data, fitted, text=[] if by is None else [by])
    groups: list[tuple[str, Any]] = [(EVERYTHING, slice(None))]
    if by is not None:
        names = table.frame[by].map(lambda cell: f"{cell:g}" if isinstance(cell, float) else str(cell))
        names = names.where(table.frame[by].notna(), MISSING)
        groups += [(name, (names == name).to_numpy()) for name in sorted(names.unique())]
    classes = fitted.classes_.tolist()
    with working(f"Estimating {len(groups)} priors..."):
        found = [(name, estimate_prior(fitted, table.rows[rows], level=level)) for name, rows in groups]
    if as_json:
        records = [
            {
                "group": None if number == 0 else name,
                "rows": estimate.n_rows,
                "prior": dict(zip(classes, estimate.prior.tolist(), strict=True)),
                "interval": dict(zip(classes, estimate.interval.tolist(), strict=True)),
            }
            for number, (name, estimate) in enumerate(found)
        ]
        print_json({"level": level, "by": by, "groups": records})
        return
    shown = [1] if len(classes) == 2 else range(len(classes))
    header = ["" if by is None else by, "rows"]
    for k in shown:
        header += [f"prevalence of {classes[k]}", f"{level:.0%} interval"]
    lines = []
    for name, estimate in found:
        line = [name, f"{estimate.n_rows:,}"]
        for k in shown:
            low, high = estimate.interval[k]
            line += [f"{estimate.prior[k]:.4f}", f"{low:.4f} to {high:.4f}"]
        lines.append(line)
    tables.show_table(f"Prevalence in {data}", header, lines)
