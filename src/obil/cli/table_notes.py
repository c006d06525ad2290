"""Say what in a training table often misleads a model, each in a line with its remedy."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import typer

from obil.arrays import FloatArray

if TYPE_CHECKING:
    import pandas as pd

FEWEST_VALUES = 20  # that a column takes: a flag or a version that rises may well be worth learning
MOST_LEVELS = 50  # of a category that is judged alone: with more, it is almost an id
BALANCED = 1.0 / 3.0  # of the rows: a rarer class that has as much was seldom left as it came
SEPARATES = 0.99  # area under the ROC curve
TOO_GOOD = 0.995  # the same, of a model
REPEATED = 0.01  # of the rows
SECONDS = (5e8, 4e9)  # since 1970, or thousands of them: whole numbers from 1985 to 2096


def notes_on_table(
    table: "pd.DataFrame", labels: npt.NDArray[Any], names: Sequence[str], *, auc: float, time: FloatArray | None = None
) -> list[str]:
    """Return a line for each finding in the columns that a model learned, from rows in their order or with times (n,).

    >>> import pandas as pd
    >>> size = np.random.default_rng(0).normal(size=100)
    >>> notes_on_table(pd.DataFrame({"day": np.arange(100) // 4, "size": size}), size > 1.0, ["size"], auc=0.9)
    ["'size' alone separates the classes (AUC 1.000): leave it out if it is not known before the label (--drop size)"]
    """
    from obil.datasets.tables import FORMATTED

    learned = table[[name for name in names if name in table]]
    notes = []
    formatted = [name for name in table.attrs.get(FORMATTED, ()) if name in learned]
    if formatted:
        notes.append(f"{_listed(formatted)}: thousands marks and currency signs were read as parts of numbers")
    rising = rising_columns(learned, time)
    if rising:
        notes.append(
            f"{_listed(rising)} only rises or falls along the table: what tells the time misleads a model; leave it "
            f"out (--drop {','.join(rising)}), or cut the folds by it (--time)"
        )
    counting = [name for name in map(str, learned) if name not in rising and _is_id_or_time(learned[name])]
    if counting:
        notes.append(
            f"{_listed(counting)} looks like an id or a time: a model that learns it fails on new rows; leave it out "
            f"(--drop {','.join(counting)})"
        )
    alone = dict(_separating(learned, labels))
    notes += [
        f"{name!r} alone separates the classes (AUC {value:.3f}): leave it out if it is not known before the label "
        f"(--drop {name})"
        for name, value in alone.items()
    ]
    if auc >= TOO_GOOD and not alone:
        notes.append(f"an AUC of {auc:.3f} is rarely real: check that no column is filled in after the label is known")
    n_repeated = int(learned.duplicated().sum())
    many_valued = any(learned[name].nunique() >= FEWEST_VALUES for name in learned)
    if many_valued and n_repeated >= max(REPEATED * len(learned), 2):
        notes.append(
            f"{n_repeated:,} of {len(learned):,} rows repeat an earlier one: a hold-out cut from this table holds rows "
            "that the model has seen; drop the repeats before cutting it, or keep them together (--group)"
        )
    return notes


def note_if_balanced(prior: FloatArray, what: str) -> str | None:
    """Return a line for classes that are about equally common, as they seldom are where a model is used.

    >>> note_if_balanced(np.array([0.5, 0.5]), "the table")
    'the classes are about equally common in the table: if it was balanced or undersampled, state the prior of the rows to be decided, such as --prior .02, in obil predict and obil stream'
    """  # noqa: E501  # one line of output
    if len(prior) * float(prior.min()) < 2.0 * BALANCED:
        return None
    return (
        f"the classes are about equally common in {what}: if it was balanced or undersampled, state the prior of the "
        "rows to be decided, such as --prior .02, in obil predict and obil stream"
    )


def warn_if_balanced(prior: FloatArray) -> None:
    """Say on standard error that a model was fitted on balanced classes, where rows are judged by their prior."""
    note = note_if_balanced(prior, "the rows that the model was fitted on")
    if note is not None:
        typer.echo(f"Note: {note}", err=True)


def rising_columns(table: "pd.DataFrame", time: FloatArray | None = None) -> list[str]:
    """Return the number columns that never fall, or never rise, with the rows as they stand or with their times (n,).

    >>> import pandas as pd
    >>> rising_columns(pd.DataFrame({"day": np.arange(100) // 4, "amount": np.arange(100) % 30}))
    ['day']
    """
    orders = [np.arange(len(table))] + ([] if time is None else [np.argsort(time, kind="stable")])
    return [name for name in map(str, table) if _only_rises(table[name], orders)]


def _only_rises(column: "pd.Series[Any]", orders: Iterable[npt.NDArray[np.intp]]) -> bool:
    if column.dtype.kind not in "fiu":
        return False
    values: FloatArray = column.to_numpy(dtype=np.float64)
    if len(np.unique(values[~np.isnan(values)])) < FEWEST_VALUES:
        return False
    inside = [values[order][~np.isnan(values[order])] for order in orders]
    return any((np.diff(kept) >= 0.0).all() or (np.diff(kept) <= 0.0).all() for kept in inside)


def _is_id_or_time(column: "pd.Series[Any]") -> bool:
    """Return whether whole numbers are all different and close, as ids are, or seconds or milliseconds since 1970."""
    if column.dtype.kind not in "fiu":
        return False
    values = column.dropna().to_numpy(dtype=np.float64)
    distinct = np.unique(values)
    if len(distinct) < FEWEST_VALUES or (distinct != np.floor(distinct)).any():
        return False
    low, high = distinct[0], distinct[-1]
    is_time = any(SECONDS[0] * unit <= low and high <= SECONDS[1] * unit for unit in (1.0, 1e3))
    return is_time or (len(distinct) == len(column) and high - low < 2 * len(distinct))


def _separating(table: "pd.DataFrame", labels: npt.NDArray[Any]) -> Iterator[tuple[str, float]]:
    """Yield the columns that alone separate a class from the others, with the area under their ROC curve."""
    from sklearn.metrics import roc_auc_score

    for name in map(str, table):
        column = table[name]
        if column.dtype.kind not in "fiub" and column.nunique() > MOST_LEVELS:
            continue
        best = 0.0
        for label in np.unique(labels):
            is_class = labels == label
            if column.dtype.kind in "fiub":
                scores = column.to_numpy(dtype=np.float64)
                missing = np.isnan(scores)
                options = [np.where(missing, np.nanmedian(scores) if (~missing).any() else 0.0, scores), missing]
            else:
                levels = column.astype(object).where(column.notna(), "")
                options = [levels.map(dict(zip(*_rates(levels, is_class), strict=True))).to_numpy(dtype=np.float64)]
            areas = [float(roc_auc_score(is_class, scores)) for scores in options]
            best = max(best, *(max(area, 1.0 - area) for area in areas))
        if best >= SEPARATES:
            yield name, best


def _rates(levels: "pd.Series[Any]", is_class: npt.NDArray[np.bool_]) -> tuple[list[Any], list[float]]:
    """Return the categories, and how common the class is in each."""
    names, codes = np.unique(levels.to_numpy(dtype=str), return_inverse=True)
    return names.tolist(), (np.bincount(codes, weights=is_class) / np.bincount(codes)).tolist()


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
