"""Check arrays where they enter: finite, of the right shape, inside the simplex."""

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from obil.errors import InvalidInputError, InvalidStateError

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
PriorLike: TypeAlias = float | npt.ArrayLike

LARGEST_COUNT = 10_000_000  # a longer window or grid is a mistake in a setting or a damaged state
FEW_NUMBERS = 100
SUM_TOLERANCE = 1e-6
SMALLEST_PRIOR = 1e-15


def as_prior(prior: PriorLike, *, n_classes: int | None = None) -> FloatArray:
    """Return a prior as an array (K,) that sums to 1; a single number is the binary P1.

    >>> as_prior(0.25)
    array([0.75, 0.25])
    >>> as_prior([0.2, 0.3, 0.5])
    array([0.2, 0.3, 0.5])
    """
    values = as_floats(prior, "prior")
    if values.ndim == 0:
        values = np.array([1.0 - float(values), float(values)])
    if values.ndim != 1 or values.size < 2:
        raise InvalidInputError(f"prior must hold one probability per class (K >= 2), got shape {values.shape}")
    if n_classes is not None and values.size != n_classes:
        raise InvalidInputError(f"prior must have {n_classes} classes, got {values.size}")
    if not ((values >= SMALLEST_PRIOR) & (values <= 1.0)).all():
        raise InvalidInputError(
            f"prior must be a probability of at least {SMALLEST_PRIOR:g} for every class, got {values.tolist()}"
        )
    total = float(values.sum())
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise InvalidInputError(f"prior must sum to 1, got a sum of {total!r}")
    if abs(total - 1.0) <= 1e-12:  # checked before: dividing again would change its last bits
        return values.copy()
    scaled: FloatArray = values / total
    return scaled


def as_log_ratios(log_ratios: npt.ArrayLike, *, n_classes: int | None = None) -> FloatArray:
    """Return log ratios as a contiguous array (n, K) whose column 0 is 0 and whose entries are finite."""
    rows = np.ascontiguousarray(as_floats(log_ratios, "log_ratios"))
    if rows.ndim != 2 or rows.shape[1] < 2:
        raise InvalidInputError(f"log_ratios must have shape (n, K) with K >= 2, got {rows.shape}")
    if n_classes is not None and rows.shape[1] != n_classes:
        raise InvalidInputError(f"log_ratios must have {n_classes} columns, got {rows.shape[1]}")
    if not np.isfinite(rows).all():
        row = int(np.argmin(np.isfinite(rows).all(axis=1)))
        raise InvalidInputError(f"log_ratios must be finite, got {rows[row].tolist()} in row {row}")
    if rows[:, 0].any():
        row = int(np.argmax(rows[:, 0] != 0.0))
        raise InvalidInputError(
            f"log_ratios are relative to class 0, so column 0 must be 0, got {rows[row].tolist()} in row {row}"
        )
    return rows


def as_log_ratio_row(log_ratios: npt.ArrayLike, *, n_classes: int) -> FloatArray:
    """Return the log ratios of one row, (K,): column 0 is 0 and all are finite."""
    row = as_floats(log_ratios, "log_ratios")
    if row.ndim != 1:
        raise InvalidInputError(f"log_ratios must be those of one row, shape (K,), got {row.shape}")
    values = row.tolist()
    # a finite sum has finite terms; this looks at one row in a tenth of the time the array checks take
    if len(values) == n_classes and values[0] == 0.0 and math.isfinite(sum(values)):
        return row
    checked: FloatArray = as_log_ratios(row[None], n_classes=n_classes)[0]
    return checked


def as_evidence(evidence: npt.ArrayLike, *, n_rows: int, n_classes: int) -> FloatArray:
    """Return evidence of rows as a contiguous array (n, 1 + V + D, K): finite numbers whose column 0 is 0.

    The first log ratios of a row are by all its features, then come those of each of V views, then D inputs. The first
    ones are [0, NaN, ...] where the row must not update the prior.
    """
    values = np.ascontiguousarray(as_floats(evidence, "evidence"))
    if values.ndim != 3 or values.shape[0] != n_rows or values.shape[1] < 1 or values.shape[2] != n_classes:
        raise InvalidInputError(f"evidence must have shape ({n_rows}, 1 + views, {n_classes}), got {values.shape}")
    if not _is_sound(values):
        raise InvalidInputError(
            "evidence must be finite log ratios relative to class 0, so that column 0 is 0; the first ones of a row "
            "that must not update the prior are NaN"
        )
    return values


def _is_sound(evidence: FloatArray) -> bool:
    if evidence[:, :, 0].any():
        return False
    finite = np.isfinite(evidence)
    return bool(finite.all()) or bool(finite[:, 1:].all() and (finite[:, 0, 1:] | marks_of(evidence)[:, None]).all())


def marks_of(evidence: FloatArray) -> BoolArray:
    """Return which rows of evidence, (n, S, K), must not update the prior, (n,).

    >>> marks_of(np.array([[[0.0, 1.5]], [[0.0, np.nan]]]))
    array([False,  True])
    """
    return np.asarray(np.isnan(evidence[:, 0, 1:]).all(axis=1))


