"""Turn the cells of rows into the table that one model scores, and name the column where they do not fit."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd

from obil.arrays import FloatArray
from obil.online.decision_ids import shown
from obil.service.refusals import BadInputError
from obil.serving.ratio_model import RatioModel

_NUMBERS: frozenset[type] = frozenset({int, float})
_NUMBER = "a number (1 for true, 0 for false)"
_PLAIN: frozenset[type] = frozenset({int, float, str, bool, type(None)})


class RowReader:
    """What one model asks of a row, worked out once so that a request costs only its own cells.

    Rows that fit are found to fit by looking at all of them at once; only rows that do not are searched for the cell
    to blame.
    """

    def __init__(self, model: RatioModel) -> None:
        self.model = model
        self.names = model.feature_names if model.encoder is None else model.encoder.names
        self.width = model.scorer.n_features if self.names is None else len(self.names)
        self._codes: list[dict[str, float] | None] = []  # of the words of each column; None: a column of numbers
        if model.encoder is not None:
            levels = [column.levels for column in model.encoder.columns]
            self._codes = [
                None if words is None else {word: float(code) for code, word in enumerate(words)} for words in levels
            ]
        # only an encoder, or a model without names, says that a column holds numbers
        self._typed = model.encoder is not None or self.names is None
        self._only_numbers = not any(codes is not None for codes in self._codes)
        self._as_matrix = self._typed or model.scorer.n_features is not None
        self._pick: Callable[[Any], Sequence[Any]] | None = None if self.names is None else _picker(self.names)
        self._takes_missing: dict[int, bool] = {}

    @property
    def words(self) -> list[str]:
        """The names of the columns that hold words."""
        return [name for name, codes in zip(self.names or (), self._codes, strict=False) if codes is not None]

    def of_objects(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        """Return the table of rows by column name."""
        if self._pick is None:
            raise BadInputError("this model knows no column names: send each row as an array", where="rows")
        try:
            cells = list(map(self._pick, rows))
        except KeyError:
            self._blame_names(rows)
        if set(map(len, rows)) != {self.width}:
            self._blame_names(rows)
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
        """Return the table of a frame whose columns hold float64, or text with NaN for missing."""
        if self.names is not None:
            missing = [name for name in self.names if name not in frame.columns]
            unknown = [str(name) for name in frame.columns if name not in self.names]
            if missing or unknown:
                self._blame_name(missing, unknown, "the header", "; a column of ids is named by ?id_column=")
            frame = frame[list(self.names)]
        elif self.width is not None and len(frame.columns) != self.width:
            raise BadInputError(f"a row must have {self.width} features, got {len(frame.columns)} columns")
        if not self._typed:
            return frame
        for place, name in enumerate(frame.columns):
            if not (self._codes and self._codes[place] is not None):
                self._require_no_words(place, frame[name])
        return self._of_columns([plain_cells(frame[name]) for name in frame.columns])

    def _of_one(self, cells: Sequence[Any]) -> FloatArray | None:
        """Return the table of one row in a third of the time that columns take, or None where a cell needs a look."""
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
                self._require(place, column, _PLAIN, "a number, a text or null")
            return pd.DataFrame(dict(zip(self.names or (), columns, strict=True)))
        encoded = [self._encoded(place, column) for place, column in enumerate(columns)]
        return np.stack(encoded, axis=1)

    def _encoded(self, place: int, column: list[Any]) -> FloatArray:
        codes = self._codes[place] if self._codes else None
        if codes is not None:
            self._require(place, column, {str, type(None)}, "text")
            other = float(len(codes))
            values = np.array([codes.get(word, other) if word else np.nan for word in column])
        else:
            self._require(place, column, {int, float, type(None)}, _NUMBER)
            found = _as_floats(column)
            values = np.full(len(column), np.inf) if found is None else found
            if np.isinf(values).any():
                row = next(i for i, cell in enumerate(column) if _is_too_large(cell))
                self._blame(place, row, column[row], "a finite number")
        if np.isnan(values).any() and not self._may_miss(place, len(self._codes) or self.width):
            row = int(np.flatnonzero(np.isnan(values))[0])
            self._blame(place, row, None, "a value: the model does not score rows without it")
        return values

    def _may_miss(self, place: int, width: int | None) -> bool:
        """Return whether the model scores a row that lacks this column, found out by scoring one."""
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
            self._blame(place, row, column[row], wanted)

    def _require_no_words(self, place: int, column: "pd.Series[Any]") -> None:
        # one word makes text of a whole column of a table: its numbers are not to blame
        if pd.api.types.is_string_dtype(column) or column.dtype == object:
            words = (column.notna() & pd.to_numeric(column, errors="coerce").isna()).to_numpy()
            if words.any():
                row = int(words.argmax())
                self._blame(place, row, column.iloc[row], _NUMBER)

    def _blame(self, place: int, row: int, cell: Any, wanted: str) -> NoReturn:
        name = str(place) if self.names is None else self.names[place]
        value = "null" if cell is None else shown(cell)
        raise BadInputError(f"column {name!r} must hold {wanted}, got {value} in row {row}", where=name)

    def _blame_names(self, rows: Sequence[Mapping[str, Any]]) -> NoReturn:
        names = self.names or ()
        for i, row in enumerate(rows):
            missing = [name for name in names if name not in row]
            unknown = [name for name in row if name not in names]
            if missing or unknown:
                self._blame_name(missing, unknown, f"row {i}")
        raise BadInputError("rows must have the model's columns and no others", where="rows")

    def _blame_name(self, missing: list[str], unknown: list[str], place: str, hint: str = "") -> NoReturn:
        names = ", ".join(self.names or ())
        if missing:
            instead = f", which has {unknown[0]!r:.80}" if unknown else ""
            raise BadInputError(f"the column {missing[0]!r} is missing in {place}{instead}", where=missing[0])
        raise BadInputError(
            f"the model has the columns {names:.200}, got {unknown[0]!r:.80} in {place}{hint}", where=unknown[0][:128]
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
    """Return cells as JSON would bring them: numbers, text, None for missing."""
    values: npt.NDArray[Any] = column.to_numpy()
    missing = column.isna().to_numpy()
    if not missing.any():
        return list(values.tolist())
    return [None if lacks else cell for cell, lacks in zip(values.tolist(), missing, strict=True)]
