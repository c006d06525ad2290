"""Turn the cells of rows into the table that a model scores, and name the column where they do not fit."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd

from obil.arrays import FloatArray, shown
from obil.service.refusals import BadInputError
from obil.serving.ratio_model import RatioModel

_NUMBERS: frozenset[type] = frozenset({int, float})
_NUMBER = "a number (1 for true, 0 for false)"
_PLAIN: frozenset[type] = frozenset({int, float, str, bool, type(None)})


class RowReader:
    """Reads rows for one model; what the model expects is computed once.

    All rows are checked at once; only where they do not fit is the wrong cell searched for.
    """

    def __init__(self, model: RatioModel) -> None:
        self.model, self.names = model, model.feature_names
        self.width = model.n_features if self.names is None else len(self.names)
        self._codes: list[dict[str, float] | None] = [  # per column, of its categories; None: numbers
            None if column.levels is None else {name: float(code) for code, name in enumerate(column.levels)}
            for column in model.columns or ()
        ]
        # a model that knows its columns only by name may take any type
        self._typed = model.columns is not None or self.names is None
        self._only_numbers = not any(codes is not None for codes in self._codes)
        self._as_matrix = self._typed or model.n_features is not None
        self._pick: Callable[[Any], Sequence[Any]] | None = None if self.names is None else _picker(self.names)
        self._takes_missing: dict[int, bool] = {}

    @property
    def categorical_names(self) -> list[str]:
        """The names of the categorical columns."""
        return [name for name, codes in zip(self.names or (), self._codes, strict=False) if codes is not None]

    def of_objects(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        """Return the table of rows by column name."""
        if self._pick is None:
            raise BadInputError("rows must be arrays: this model has no column names", where="rows")
        try:
            cells = list(map(self._pick, rows))
        except KeyError:
            self._raise_names(rows)
        if set(map(len, rows)) != {self.width}:
            self._raise_names(rows)
        return self.of_cells(cells)

    def of_arrays(self, rows: Sequence[Sequence[Any]]) -> Any:
        """Return the table of rows in the order of the model's columns."""
        widths = set(map(len, rows))
        if len(widths) != 1 or widths == {0} or (self.width is not None and widths != {self.width}):
            wanted = "the same number of features" if self.width is None else f"{self.width} features"
            wrong = next((i for i, row in enumerate(rows) if len(row) != (self.width or len(rows[0]) or -1)), 0)
            raise BadInputError(f"a row must have {wanted}, got {len(rows[wrong])} in row {wrong}", where="rows")
        return self.of_cells(rows)

    def of_cells(self, cells: Sequence[Sequence[Any]]) -> Any:
        """Return the table of rows whose cells are as many as the columns, and in their order."""
        if self._only_numbers and self._as_matrix and set(map(type, chain.from_iterable(cells))) <= _NUMBERS:
            matrix = _as_floats(cells)
            if matrix is not None and np.isfinite(matrix).all():
                return matrix
        if len(cells) == 1 and self._codes:
            matrix = self._of_one(cells[0])
            if matrix is not None:
                return matrix
        return self._of_columns([list(column) for column in zip(*cells, strict=True)])

    def of_frame(self, frame: pd.DataFrame) -> Any:
        """Return the table of a frame whose columns hold float64, or strings with NaN for missing."""
        if self.names is not None:
            missing = [name for name in self.names if name not in frame.columns]
            unknown = [str(name) for name in frame.columns if name not in self.names]
            if missing or unknown:
                self._raise_name(missing, unknown, "the header", "; name a column of ids with ?id_column=")
            frame = frame[list(self.names)]
        elif self.width is not None and len(frame.columns) != self.width:
            raise BadInputError(f"a row must have {self.width} features, got {len(frame.columns)} columns")
        if not self._typed:
            return frame
        for place, name in enumerate(frame.columns):
            if not (self._codes and self._codes[place] is not None):
                self._require_numbers(place, frame[name])
        return self._of_columns([plain_cells(frame[name]) for name in frame.columns])

    def _of_one(self, cells: Sequence[Any]) -> FloatArray | None:
        """Return the table of one row in a third of the time, or None where a cell needs a check."""
        values: list[Any] = []
        for cell, codes in zip(cells, self._codes, strict=True):
            if codes is None and type(cell) in _NUMBERS:
                values.append(cell)
            elif codes is not None and type(cell) is str and cell:
                values.append(codes.get(cell, len(codes)))
            else:
                return None
        matrix = _as_floats([values])
        return matrix if matrix is not None and np.isfinite(matrix).all() else None

    def _of_columns(self, columns: list[list[Any]]) -> Any:
        if not self._typed:
            for place, column in enumerate(columns):
                self._require(place, column, _PLAIN, "a number, a string or null")
            return pd.DataFrame(dict(zip(self.names or (), columns, strict=True)))
        encoded = [self._encoded(place, column) for place, column in enumerate(columns)]
        return np.stack(encoded, axis=1)

    def _encoded(self, place: int, column: list[Any]) -> FloatArray:
        codes = self._codes[place] if self._codes else None
        if codes is not None:
            self._require(place, column, {str, type(None)}, "a string")
            other = float(len(codes))
            values = np.array([codes.get(name, other) if name else np.nan for name in column])
        else:
            self._require(place, column, {int, float, type(None)}, _NUMBER)
            found = _as_floats(column)
            values = np.full(len(column), np.inf) if found is None else found
            if np.isinf(values).any():
                row = next(i for i, cell in enumerate(column) if _is_too_large(cell))
                self._raise_cell(place, row, column[row], "a finite number")
        if np.isnan(values).any() and not self._takes_missing_values(place, len(self._codes) or self.width):
            row = int(np.flatnonzero(np.isnan(values))[0])
            self._raise_cell(place, row, None, "a value: the model cannot score rows where it is missing")
        return values

    def _takes_missing_values(self, place: int, width: int | None) -> bool:
        """Return whether the model scores a row where this column is missing, by scoring one."""
        if width is None:
            return False
        if place not in self._takes_missing:
            row = np.zeros((1, width))
            row[0, place] = np.nan
            try:
                self._takes_missing[place] = bool(np.isfinite(self.model.log_ratios(row)).all())
            except (ValueError, TypeError):
                self._takes_missing[place] = False
        return self._takes_missing[place]

    def _require(self, place: int, column: Sequence[Any], kinds: "set[type] | frozenset[type]", wanted: str) -> None:
        if not set(map(type, column)) <= kinds:
            row = next(i for i, cell in enumerate(column) if type(cell) not in kinds)
            self._raise_cell(place, row, column[row], wanted)

    def _require_numbers(self, place: int, column: "pd.Series[Any]") -> None:
        # one string makes a whole CSV column strings: name the cell that is no number
        if pd.api.types.is_string_dtype(column) or column.dtype == object:
            wrong = (column.notna() & pd.to_numeric(column, errors="coerce").isna()).to_numpy()
            if wrong.any():
                row = int(wrong.argmax())
                self._raise_cell(place, row, column.iloc[row], _NUMBER)

    def _raise_cell(self, place: int, row: int, cell: Any, wanted: str) -> NoReturn:
        name = str(place) if self.names is None else self.names[place]
        value = "null" if cell is None else shown(cell)
        raise BadInputError(f"column {name!r} must hold {wanted}, got {value} in row {row}", where=name)

    def _raise_names(self, rows: Sequence[Mapping[str, Any]]) -> NoReturn:
        names = self.names or ()
        for i, row in enumerate(rows):
            missing = [name for name in names if name not in row]
            unknown = [name for name in row if name not in names]
            if missing or unknown:
                self._raise_name(missing, unknown, f"row {i}")
        raise BadInputError("rows must have the model's columns and no others", where="rows")

    def _raise_name(self, missing: list[str], unknown: list[str], place: str, hint: str = "") -> NoReturn:
        names = ", ".join(self.names or ())
        if missing:
            instead = f", which has {unknown[0]!r:.80}" if unknown else ""
            raise BadInputError(f"column {missing[0]!r} is missing in {place}{instead}", where=missing[0])
        raise BadInputError(
            f"column {unknown[0]!r:.80} in {place} is unknown: the model has the columns {names:.200}{hint}",
            where=unknown[0][:128],
        )


def _picker(names: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    if len(names) == 1:
        return lambda row: (row[names[0]],)
    return itemgetter(*names)


def _as_floats(cells: Sequence[Any]) -> FloatArray | None:
    try:
        return np.array(cells, dtype=np.float64)
    except OverflowError:  # a whole number beyond the largest float
        return None


def _is_too_large(cell: Any) -> bool:
    try:
        return cell is not None and bool(np.isinf(float(cell)))
    except OverflowError:
        return True


def plain_cells(column: "pd.Series[Any]") -> list[Any]:
    """Return cells as JSON values: numbers, strings, None for missing."""
    values: npt.NDArray[Any] = column.to_numpy()
    missing = column.isna().to_numpy()
    if not missing.any():
        return list(values.tolist())
    return [None if lacks else cell for cell, lacks in zip(values.tolist(), missing, strict=True)]
