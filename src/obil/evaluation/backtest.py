"""Replay labelled rows in the order of time: what adapting would have done, and how a tracker should start."""

from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import clone
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from obil.arrays import FloatArray, IntArray, as_integer, require_in
from obil.bayes.costs import Costs
from obil.bayes.local_prior import best_window, local_prior_error, local_priors
from obil.datasets.splits import Split, time_split
from obil.datasets.times import as_times
from obil.errors import InvalidInputError, ObilError
from obil.estimators.fit_progress import Show, counted
from obil.estimators.obil_classifier import OBILClassifier
from obil.estimators.ratio_classifier import RatioClassifier
from obil.evaluation.backtest_advice import (
    BANK,
    FAST,
    LABELLED,
    ORACLE,
    SAFE,
    STATIC,
    Recommendation,
    Scored,
    choose_lead,
    replayed,
    weights_from_replays,
    why,
)
from obil.evaluation.backtest_result import LABEL_DRAWS, Backtest
from obil.evaluation.stream_changes import changes_since, log_losses
from obil.online.decision_rule import DecisionRule, class_number
from obil.policies import CostPolicy
from obil.serving.ratio_model import RatioModel, as_dataframe, as_ratio_model
from obil.trackers import BayesBank, FixedPrior, SafeTracker
from obil.trackers.view_reference import ViewReference

LEAST_ROWS, LEAST_OF_CLASS = 200, 5  # in each part
N_DRAWS = 4  # of the labels that come, for the start weights of the experts
PREVALENCE_STEP = 20  # rows after which the estimated prevalence is read again, where labels come


class LabelledPath(NamedTuple):
    """What a tracker did with labels."""

    effective_priors: FloatArray  # (n, K) that each row is decided with
    prevalence: FloatArray  # (n, K) estimated before each row, read every 20 rows and after each label
    expert_weights: FloatArray  # (m + 1, M) at first and after each label


@dataclass(frozen=True, slots=True)
class BacktestPlan:
    """The settings of a backtest, checked before the long work."""

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
        as_integer("label_delay", self.label_delay, 0)
        if not isinstance(self.random_state, Integral) or not 0 <= self.random_state < 2**32:
            raise InvalidInputError(f"random_state must be an integer in 0 ... 2^32 - 1, got {self.random_state!r:.40}")


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
    random_state: int = 0,
) -> Backtest:
    """Fit on the earlier rows, stream the later ones, and compare adapting with not adapting.

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
        Fraction of the rows to fit on, to the nearest change of time.
    label_rate, label_delay
        For the method that uses labels: the fraction of rows that are labelled, and after how many further rows.
    random_state
        Seed of which labels come. Eight draws of them are replayed.

    >>> from sklearn.linear_model import LogisticRegression
    >>> rows = np.arange(2_000)
    >>> ill = rows % np.where(rows < 1_000, 10, 2) == 0  # one in ten, then one in two
    >>> X = np.random.default_rng(0).normal(2.0 * ill, size=(4, 2_000)).T
    >>> found = backtest(RatioClassifier(LogisticRegression()), X, ill, time=rows)
    >>> found["safe"].log_loss < found["static"].log_loss
    True
    """
    if not isinstance(estimator, RatioClassifier | OBILClassifier):
        raise InvalidInputError(
            f"estimator must be a RatioClassifier or an OBILClassifier, got {type(estimator).__name__}"
        )
    plan = BacktestPlan(costs, train_size, label_rate, label_delay, random_state)
    try:
        table = as_dataframe(X)
        rows = table.tocsr() if hasattr(X, "tocsr") else table if hasattr(table, "iloc") else np.asarray(table)
        labels = column_or_1d(y)
        assert_all_finite(labels)
        check_classification_targets(labels)
        check_consistent_length(rows, labels)
    except ValueError as error:
        raise InvalidInputError(f"rows and labels do not fit: {first_line(error)}") from None
    classes, numbers = np.unique(labels, return_inverse=True)
    times = times_of(time, len(labels))
    split = split_by_time(times, numbers.astype(np.int64), classes, plan.train_size)
    classifier = clone(estimator)
    model = fit_earlier(classifier, _rows_at(rows, split.train), labels[split.train], times[split.train])
    return replay(model, _rows_at(rows, split.test), numbers[split.test].astype(np.int64), split, plan)


def _rows_at(rows: Any, numbers: IntArray) -> Any:
    return rows.iloc[numbers] if hasattr(rows, "iloc") else rows[numbers]


def times_of(time: Any, n_rows: int) -> FloatArray:
    """Return when each of n rows was, as finite numbers, (n,)."""
    try:
        times = as_times(pd.Series(time if isinstance(time, pd.Series) else np.asarray(time)).reset_index(drop=True))
    except ObilError:
        raise
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"time must be one number or date per row: {first_line(error)}") from None
    if len(times) != n_rows:
        raise InvalidInputError(f"time must have one value per row ({n_rows}), got {len(times)}")
    if not np.isfinite(times).all():
        raise InvalidInputError(f"times must be finite, got {times[~np.isfinite(times)][0]}")
    return times


def split_by_time(times: FloatArray, numbers: IntArray, classes: npt.NDArray[Any], train_size: float) -> Split:
    """Return the earlier and the later rows, each in the order of time, with enough of each class in both."""
    if len(times) < 2 * LEAST_ROWS:
        raise InvalidInputError(f"a backtest needs at least {2 * LEAST_ROWS} labelled rows, got {len(times)}")
    split = time_split(times, test_size=1.0 - train_size)
    for name, part in (("earlier", split.train), ("later", split.test)):
        if len(part) < LEAST_ROWS:
            raise InvalidInputError(
                f"a backtest needs at least {LEAST_ROWS} rows on either side of the cut, got {len(part)} {name} ones "
                f"of {len(times)}: choose another train_size, or finer times"
            )
        counts = np.bincount(numbers[part], minlength=len(classes))
        rarest = int(counts.argmin())
        if counts[rarest] < LEAST_OF_CLASS:
            raise InvalidInputError(
                f"the {name} rows need at least {LEAST_OF_CLASS} of every class, got {counts[rarest]} of "
                f"{classes.tolist()[rarest]!r:.40}"
            )
    return split


