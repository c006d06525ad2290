"""Replay the labelled past in the order of time, and say what adapting would have done and how to start it."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import issparse
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.utils import _safe_indexing, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, indexable

from obil.arrays import FloatArray, IntArray, as_scaled, require_in
from obil.bayes.costs import Costs
from obil.datasets.splits import Split, time_split
from obil.datasets.times import as_times
from obil.errors import InvalidInputError, ObilError
from obil.estimators.obil_classifier import OBILClassifier
from obil.estimators.ratio_classifier import RatioClassifier
from obil.estimators.table_fit import learn_columns, ordered_classes, table_classifier
from obil.evaluation.backtest_advice import (
    BANK,
    FAST,
    LABELLED,
    ORACLE,
    SAFE,
    STATIC,
    Recommendation,
    Replayed,
    Scored,
    choose_lead,
    replayed,
    start_weights,
    why,
)
from obil.evaluation.local_prior import best_window, local_prior_error, local_priors
from obil.online.decision_rule import DecisionRule, class_number
from obil.policies import CostPolicy
from obil.serving.columns import Column, ColumnEncoder
from obil.serving.ratio_model import RatioModel, as_dataframe, as_ratio_model, labels_to_numbers
from obil.trackers import BayesBank, FixedPrior, SafeTracker
from obil.trackers.tracker import as_count
from obil.trackers.view_reference import ViewReference

LEAST_ROWS, LEAST_OF_CLASS = 200, 5  # in each part
N_DRAWS = 4  # of the labels that come, which the experts are weighed by
LABEL_DRAWS = 8  # that the way with labels is replayed with: which come is chance, too


@dataclass(frozen=True, slots=True, eq=False)
class Backtest:
    """What each way to know the prior would have done on the later rows of the labelled past.

    `found["bank"]` is one of them by name; `[one.way for one in found.ways]` are all.

    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> random = np.random.default_rng(0)
    >>> y = (np.arange(2_000) % 5 == 0).astype(int)
    >>> X = random.normal(2.0 * y)[:, None]
    >>> found = backtest(RatioClassifier(LogisticRegression()), X, y, time=np.arange(2_000))
    >>> found.n_earlier + found.n_later
    2000
    """

    classes: tuple[object, ...]
    n_earlier: int  # rows that were fitted on
    n_later: int  # rows that were replayed
    n_labels: int  # labels that came in time for the way that uses them
    label_rate: float
    label_delay: int
    ways: tuple[Replayed, ...]
    recommendation: Recommendation
    truth: FloatArray  # (n, K) local shares of the classes among the later rows
    window: int  # rows around each that the local share is counted in: as many as tell the labels best
    truth_error: float  # by how much the local share misses by chance: no prior error below it says anything
    priors: Mapping[str, FloatArray]  # what each way held the prior to be before each of them, (n, K)

    def __getitem__(self, way: str) -> Replayed:
        for one in self.ways:
            if one.way == way:
                return one
        raise KeyError(f"a way must be one of {[one.way for one in self.ways]}, got {way!r:.40}")

    @property
    def rows_around(self) -> str:
        """In words, the rows that the local share of a row is counted in."""
        return "all of these rows" if self.window >= self.n_later else f"the {self.window:,} rows around each"

    def to_json(self) -> dict[str, Any]:
        """Return all but the paths of the priors as JSON values."""
        advised = self.recommendation
        return {
            "classes": list(self.classes),
            "rows": {"earlier": self.n_earlier, "later": self.n_later},
            "labels": {
                "rate": self.label_rate,
                "delay": self.label_delay,
                "came": self.n_labels,
                "draws": LABEL_DRAWS,
            },
            "local_share": {"rows": self.window, "error": self.truth_error},
            "ways": [
                {
                    "way": one.way,
                    "cost": one.cost,
                    "log_loss": one.log_loss,
                    "prior_error": one.prior_error,
                    "cost_ratio": one.cost_ratio,
                    "log_loss_ratio": one.log_loss_ratio,
                    "log_loss_excess": one.excess.mean,
                    "log_loss_excess_error": one.excess.standard_error,
                }
                for one in self.ways
            ],
            "recommendation": {
                "lead": advised.lead,
                "start_weights": list(advised.start_weights),
                "sentence": advised.sentence,
            },
        }


@dataclass(frozen=True, slots=True)
class _Plan:
    """What of a backtest does not depend on the rows, checked before the long work."""

    costs: Costs | None
    train_size: float
    label_rate: float
    label_delay: int
    random_state: int

    def __post_init__(self) -> None:
        if self.costs is not None and not isinstance(self.costs, Costs):
            raise InvalidInputError(f"costs must be an obil.Costs, got {self.costs!r:.40}")
        require_in("train_size", self.train_size, 0.05, 0.95)
        require_in("label_rate", self.label_rate, 1e-6, 1.0)
        as_count("label_delay", self.label_delay, smallest=0)
        if not isinstance(self.random_state, Integral) or not 0 <= self.random_state < 2**32:
            raise InvalidInputError(
                f"random_state must be a whole number in 0 ... 2^32 - 1, got {self.random_state!r:.40}"
            )


def backtest(
    estimator: RatioClassifier | OBILClassifier,
    X: Any,
    y: npt.ArrayLike,
    *,
    time: npt.ArrayLike,
    costs: Costs | None = None,
    train_size: float = 0.5,
    label_rate: float = 0.05,
    label_delay: int = 500,
    views: bool = True,
    random_state: int = 0,
) -> Backtest:
    """Fit on the earlier rows, stream the later ones, and say what adapting would have done.

    Parameters
    ----------
    estimator
        An unfitted classifier; it is cloned and fitted with `time`.
    time
        When each row was, (n,): numbers, dates, or text as 2024-12-31, 31.12.2024, 31/12/2024 or 12/31/2024. Equal
        times keep the order they have, and are never on both sides of the cut.
    costs
        What wrong decisions cost; equal costs if None.
    train_size
        Share of the rows to fit on, to the nearest change of time.
    label_rate, label_delay
        For the way that uses labels: how many of them come, and after how many further rows.
    views
        Fit the members that the safe tracker listens to, whether or not the estimator asks for them.
    random_state
        Seed of which labels come. Eight draws of them are replayed.

    >>> from sklearn.linear_model import LogisticRegression
    >>> rows = np.arange(2_000)
    >>> ill = rows % np.where(rows < 1_000, 10, 2) == 0  # one in ten, then one in two
    >>> X = np.random.default_rng(0).normal(2.0 * ill)[:, None]
    >>> found = backtest(RatioClassifier(LogisticRegression()), X, ill, time=rows)
    >>> found["safe"].log_loss < found["static"].log_loss
    True
    """
    if not isinstance(estimator, RatioClassifier | OBILClassifier):
        raise InvalidInputError(f"a RatioClassifier or an OBILClassifier is needed, got {type(estimator).__name__}")
    plan = _Plan(costs, train_size, label_rate, label_delay, random_state)
    try:
        rows, labels = indexable(as_dataframe(X))[0], _check_y(y)
        check_classification_targets(labels)
        check_consistent_length(rows, labels)
    except ValueError as error:
        raise InvalidInputError(f"rows and labels do not fit: {_first_line(error)}") from None
    classes, numbers = np.unique(labels, return_inverse=True)
    times = _as_times(time, len(labels))
    split = _parts(times, numbers.astype(np.int64), classes, plan.train_size)
    classifier = clone(estimator)
    if views and not issparse(rows):  # views are fitted on columns
        classifier.set_params(views=True)
    model = _fitted(classifier, _safe_indexing(rows, split.train), labels[split.train], times[split.train])
    return _replay(model, _safe_indexing(rows, split.test), numbers[split.test].astype(np.int64), split, plan)


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
    verbose: bool = False,
) -> tuple[Backtest, tuple[str, ...]]:
    """Do the same with a table and a word that names a model, as in `fit_table`; return notes on the table, too.

    The columns are those that `fit_table` takes; words that only the later rows hold are unknown to the model.
    """
    plan = _Plan(costs, train_size, label_rate, label_delay, random_state)
    classes = ordered_classes(labels, positive)
    numbers = labels_to_numbers(labels, classes)
    times = _as_times(time, len(numbers))
    split = _parts(times, numbers, classes, plan.train_size)
    learned, notes = learn_columns(features)
    encoder = _as_known_then(learned, features.iloc[split.train])
    classifier = table_classifier(
        model, encoder, calibration=calibration, views=views, random_state=random_state, verbose=verbose
    )
    matrix = encoder.encode(features)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = _fitted(classifier, matrix[split.train], numbers[split.train], times[split.train])
    said = dict.fromkeys(_first_line(one.message) for one in caught if issubclass(one.category, UserWarning))
    named = replace(fitted, classes_=classes)
    return _replay(named, matrix[split.test], numbers[split.test], split, plan), (*notes, *said)


def _as_times(time: Any, n_rows: int) -> FloatArray:
    try:
        times = as_times(pd.Series(time if isinstance(time, pd.Series) else np.asarray(time)).reset_index(drop=True))
    except ObilError:
        raise
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"time must be one number or date a row: {_first_line(error)}") from None
    if len(times) != n_rows:
        raise InvalidInputError(f"time must have one value a row ({n_rows}), got {len(times)}")
    if not np.isfinite(times).all():
        raise InvalidInputError(f"times must be finite, got {times[~np.isfinite(times)][0]}")
    return times


def _parts(times: FloatArray, numbers: IntArray, classes: npt.NDArray[Any], train_size: float) -> Split:
    """Return the earlier and the later rows, each in the order of time, with enough of each class in both."""
    if len(times) < 2 * LEAST_ROWS:
        raise InvalidInputError(f"a backtest needs at least {2 * LEAST_ROWS} labelled rows, got {len(times)}")
    split = time_split(times, test_size=1.0 - train_size)
    for name, part in (("earlier", split.train), ("later", split.test)):
        if len(part) < LEAST_ROWS:
            raise InvalidInputError(
                f"a backtest needs at least {LEAST_ROWS} rows on either side of the cut, got {len(part)} {name} ones "
                f"of {len(times)}: choose another train share, or finer times"
            )
        counts = np.bincount(numbers[part], minlength=len(classes))
        rarest = int(counts.argmin())
        if counts[rarest] < LEAST_OF_CLASS:
            raise InvalidInputError(
                f"the {name} rows need at least {LEAST_OF_CLASS} of every class, got {counts[rarest]} of "
                f"{classes.tolist()[rarest]!r:.40}"
            )
    return split


def _as_known_then(encoder: ColumnEncoder, earlier: pd.DataFrame) -> ColumnEncoder:
    """Return the encoder without the words that had not been seen yet."""
    columns = []
    for column in encoder.columns:
        seen = set(earlier[column.name].dropna().astype(str)) if column.is_category else set()
        words = None if column.levels is None else tuple(word for word in column.levels if word in seen)
        columns.append(Column(column.name, words))
    return ColumnEncoder(tuple(columns))


def _fitted(classifier: Any, X: Any, labels: npt.NDArray[Any], times: FloatArray) -> RatioModel:
    try:
        return as_ratio_model(classifier.fit(X, labels, time=times))
    except ObilError:
        raise
    except ValueError as error:  # what scikit-learn has against the rows
        raise InvalidInputError(f"nothing can be fitted on the earlier rows: {_first_line(error)}") from None


def _replay(model: RatioModel, X: Any, labels: IntArray, split: Split, plan: _Plan) -> Backtest:
    costs = None if plan.costs is None else CostPolicy(plan.costs)
    rule = DecisionRule(model, costs, class_number(None, model))
    matrix = rule.costs.matrix if rule.costs is not None else 1.0 - np.eye(model.n_classes)
    n_rows, (log_ratios, views) = len(labels), model.score(X)
    start, view_reference = model.prior_, ViewReference.of_model(model)
    window = best_window(labels, n_classes=model.n_classes)
    truth = local_priors(labels, n_classes=model.n_classes, window=window)

    trackers = {
        STATIC: FixedPrior(start),
        BANK: BayesBank(start),
        SAFE: SafeTracker(start, view_reference=view_reference),
        FAST: SafeTracker(start, view_reference=view_reference, lead="fast"),
    }
    priors = {way: tracker.update_many(log_ratios, views=views) for way, tracker in trackers.items()}
    rng = np.random.default_rng(plan.random_state)
    asked = [np.flatnonzero(rng.random(n_rows) < plan.label_rate) for _ in range(LABEL_DRAWS)]
    replay = partial(_with_labels, log_ratios, views, labels, rate=plan.label_rate)
    labelled = [
        replay(SafeTracker(start, view_reference=view_reference), rows, delay=plan.label_delay) for rows in asked
    ]
    priors[LABELLED], came = labelled[0]
    # a late label counts little, and the weights would hardly move: what they are worth is told by labels at once
    earned = [replay(SafeTracker(start, view_reference=view_reference), rows, delay=0)[1] for rows in asked[:N_DRAWS]]
    priors[ORACLE] = truth

    def score(at: FloatArray) -> Scored:
        return Scored(
            _log_losses(log_ratios, at, labels),
            float(matrix[rule.decide(log_ratios, at).numbers, labels].mean()),
            float(np.abs(at - truth).sum(axis=1).mean() / 2.0),
        )

    scored = {way: [score(at)] for way, at in priors.items()}
    scored[LABELLED] += [score(at) for at, _ in labelled[1:]]
    static = scored[STATIC][0]
    ways = tuple(replayed(way, drawn, static) for way, drawn in scored.items())
    losses = {way: drawn[0].losses for way, drawn in scored.items()}
    lead = choose_lead(losses[STATIC], losses[SAFE], losses[FAST])
    n_labels = len(came) - 1
    weights = start_weights(np.array([one[-1] for one in earned]))
    sentence = why(
        lead,
        {one.way: one for one in ways},
        label_rate=float(plan.label_rate),
        label_delay=int(plan.label_delay),
        n_labels=n_labels,
    )
    return Backtest(
        classes=tuple(model.classes_.tolist()),
        n_earlier=len(split.train),
        n_later=n_rows,
        n_labels=n_labels,
        label_rate=float(plan.label_rate),
        label_delay=int(plan.label_delay),
        ways=ways,
        recommendation=Recommendation(lead, weights, sentence),
        truth=truth,
        window=window,
        truth_error=local_prior_error(truth, window=window),
        priors=priors,
    )


def _with_labels(
    log_ratios: FloatArray,
    views: FloatArray,
    labels: IntArray,
    tracker: SafeTracker,
    asked: IntArray,
    *,
    delay: int,
    rate: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the prior before each row, (n, K), and the experts' weights at first and after each label, (m + 1, M)."""
    priors = np.empty_like(log_ratios)
    weights = [list(tracker.expert_weights.values())]
    done = 0
    for row in asked.tolist():
        end = row + delay + 1  # so many rows were decided when its label comes
        if end > len(labels):
            break
        priors[done:end] = tracker.update_many(log_ratios[done:end], views=views[done:end])
        done = end
        tracker.feedback(log_ratios[row], int(labels[row]), propensity=rate, row=row)
        weights.append(list(tracker.expert_weights.values()))
    priors[done:] = tracker.update_many(log_ratios[done:], views=views[done:])
    return priors, np.array(weights)


def _log_losses(log_ratios: FloatArray, priors: FloatArray, labels: IntArray) -> FloatArray:
    logs = log_softmax(as_scaled(log_ratios) + np.log(priors), axis=1)
    own: FloatArray = -logs[np.arange(len(labels)), labels]
    return own


def _first_line(message: object) -> str:
    return (str(message).splitlines() or [type(message).__name__])[0]
