"""Read a table for a model, and write results whole or not at all."""

import os
import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from obil.cli.common import print_table

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    from obil.arrays import IntArray
    from obil.serving.calibrators import Calibrator
    from obil.serving.ratio_model import RatioModel

DEFAULT_MODEL = "hist_gradient_boosting"
MODELS = f"{DEFAULT_MODEL}, logistic, random_forest, extra_trees, neural_network, or obil: networks and trees on "
MODELS += "associated problems (needs torch)."
Target = Annotated[str, typer.Option("--target", help="Column that holds the labels.", show_default=False)]
PositiveLabel = Annotated[
    str | None,
    typer.Option(
        "--positive", help="The label to alert on; if not given, the rarer of two texts, the larger of two numbers."
    ),
]
Drop = Annotated[str | None, typer.Option("--drop", help="Columns to leave out: a,b.")]
Keep = Annotated[str | None, typer.Option("--keep", help="Columns to copy to the output: id,date.")]
Calibration = Annotated[
    str,
    typer.Option("--calibration", help="affine, temperature, vector, matrix (many classes), spline, isotonic (two)."),
]


def table_argument(text: str) -> Any:
    """Return a command's argument for a table."""
    return typer.Argument(help=f"{text}: CSV (any delimiter, gzip too) or parquet; - is standard input.")


@dataclass(frozen=True, slots=True, eq=False)
class ModelTable:
    """A table with the part of it that a model takes."""

    frame: "pd.DataFrame"
    rows: Any  # a DataFrame, or a matrix (n, d) for a model without column names


@dataclass(frozen=True, slots=True, eq=False)
class LabelledTable:
    """The labelled rows of a table, as a model takes them."""

    rows: Any
    labels: "IntArray"  # (n,) class numbers
    n_unlabelled: int


def source_of(table: Path) -> Any:
    """Return what to read a table from: its path, or standard input for -."""
    return sys.stdin.buffer if str(table) == "-" else table


def load_model(folder: Path, trust: Sequence[str] | None) -> "RatioModel":
    """Load a model folder, building only listed types and those the user vouches for."""
    from obil.serving.files import load

    return load(folder, trusted=trust or ())


def require_model_and_calibration(model: str, calibration: str) -> None:
    """Refuse unknown names before a table is read."""
    from obil.calibration.calibrate import CALIBRATIONS
    from obil.errors import InvalidInputError
    from obil.estimators.named_models import require_model

    require_model(model)
    if calibration not in CALIBRATIONS:
        raise InvalidInputError(f"--calibration must be one of {', '.join(CALIBRATIONS)}, got {calibration!r:.40}")


def read_to_fit(
    data: Path, target: str, *, others: Collection[str], text: Collection[str] = ()
) -> "tuple[pd.DataFrame, npt.NDArray[Any], int]":
    """Return features, labels and the number of unlabelled rows of a table that must have these other columns, too."""
    from obil.datasets.table_cells import require_columns
    from obil.datasets.tables import read_table, split_labels
    from obil.errors import InvalidInputError

    if target in others:
        raise InvalidInputError(f"the target must be none of the other columns named, got {target!r}")
    table = read_table(source_of(data), target=target, text=text)
    require_columns(others, list(table.columns), table=str(data))
    return split_labels(table, target)


def positive_class(text: str | None, model: "RatioModel", *, needed: bool) -> Any:
    """Return the user's own label for the class that --positive names; costs and policies of many classes need one."""
    from obil.errors import InvalidInputError
    from obil.serving.ratio_model import class_named

    names = model.classes_.tolist()
    if text is not None:
        return names[class_named(text, model.classes_)]
    if len(names) > 2 and needed:
        raise InvalidInputError(
            f"costs and policies need the class to alert on, of {len(names)}: give --positive, one of {names!r:.200}"
        )
    return None


def stated_prior(text: str, model: "RatioModel", positive: Any) -> Any:
    """Return the prior that `--prior` states: `.02` of the positive class, or `a=.7,b=.2,c=.1`."""
    from obil.errors import InvalidInputError
    from obil.serving.ratio_model import class_named

    names = model.classes_.tolist()
    parts = [part.rpartition("=") for part in text.split(",")]
    try:
        priors = [float(number) for _, _, number in parts]
    except ValueError:
        raise InvalidInputError(f"--prior must be a number such as .02, or a=.7,b=.2,c=.1, got {text!r:.40}") from None
    if all(equals for _, equals, _ in parts):
        named = [names[class_named(name.strip(), model.classes_)] for name, _, _ in parts]
        return dict(zip(named, priors, strict=True))
    if len(names) > 2:
        example = ",".join(f"{name}={1 / len(names):.2g}" for name in names)
        raise InvalidInputError(f"--prior must name the prior of each class, {example:.200}; got {text!r:.40}")
    if len(parts) > 1:
        raise InvalidInputError(f"--prior must be one number such as .02, or a=.7,b=.3, got {text!r:.40}")
    if not 0.0 < priors[0] < 1.0:
        raise InvalidInputError(f"--prior must lie between 0 and 1, got {text!r:.40}")
    return 1.0 - priors[0] if positive == names[0] else priors[0]


def linear_map(calibrator: "Calibrator") -> tuple[list[float], list[float]] | None:
    """Return the slopes and offsets of the classes after the first, or None where the map is a curve."""
    from obil.serving.calibrators import LinearCalibrator

    if not isinstance(calibrator, LinearCalibrator):
        return None
    return calibrator.slopes[1:].tolist(), calibrator.offsets[1:].tolist()