def are_finite(values: FloatArray) -> bool:
    """Return whether all numbers are finite."""
    # a finite sum has finite terms; this looks at one row in a fifth of the time the array checks take
    few = values.size < FEW_NUMBERS and math.isfinite(sum(values.ravel().tolist()))
    return few or bool(np.isfinite(values).all())


def as_scaled(log_ratios: FloatArray) -> FloatArray:
    """Return log ratios less the largest of their row, (n, K), and finite: exp of it cannot overflow."""
    with np.errstate(over="ignore"):  # the difference of two huge ratios may be -inf, and is then clipped
        scaled: FloatArray = np.maximum(log_ratios - log_ratios.max(axis=1, keepdims=True), -1e308)
    return scaled


def as_labels(labels: npt.ArrayLike, *, n_classes: int) -> IntArray:
    """Return class numbers as an array (n,) of integers in 0 ... K-1."""
    values = np.asarray(labels)
    if values.ndim != 1:
        raise InvalidInputError(f"labels must have shape (n,), got {values.shape}")
    if values.size and not np.issubdtype(values.dtype, np.integer) and values.dtype != bool:
        raise InvalidInputError(f"labels must be class numbers (integers), got dtype {values.dtype}")
    numbers = values.astype(np.int64)
    if numbers.size and (numbers.min() < 0 or numbers.max() >= n_classes):
        raise InvalidInputError(f"labels must lie in 0 ... {n_classes - 1}, got {numbers.min()} ... {numbers.max()}")
    return numbers


def require_same_length(**arrays: npt.NDArray[Any]) -> None:
    """Refuse arrays whose first axes differ: `require_same_length(labels=labels, decisions=decisions)`."""
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInputError(f"these must be equally long, got {lengths}")


def require_in(name: str, value: float, low: float, high: float) -> float:
    """Return a number that lies in [low, high], or say which rule it breaks."""
    values = as_floats(value, name)
    if values.ndim or not low <= float(values) <= high:
        raise InvalidInputError(f"{name} must lie in [{low:g}, {high:g}], got {value!r}")
    return float(values)


def as_integer(name: str, value: object, smallest: int, largest: int = LARGEST_COUNT) -> int:
    """Return a plain integer in smallest ... largest, or say which rule it breaks.

    >>> as_integer("label", np.int64(1), 0, 1)
    1
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not smallest <= value <= largest:
        raise InvalidInputError(f"{name} must be an integer in {smallest} ... {largest}, got {shown(value)}")
    return int(value)


def is_count(value: object, largest: int = 2**53) -> bool:
    """Return whether a value that was read from JSON is an integer in 0 ... largest."""
    return type(value) is int and 0 <= value <= largest


def shown(value: object, length: int = 40) -> str:
    """Return the beginning of what a value looks like; a number of 5,000 digits refuses to be printed."""
    try:
        return repr(value)[:length]
    except ValueError:
        return f"a {type(value).__name__} too long to print"


def require_positive(name: str, value: float) -> float:
    """Return a positive and finite number, or say that it is not."""
    number = as_floats(value, name)
    if number.ndim or not 0.0 < number < np.inf:
        raise InvalidInputError(f"{name} must be positive and finite, got {value!r}")
    return float(number)


def as_floats(values: npt.ArrayLike, name: str) -> FloatArray:
    """Return an array of floats, or say that these are not numbers."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(f"{name} must be numbers, got {values!r:.80}") from None


def restore_arrays(arrays: Mapping[str, npt.NDArray[Any]], saved: Mapping[str, Any]) -> None:
    """Write saved JSON values over arrays of the same names, shapes and kinds, or say which field is damaged."""
    if set(saved) != set(arrays):
        wrong = sorted(map(str, set(saved) ^ set(arrays)))[:3]
        raise InvalidStateError(f"a saved memory must hold {len(arrays)} fields, missing or unknown: {wrong!r:.200}")
    for field, values in arrays.items():
        try:
            restored = np.asarray(saved[field])
            whole, both_float = restored.dtype.kind == "i", restored.dtype.kind == values.dtype.kind == "f"
            numbers = whole or restored.size == 0 or (both_float and bool(np.isfinite(restored).all()))
            usable = numbers and restored.shape == values.shape
        except (TypeError, ValueError, OverflowError):
            usable = False
        if not usable:
            kind = "integers" if values.dtype.kind == "i" else "finite numbers"
            raise InvalidStateError(f"memory field {field!r} must hold {kind} in shape {values.shape}")
        values[...] = restored


def require_distributions(name: str, values: FloatArray) -> None:
    """Refuse restored values that are not, along their last axis, non-negative numbers that sum to 1."""
    if (
        (values < 0.0).any()
        or (values > 1.0 + SUM_TOLERANCE).any()
        or (abs(values.sum(axis=-1) - 1.0) > SUM_TOLERANCE).any()
    ):
        raise InvalidStateError(f"{name} must be non-negative and sum to 1")