def fit_earlier(classifier: Any, X: Any, labels: npt.NDArray[Any], times: FloatArray) -> RatioModel:
    """Fit a classifier on the earlier rows."""
    try:
        return as_ratio_model(classifier.fit(X, labels, time=times))
    except ObilError:
        raise
    except ValueError as error:  # scikit-learn refuses the rows
        raise InvalidInputError(f"the model cannot be fitted on the earlier rows: {first_line(error)}") from None


def replay(
    model: RatioModel, X: Any, labels: IntArray, split: Split, plan: BacktestPlan, *, show: Show | None = None
) -> Backtest:
    """Stream the later rows to every method, and compare them; `show` is told how many replays are done."""
    costs = None if plan.costs is None else CostPolicy(plan.costs)
    rule = DecisionRule(model, costs, class_number(None, model))
    matrix = rule.costs.matrix if rule.costs is not None else 1.0 - np.eye(model.n_classes)
    n_rows, scores = len(labels), model.score(X)
    log_ratios, evidence = scores.log_ratios, scores.evidence_from(0)
    start = model.prior_
    window = best_window(labels, n_classes=model.n_classes)
    truth = local_priors(labels, n_classes=model.n_classes, window=window)

    new_tracker = partial(SafeTracker, start, view_reference=ViewReference.of_model(model), n_inputs=model.n_inputs)
    trackers = {
        STATIC: FixedPrior(start),
        BANK: BayesBank(start),
        SAFE: new_tracker(),
        FAST: new_tracker(lead="fast"),
    }
    step = counted(show, len(trackers) + LABEL_DRAWS + N_DRAWS)
    priors = {}
    for method, tracker in trackers.items():
        priors[method] = tracker.update_many(log_ratios, evidence=evidence)
        step()
    rng = np.random.default_rng(plan.random_state)
    asked = [np.flatnonzero(rng.random(n_rows) < plan.label_rate) for _ in range(LABEL_DRAWS)]
    labelled_path = partial(_with_labels, log_ratios, evidence, labels, rate=plan.label_rate)

    def labelled_after(rows: IntArray, delay: int) -> LabelledPath:
        path = labelled_path(new_tracker(), rows, delay=delay)
        step()
        return path

    labelled = [labelled_after(rows, plan.label_delay) for rows in asked]
    priors[LABELLED], came = labelled[0].prevalence, labelled[0].expert_weights
    # start weights are for the experts' worth, which labels without delay show best
    earned = [labelled_after(rows, 0).expert_weights for rows in asked[:N_DRAWS]]
    priors[ORACLE] = truth

    def score(decided_with: FloatArray, prevalence: FloatArray) -> Scored:
        return Scored(
            log_losses(log_ratios, decided_with, labels),
            float(matrix[rule.decide(log_ratios, decided_with).numbers, labels].mean()),
            float(np.abs(prevalence - truth).sum(axis=1).mean() / 2.0),
        )

    scored = {method: [score(at, at)] for method, at in priors.items()}
    scored[LABELLED] = [score(one.effective_priors, one.prevalence) for one in labelled]
    static = scored[STATIC][0]
    methods = tuple(replayed(method, drawn, static) for method, drawn in scored.items())
    losses = {method: drawn[0].losses for method, drawn in scored.items()}
    lead = choose_lead(losses[STATIC], losses[SAFE], losses[FAST])
    n_labels = len(came) - 1
    weights = weights_from_replays(np.array([one[-1] for one in earned]), earned[0][0])
    sentence = why(
        lead,
        {one.method: one for one in methods},
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
        methods=methods,
        recommendation=Recommendation(lead, weights, sentence),
        changes=changes_since(model.holdout_, log_ratios, labels, prior=start, local=truth),
        truth=truth,
        window=window,
        truth_error=local_prior_error(truth, window=window),
        priors=priors,
    )


def _with_labels(
    log_ratios: FloatArray,
    evidence: FloatArray,
    labels: IntArray,
    tracker: SafeTracker,
    asked: IntArray,
    *,
    delay: int,
    rate: float,
) -> LabelledPath:
    """Stream the rows to a tracker, with the labels that were asked for, each so many rows late."""
    effective, prevalence = np.empty_like(log_ratios), np.empty_like(log_ratios)
    weights = [list(tracker.expert_weights.values())]
    done = 0

    def decide_until(end: int) -> None:
        for first in range(done, end, PREVALENCE_STEP):
            rows = slice(first, min(first + PREVALENCE_STEP, end))
            prevalence[rows] = tracker.prior
            effective[rows] = tracker.update_many(log_ratios[rows], evidence=evidence[rows])

    for row in asked.tolist():
        end = row + delay + 1  # so many rows were decided when its label comes
        if end > len(labels):
            break
        decide_until(end)
        done = end
        inputs = tracker.inputs_of(evidence[row : row + 1])[0]
        tracker.feedback(log_ratios[row], int(labels[row]), propensity=rate, row=row, inputs=inputs)
        weights.append(list(tracker.expert_weights.values()))
    decide_until(len(labels))
    return LabelledPath(effective, prevalence, np.array(weights))


def first_line(message: object) -> str:
    """Return the first line of a warning or an error."""
    return (str(message).splitlines() or [type(message).__name__])[0]
