"""Backtest a table with a model that is given by its name."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy.typing as npt
import pandas as pd

from obil.arrays import FloatArray
from obil.bayes.costs import Costs
from obil.estimators.fit_progress import fit_progress
from obil.estimators.table_fit import learn_columns, ordered_classes, table_classifier
from obil.evaluation.backtest import BacktestPlan, first_line, fit_earlier, replay, split_by_time, times_of
from obil.evaluation.backtest_result import Backtest
from obil.serving.columns import Column, ColumnEncoder
from obil.serving.ratio_model import labels_to_numbers


def backtest_table(
    features: pd.DataFrame,
    labels: npt.NDArray[Any],
    *,
    time: FloatArray,
    model: str = "hist_gradient_boosting",
    positive: str | None = None,
    calibration: str = "affine",
    costs: Costs | None = None,
    train_size: float = 0.5,
    label_rate: float = 0.05,
    label_delay: int = 500,
    views: bool = True,
    random_state: int = 0,
    verbose: int = 0,
    on_step: Callable[[str], None] | None = None,
) -> tuple[Backtest, tuple[str, ...]]:
    """Run `obil.backtest` on a table with a model by its name, as in `fit_table`; return notes on the table, too.

    The columns are those that `fit_table` takes; categories that only the later rows hold are unknown to the model.
    `on_step` is told each long step, in a line, as it begins; with `verbose` fits and replays are counted.
    """
    plan = BacktestPlan(costs, train_size, label_rate, label_delay, random_state)
    classes = ordered_classes(labels, positive)
    numbers = labels_to_numbers(labels, classes)
    times = times_of(time, len(numbers))
    split = split_by_time(times, numbers, classes, plan.train_size)
    learned, notes = learn_columns(features)
    encoder = _as_of_then(learned, features.iloc[split.train])
    classifier = table_classifier(
        model, encoder, calibration=calibration, views=views, random_state=random_state, verbose=verbose
    )
    matrix = encoder.encode(features)
    tell = on_step or (lambda _: None)
    tell(f"Fitting {model} on the {len(split.train):,} earlier rows...")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = fit_earlier(classifier, matrix[split.train], numbers[split.train], times[split.train])
    warned = dict.fromkeys(first_line(one.message) for one in caught if issubclass(one.category, UserWarning))
    named = replace(fitted, classes_=classes)
    tell(f"Replaying the {len(split.test):,} later rows...")
    with fit_progress(f"Replaying {len(split.test):,} rows", verbose=verbose) as show:
        found = replay(named, matrix[split.test], numbers[split.test], split, plan, show=show)
    return found, (*notes, *warned)


def _as_of_then(encoder: ColumnEncoder, earlier: pd.DataFrame) -> ColumnEncoder:
    """Return the encoder without the categories that had not been seen yet."""
    columns = []
    for column in encoder.columns:
        seen = set(earlier[column.name].dropna().astype(str)) if column.is_category else set()
        levels = None if column.levels is None else tuple(level for level in column.levels if level in seen)
        columns.append(Column(column.name, levels))
    return ColumnEncoder(tuple(columns))
