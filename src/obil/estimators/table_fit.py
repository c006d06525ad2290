"""Fit a ratio model on a table as people keep them: categories, missing values, ids and all."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from obil.arrays import FloatArray, IntArray
from obil.datasets.times import are_dates
from obil.errors import InvalidInputError, ObilError
from obil.estimators.named_models import named_model
from obil.estimators.obil_classifier import OBILClassifier
from obil.estimators.ratio_classifier import RatioClassifier
from obil.serving.columns import MOST_LEVELS, Column, ColumnEncoder
from obil.serving.ratio_model import RatioModel, class_named, labels_to_numbers

MOST_CLASSES = 50


@dataclass(frozen=True, slots=True, eq=False)
class TableFit:
    """A model that reads tables by column name, and what was done to get it that a person may not expect."""

    model: RatioModel
    notes: tuple[str, ...] = ()


def fit_table(
    features: pd.DataFrame,
    labels: npt.NDArray[Any],
    *,
    model: str = "hist_gradient_boosting",
    positive: str | None = None,
    calibration: str = "affine",
    groups: IntArray | None = None,
    time: FloatArray | None = None,
    views: bool = True,
    random_state: int | None = 0,
    verbose: int = 0,
    on_step: Callable[[str], None] | None = None,
) -> TableFit:
    """Learn the columns, then fit and calibrate the named model.

    Parameters
    ----------
    features, labels
        What `obil.datasets.tables.split_labels` returns.
    positive
        The label, as text, that becomes the second class; of two labels the larger if None.
    groups, time
        As in `RatioClassifier.fit`; see `as_groups` and `obil.datasets.times.as_times`.
    verbose
        Show how many of the fits are done, and the time that is left.
    on_step
        Is told each long step, in a line, as it begins.

    >>> table = pd.DataFrame({"age": range(40), "ward": ["A", "B"] * 20})
    >>> ill = np.where((table["age"] * 7) % 40 > 20, "yes", "no")
    >>> fit_table(table, ill, model="logistic", positive="no").model.classes_.tolist()
    ['yes', 'no']
    """
    classes = ordered_classes(labels, positive)
    numbers = labels_to_numbers(labels, classes)
    encoder, notes = learn_columns(features)
    matrix = encoder.encode(features)
    classifier = table_classifier(
        model, encoder, calibration=calibration, views=views, random_state=random_state, verbose=verbose
    )
    if on_step is not None:
        on_step(f"Fitting {model} on {len(numbers):,} rows...")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            classifier.fit(matrix, numbers, groups=groups, time=time)
        except ObilError:
            raise
        except ValueError as error:  # what scikit-learn has against the rows
            raise InvalidInputError(f"{model} cannot be fitted on these rows: {_first_line(error)}") from None
    said = dict.fromkeys(_first_line(one.message) for one in caught if issubclass(one.category, UserWarning))
    fitted = replace(classifier.with_encoder(encoder), classes_=classes)
    return TableFit(fitted, (*notes, *said))


def table_classifier(
    model: str,
    encoder: ColumnEncoder,
    *,
    calibration: str = "affine",
    views: bool = True,
    random_state: int | None = 0,
    verbose: int = 0,
) -> OBILClassifier | RatioClassifier:
    """Return the unfitted classifier of this name, for the matrix of an encoder."""
    estimator = named_model(model, encoder, random_state=random_state)
    if isinstance(estimator, OBILClassifier):
        estimator.set_params(calibration=calibration, views=views, verbose=verbose)
        return estimator
    classifier = RatioClassifier(
        estimator, calibration=calibration, views=views, random_state=random_state, verbose=verbose
    )
    classifier._categories = tuple(encoder.categories)  # scikit-learn's own parameters are the user's
    return classifier


def fit_score_column(
    table: pd.DataFrame,
    labels: npt.NDArray[Any],
    score: str,
    *,
    positive: str | None = None,
    calibration: str = "affine",
    random_state: int | None = 0,
) -> TableFit:
    """Calibrate one column that another system's score of the positive class is in; no model is fitted.

    >>> table = pd.DataFrame({"risk": [0.1, 0.2, 0.6, 0.7, 0.4, 0.9]})
    >>> fitted = fit_score_column(table, np.array(["ok", "ok", "ok", "bad", "bad", "bad"]), "risk", positive="bad")
    >>> bool(fitted.model.log_ratios({"risk": [0.9]})[0, 1] > 0)
    True
    """
    classes = ordered_classes(labels, positive)
    if len(classes) != 2:
        raise InvalidInputError(f"one score column separates two classes, got the {len(classes)} {classes.tolist()}")
    encoder = ColumnEncoder((Column(score),))
    scores = encoder.encode(table)[:, 0]
    missing = np.flatnonzero(np.isnan(scores))
    if missing.size:
        raise InvalidInputError(
            f"every labelled row must have a score, got none in {missing.size} rows of {score!r}, the first of them "
            f"row {missing[0] + 1}"
        )
    numbers = labels_to_numbers(labels, classes)
    classifier = RatioClassifier.from_scores(scores, numbers, calibration=calibration, random_state=random_state)
    return TableFit(replace(classifier.with_encoder(encoder), classes_=classes))


def ordered_classes(labels: npt.NDArray[Any], positive: str | None = None) -> npt.NDArray[Any]:
    """Return the distinct labels in increasing order, with the positive one of two last, (K,).

    Of two texts the rarer one is positive unless `positive` names it: what is looked for is rare. Numbers, and texts
    that say true or false, keep their order.

    >>> ordered_classes(np.array(["ok", "fraud", "ok", "fraud", "ok"])).tolist()
    ['ok', 'fraud']
    """
    values = np.array(labels.tolist())
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InvalidInputError(f"labels must be strings or finite numbers, got {values[~np.isfinite(values)][0]}")
    classes, counts = np.unique(values, return_counts=True)
    if len(classes) < 2:
        raise InvalidInputError(f"two classes are needed, got only {classes.tolist()} in {len(values)} labelled rows")
    if len(classes) > MOST_CLASSES:
        raise InvalidInputError(
            f"a target holds at most {MOST_CLASSES} classes, got {len(classes)} different values such as "
            f"{classes[0].item()!r:.40}: name the column of classes"
        )
    if counts.min() < 2:
        raise InvalidInputError(
            f"every class needs at least 2 labelled rows, got 1 of {classes[counts.argmin()].item()!r:.40}"
        )
    if positive is None:
        spelled = {str(name).casefold() for name in classes.tolist()} == {"false", "true"}
        rarer_first = len(classes) == 2 and classes.dtype.kind in "US" and not spelled and counts[0] < counts[1]
        return classes[::-1] if rarer_first else classes
    if len(classes) > 2:
        raise InvalidInputError(
            f"a positive class is for two classes, got {len(classes)}: {classes.tolist()!r:.80}; leave it out here and "
            "give it when deciding"
        )
    place = class_named(positive, classes)
    return classes[[1 - place, place]]


def learn_columns(features: pd.DataFrame) -> tuple[ColumnEncoder, tuple[str, ...]]:
    """Return an encoder of the columns worth keeping, and a note on each column left out.

    >>> encoder, notes = learn_columns(pd.DataFrame({"id": ["a1", "b2", "c3"], "age": [5.0, 9.0, 6.0]}))
    >>> encoder.names, notes
    (('age',), ("column 'id' was left out: its strings are all different, as ids are",))
    """
    kept: list[Column] = []
    notes = []
    for name in map(str, features.columns):
        column = ColumnEncoder.fit(features, names=[name]).columns[0]
        why = _why_not(features[name], column)
        if why is None:
            kept.append(column)
        else:
            notes.append(f"column {name!r} was left out: {why}")
    if not kept:
        raise InvalidInputError(f"a column to learn from is needed, got none: {'; '.join(notes)}")
    return ColumnEncoder(tuple(kept)), tuple(notes)


def as_groups(values: "pd.Series[Any]") -> IntArray:
    """Return a number for each group, (n,); a row without a group is a group of its own.

    >>> as_groups(pd.Series(["p1", None, "p1"])).tolist()
    [0, 1, 0]
    """
    numbers = np.asarray(pd.factorize(values)[0], dtype=np.int64)
    alone = numbers < 0
    numbers[alone] = numbers.max() + 1 + np.arange(alone.sum())
    return numbers


def _why_not(values: "pd.Series[Any]", column: Column) -> str | None:
    present = values.dropna()
    if present.empty:
        return "it is empty"
    if present.dtype.kind in "fiub":
        # only a plain count of the rows is surely none of their properties
        counts_rows = len(values) == len(present) > 2 and bool((np.diff(present.to_numpy(np.float64)) == 1.0).all())
        return "it counts the rows" if counts_rows else None
    if not column.is_category:
        raise InvalidInputError(
            f"column {column.name!r} must hold plain numbers or categories, got {present.iloc[0]!r:.40}: "
            "take out the thousands marks, or drop the column"
        )
    if are_dates(present):
        return "it holds dates, and those to come are not these (--time uses them to order the rows)"
    distinct = present.nunique()
    if distinct == len(present) and distinct > 1:
        return "its strings are all different, as ids are"
    if distinct > MOST_LEVELS and 2 * distinct > len(present):
        return f"it holds {distinct} different strings in {len(present)} rows"
    return None


def _first_line(message: object) -> str:
    return (str(message).splitlines() or [type(message).__name__])[0]