def read_for_model(
    table: Path, model: "RatioModel", *, target: str | None = None, text: Collection[str] = ()
) -> ModelTable:
    """Read a table with the types that the model was fitted on; `text` columns are kept letter for letter."""
    from obil.datasets.table_cells import require_columns
    from obil.datasets.tables import read_table

    columns = () if model.encoder is None else model.encoder.columns
    numbers = {column.name for column in columns if not column.is_category}
    categories = [column.name for column in columns if column.is_category]
    as_text = [name for name in dict.fromkeys([*categories, *text]) if name not in numbers and name != target]
    if target is not None and model.classes_.dtype.kind in "USO" and target not in numbers:
        as_text.append(target)
    frame = read_table(source_of(table), target=target, text=as_text)
    wanted = model.feature_names if model.encoder is None else model.encoder.names
    require_columns([*(wanted or ()), *text], list(frame.columns), table=str(table))
    if model.encoder is not None:
        _require_numbers(frame, numbers, table)
        return ModelTable(frame, frame)
    if wanted is not None:
        return ModelTable(frame, frame[list(wanted)])
    rest = frame.drop(columns=[name for name in {target, *text} if name is not None])
    _require_numbers(rest, list(rest.columns), table)
    return ModelTable(frame, rest.to_numpy(dtype=float))


def read_labelled(table: Path, model: "RatioModel", target: str) -> LabelledTable:
    """Read the rows that have a label, with their class numbers; every class needs a row."""
    import numpy as np

    from obil.datasets.tables import split_labels
    from obil.errors import InvalidInputError
    from obil.serving.ratio_model import labels_to_numbers

    if target in (model.feature_names or ()):
        raise InvalidInputError(f"the target must not be a column the model learns from, got {target!r}")
    read = read_for_model(table, model, target=target)
    _, labels, n_unlabelled = split_labels(read.frame, target)
    labelled = read.frame[target].notna().to_numpy()
    if labels.dtype == object and model.classes_.dtype.kind in "fiub":
        labels = _as_numbers(labels)
    numbers = labels_to_numbers(labels, model.classes_)
    missing = [name for k, name in enumerate(model.classes_.tolist()) if not np.any(numbers == k)]
    if missing:
        raise InvalidInputError(f"every class needs a labelled row, got none of {missing} in {table}")
    return LabelledTable(read.rows[labelled], numbers, n_unlabelled)


def require_file_to_write(out: Path, *, unlike: Path, option: str = "--out") -> None:
    """Refuse an output file that cannot be written, or that is the input, before the long work."""
    from obil.errors import InvalidInputError

    if out.is_dir():
        raise InvalidInputError(f"{option} must be a file, and {out} is a folder")
    if not out.parent.is_dir():
        raise InvalidInputError(f"{option} must lie in a folder that exists, got {out}: make {out.parent} first")
    if out.exists() and unlike.exists() and out.samefile(unlike):
        raise InvalidInputError(f"{option} must be another file than the input, got {out}")


def require_folder_to_write(out: Path) -> None:
    """Refuse a model folder that `obil.save` would refuse, before the long work."""
    from obil.errors import InvalidInputError
    from obil.serving.files import MANIFEST

    if out.is_file():
        raise InvalidInputError(f"--out must be a folder, and {out} is a file")
    if out.is_dir() and any(out.iterdir()) and not (out / MANIFEST).is_file():
        raise InvalidInputError(f"--out must be new, empty or a model folder, and {out} holds other files")


def write_whole(out: Path, write: Callable[[Path], None]) -> None:
    """Write a file under a temporary name beside its place, then rename it."""
    handle, name = tempfile.mkstemp(prefix=f".{out.name}.", dir=out.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        temporary.chmod(0o644)
        temporary.replace(out)
    except OSError as error:  # a full disk does not say which file
        raise OSError(error.errno, error.strerror, str(out)) from None
    finally:
        temporary.unlink(missing_ok=True)


def write_table(frame: "pd.DataFrame", out: Path) -> None:
    """Write a table as its name says: .parquet, .csv.gz, or CSV."""
    from obil.errors import InvalidInputError

    if out.suffix == ".parquet":
        try:
            write_whole(out, lambda path: frame.to_parquet(path, index=False))
        except ImportError:
            raise InvalidInputError(f"a parquet table needs pyarrow (pip install pyarrow), got --out {out}") from None
        return
    gzip: Any = {"method": "gzip", "mtime": 0} if out.suffix == ".gz" else None  # same rows, same bytes
    write_whole(out, lambda path: frame.to_csv(path, index=False, compression=gzip))


def names_of(option: str | None) -> list[str]:
    """Return the column names in an option such as `id,date`."""
    return [] if option is None else [name.strip() for name in option.split(",") if name.strip()]


def show_table(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table with its title above it, where it is not cut to the table's width."""
    typer.echo(title)
    print_table("", header, rows)


def _require_numbers(frame: "pd.DataFrame", names: Collection[str], table: Path) -> None:
    import numpy as np

    from obil.datasets.table_cells import number
    from obil.errors import InvalidInputError

    for name in names:
        if frame[name].dtype != object:
            continue
        present = np.flatnonzero(frame[name].notna())
        wrong = [row for row in present if number(str(frame[name].iloc[row])) is None]
        row = int(wrong[0] if wrong else present[0])
        hint = "" if wrong else " (a thousands mark, or a decimal point among commas)"
        raise InvalidInputError(
            f"column {name!r} must hold numbers, got {frame[name].iloc[row]!r:.40}{hint} in row {row + 1} of {table}"
        )


def _as_numbers(labels: Any) -> Any:
    """Return labels that were read as text, as numbers and truth values where they are."""
    import numpy as np

    from obil.datasets.table_cells import number

    truth = {"true": True, "false": False}
    values = [truth.get(str(label).lower(), label) for label in labels]
    values = [number(value) if isinstance(value, str) and number(value) is not None else value for value in values]
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found
