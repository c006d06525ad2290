"""Score, decide, then let the row vote: a classifier whose threshold follows the prior."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, PriorLike, as_log_ratios
from obil.bayes.costs import Costs
from obil.bayes.posterior import posteriors_at
from obil.errors import InvalidInputError, InvalidStateError
from obil.model.holdout import Holdout
from obil.model.ratio_model import RatioModel, as_ratio_model, labels_to_numbers
from obil.monitor import LabelShiftMonitor
from obil.policy import CostPolicy, Policy, policy_from_json
from obil.prior import FixedPrior, LearnsFromLabels, PriorTracker, SafeTracker, restore_tracker
from obil.prior.calibration_spread import calibration_variance, thinned_rows, widen
from obil.prior.tracker import CompiledTracker
from obil.stream.decision import Decision, Decisions
from obil.stream.decision_ids import as_id, as_ids
from obil.stream.decision_rule import DecisionRule, class_number
from obil.stream.explain import ChangeReport, explain
from obil.stream.history import StreamHistory, watch_in_parts
from obil.stream.label_ledger import LabelCounts, LabelLedger
from obil.stream.one_row import one_row
from obil.stream.one_writer import OneWriter
from obil.stream.outcome_tally import OutcomeTally
from obil.stream.performance import Performance, performance_now, performance_over_window
from obil.stream.stream_facts import facts_of
from obil.stream.stream_record import StreamRecord

STATE_FORMAT = 2
HORIZON = 10_000  # rows that a label may come late
MONITOR_TOLERANCE = 0.02  # held-out scores come from models of the folds, which differ from the final one a little
MONITOR_ROWS = 50_000  # held-out rows of a class: more make a monitor slow to start, and hardly sharper


class PerformanceReport(NamedTuple):
    """What is to be expected of the next rows, and how good the last ones were."""

    now: Performance
    window: Performance


class OnlineClassifier:
    """Decides each row at the prior of now, and lets the row vote on the prior of the next.

    Predicting is pure, deciding votes: `predict` and `predict_proba` never change the state, `decide` and
    `decide_many` do. True labels may come at any time after: `feedback`. A stream has one writer: a second
    concurrent `decide` raises.

    Parameters
    ----------
    model
        A fitted `RatioClassifier`, or what `obil.load` returns.
    costs
        What wrong decisions cost; equal costs if neither this nor a policy is given.
    policy
        Another rule for the threshold: `FBetaPolicy`, `PrecisionFloor`, ... in `obil.policy`.
    tracker
        How the prior is followed; a `SafeTracker` if None. It is started at `prior`.
    prior
        Where the stream starts; the training prior if None. Give it when training was case-control.
    positive
        The class to alert on, `classes_[1]` of two if None; many classes need it only with a policy.
    monitor
        Whether to watch if label shift holds: True, False, or a `LabelShiftMonitor` with settings of its
        own, on `monitored_rows(model)`.
    horizon
        How many rows a decision is remembered for its label; 0 for none.
    silence
        What it means when no label has come within the horizon: None (nothing), "negative", or a class.
    """

    _vote: Callable[[FloatArray, FloatArray | None], FloatArray]

    def __init__(
        self,
        model: Any,
        *,
        costs: Costs | None = None,
        policy: Policy | None = None,
        tracker: PriorTracker | None = None,
        prior: PriorLike | Mapping[Any, float] | None = None,
        positive: Any = None,
        monitor: bool | LabelShiftMonitor = True,
        horizon: int = HORIZON,
        silence: Any = None,
    ) -> None:
        self._model = as_ratio_model(model)
        self._positive = class_number(positive, self._model)
        if costs is not None and policy is not None:
            raise InvalidInputError("give costs or a policy, not both: a cost policy is CostPolicy(costs)")
        self._rule = DecisionRule(self._model, CostPolicy(costs) if costs is not None else policy, self._positive)
        self._ledger = LabelLedger(self._model.n_classes, horizon=horizon, silence=self._meaning_of(silence))
        start = self._model.prior_ if prior is None else self._model.as_prior(prior)
        self._follow((SafeTracker.for_model(self._model) if tracker is None else tracker).start(start))
        self._monitor = (watch_over(self._model) if monitor else None) if isinstance(monitor, bool) else monitor
        if self._monitor is not None and getattr(self._monitor, "n_classes", None) != self._model.n_classes:
            raise InvalidInputError(f"monitor must be True, False or one of {self._model.n_classes} classes")
        self._since_alarm = [0] * self._model.n_classes  # labels of rows that the monitor no longer trusted, by class
        self._model_since = 0  # the row from which the model scores
        history = StreamHistory(self._model.n_classes)
        self._record = StreamRecord(OutcomeTally(), history, positive=self._positive)
        self._rows = 0
        self._writer = OneWriter()

    @property
    def model(self) -> RatioModel:
        """The ratio model that scores; a new one takes over from the next row on, and the prior survives.

        The evidence against label shift, and what labels said of the scores, speak of the old model's: they start anew.
        """
        return self._model

    @model.setter
    def model(self, model: Any) -> None:
        fitted = as_ratio_model(model)
        if fitted.classes_.tolist() != self._model.classes_.tolist():
            raise InvalidInputError(
                f"the new model must know the same classes {self._model.classes_.tolist()}, "
                f"got {fitted.classes_.tolist()}"
            )
        rule = DecisionRule(fitted, self._rule.policy, self._positive)  # its threshold may rest on held-out rows
        with self._writer:
            tracker = self._tracker
            tracker = tracker.with_witnesses(fitted) if isinstance(tracker, SafeTracker) else tracker
            watch = None if self._monitor is None else self._monitor.renewed(monitored_rows(fitted))
            _require_views(tracker, fitted)
            self._model, self._rule, self._monitor, self._model_since = fitted, rule, watch, self._rows
            self._since_alarm = [0] * fitted.n_classes
            self._follow(tracker)

    @property
    def tracker(self) -> PriorTracker:
        """The tracker that follows the prior."""
        return self._tracker

    @property
    def monitor(self) -> LabelShiftMonitor | None:
        """What watches whether any prior explains the stream, if anything does."""
        return self._monitor

    @property
    def trusted(self) -> bool:
        """Whether the monitor still believes that only the prior changes."""
        return self._monitor is None or self._monitor.trusted

    @property
    def labels_since_alarm(self) -> tuple[int, ...]:
        """How many labels of each class belong to rows that the monitor no longer trusted, (K,)."""
        return tuple(self._since_alarm)

    def restart_monitor(self) -> None:
        """Forget the evidence against label shift and watch afresh, from the next row on."""
        with self._writer:
            if self._monitor is None:
                raise InvalidInputError("no monitor watches this stream")
            self._monitor.restart()
            self._since_alarm = [0] * self._model.n_classes

    @property
    def _alarm_row(self) -> int | None:
        """The row of the stream, counted from 0, after which the monitor alarmed; None without an alarm."""
        if self._monitor is None or self._monitor.alarm_row is None:
            return None
        return self._rows - self._monitor.n_rows + self._monitor.alarm_row

    @property
    def prior(self) -> FloatArray:
        """The prior of now, (K,). After labels came, a row's own may differ a little: see `Decision.prior`."""
        return self._tracker.prior

    @property
    def n_rows(self) -> int:
        """How many rows were decided."""
        return self._rows

    @property
    def label_counts(self) -> LabelCounts:
        """What became of the decisions and of the labels so far."""
        return self._ledger.counts

    @property
    def history(self) -> StreamHistory:
        """The whole stream so far, in 128 buckets at most; ask again after more rows."""
        with self._writer.waiting():
            return self._record.history

    @property
    def positive(self) -> Any:
        """The class that is alerted on; None where a cost matrix of many classes decides."""
        return None if self._positive is None else self._model.classes_[self._positive]

    @property
    def policy(self) -> Policy:
        """The rule for the threshold; a new one takes effect from the next row on."""
        return self._rule.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._rule = DecisionRule(self._model, policy, self._positive)

    @property
    def costs(self) -> Costs | None:
        """What decisions cost, where costs set the threshold; new ones take effect from the next row on."""
        return self._rule.costs

    @costs.setter
    def costs(self, costs: Costs) -> None:
        self.policy = CostPolicy(costs)

    @property
    def log_threshold(self) -> float | None:
        """The threshold of now, on the log ratio of the positive class."""
        return self._rule.log_threshold(self.prior)

    def interval(self, level: float = 0.9) -> FloatArray | None:
        """Return the prior's interval for each class, (K, 2), with the calibrator's own uncertainty in it."""
        return _widened(self._model, self.prior, self._tracker.interval(level), level)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return posteriors at the current prior, (n, K), changing nothing."""
        ratios = self._model.log_ratios(X)
        return posteriors_at(ratios, self._tracker.priors_for(ratios))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return what would be decided at the current prior, (n,), changing nothing."""
        ratios = self._model.log_ratios(X)
        numbers, _, _ = self._rule.decide(ratios, self._tracker.priors_for(ratios))
        chosen: npt.NDArray[Any] = self._model.classes_[numbers]
        return chosen

    def decide(self, x: Any, *, id: Any = None) -> Decision:  # noqa: A002  # the word users know
        """Decide one row, then let it vote."""
        with self._writer:
            table = one_row(x, self._model)
            ratios = self._model.log_ratios(table)[0]
            return self._decide_row(ratios, self._model.views(table)[0] if self._n_views else None, id)

    def decide_many(self, X: Any, *, ids: Sequence[Any] | None = None) -> Decisions:
        """Decide rows in order, each at the prior before it, and let them vote."""
        with self._writer:
            views = self._model.views(X) if self._n_views else None
            return self._decide_rows(self._model.log_ratios(X), views, ids)

    def decide_log_ratios(
        self, log_ratios: npt.ArrayLike, *, views: npt.ArrayLike | None = None, ids: Sequence[Any] | None = None
    ) -> Decisions:
        """Decide rows whose log ratios, (n, K), are known already: a replay, or scores made elsewhere.

        `views` are those of the model, (n, V, K): without them the views have no say on these rows.
        """
        with self._writer:
            ratios = as_log_ratios(log_ratios, n_classes=self._model.n_classes)
            return self._decide_rows(ratios, None if views is None else np.asarray(views, dtype=np.float64), ids)

    def feedback(self, id: Any, label: Any, *, propensity: float = 1.0) -> bool:  # noqa: A002  # the word users know
        """Take in the true label of a decision, in the user's own classes; return whether the decision is known.

        `propensity` is the probability that this label was asked for: 1 where all are checked, .02 for an audit of
        2 %. A label that comes twice counts once; one that contradicts an earlier one takes its place. Where silence
        means a class, every row is learned from when it leaves the horizon, those with a label too.
        """
        number = int(labels_to_numbers([label], self._model.classes_)[0])
        with self._writer:
            arrived = self._ledger.label(id, number, propensity=propensity)
            if arrived is None:
                return False
            if not arrived.repeated and self._ledger.silence is None:  # else it is learned when its row leaves
                self._learn(
                    arrived.row, arrived.log_ratios, arrived.alert, number, arrived.propensity,
                    replaced=arrived.replaced, replaced_propensity=arrived.replaced_propensity,
                )  # fmt: skip
            return True

    def performance(self, *, level: float = 0.9) -> PerformanceReport:
        """Return precision, recall, F1, alert rate and cost: to be expected now, and over about the last 5,000 rows.

        Without labels they follow from the prior, the calibrated ratio and their uncertainty; labels take over as they
        come. They are marked untrusted while the monitor objects.
        """
        if self._positive is None:
            raise InvalidInputError("performance speaks of one class against the rest: give positive=")
        with self._writer.waiting():
            model, prior, costs = self._model, self.prior, self.costs
            threshold, own = self._rule.log_threshold(prior), self._tracker.interval(level)
            tally, trusted = OutcomeTally.from_state(self._record.tally.state()), self.trusted
        known: dict[str, Any] = {
            "prior": prior,
            "interval": _widened(model, prior, own, level),
            "log_threshold": math.inf if threshold is None else threshold,
            "positive": self._positive,
            "costs": costs if costs is not None and costs.n_classes == 2 else None,
            "level": level,
            "trusted": trusted,
        }
        return PerformanceReport(performance_now(model, **known), performance_over_window(tally, model, **known))

    def explain(self, *, level: float = 0.9) -> ChangeReport:
        """Say what changed, since when, how sure that is, and what to do about it."""
        with self._writer.waiting():
            return explain(facts_of(self, level=level), self._record.history)

    def state(self) -> dict[str, Any]:
        """Return a checkpoint as plain JSON values: restored, the stream goes on bit for bit."""
        with self._writer.waiting():  # waits for a row that is being decided
            return {
                "format": STATE_FORMAT,
                "kind": "online_classifier",
                "classes": self._model.classes_.tolist(),
                "positive": self._positive,
                "policy": self._rule.policy.to_json(),
                "rows": self._rows,
                "tracker": self._tracker.state(),
                "monitor": None if self._monitor is None else self._monitor.state(),
                "labels": self._ledger.state(),
                "tally": self._record.tally.state(),
                "history": self._record.history.state(),
                "labels_since_alarm": list(self._since_alarm),
                "model_since": self._model_since,
            }

    @classmethod
    def from_state(cls, model: Any, state: Any) -> Self:
        """Return a classifier that goes on exactly where the one that made `state` stopped."""
        fitted = as_ratio_model(model)
        if not isinstance(state, Mapping) or state.get("kind") != "online_classifier":
            raise InvalidStateError("this is not the state of an online classifier")
        if state.get("format") != STATE_FORMAT:
            raise InvalidStateError(f"this version reads state format {STATE_FORMAT}, got {state.get('format')!r:.20}")
        if state.get("classes") != fitted.classes_.tolist():
            raise InvalidStateError(
                f"this state belongs to classes {state.get('classes')!r:.80}, the model has {fitted.classes_.tolist()}"
            )
        rows, positive = state.get("rows"), state.get("positive")
        if type(rows) is not int or rows < 0:
            raise InvalidStateError(f"a state counts its rows, got {rows!r:.20}")
        if positive is not None and (type(positive) is not int or not 0 <= positive < fitted.n_classes):
            raise InvalidStateError(f"the positive class is a number below {fitted.n_classes}, got {positive!r:.20}")
        try:
            tracker, ledger = restore_tracker(state["tracker"]), LabelLedger.from_state(state["labels"])
            tally, watched = OutcomeTally.from_state(state["tally"]), state["monitor"]
            history = StreamHistory.from_state(fitted.n_classes, state["history"])
            since_alarm, model_since = list(state["labels_since_alarm"]), state["model_since"]
            monitor = False if watched is None else LabelShiftMonitor.from_state(monitored_rows(fitted), watched)
            label = None if positive is None else fitted.classes_.tolist()[positive]
            policy = policy_from_json(state["policy"])
            online = cls(model, policy=policy, positive=label, tracker=FixedPrior(), monitor=monitor)
        except (KeyError, TypeError, InvalidInputError) as error:
            raise InvalidStateError(f"this state is damaged: {error}") from None
        for name, part in (("tracker", tracker), ("labels", ledger)):
            if part.n_classes != fitted.n_classes:
                raise InvalidStateError(f"the {name} have {part.n_classes} classes, the model {fitted.n_classes}")
        counted = {"history": history.n_rows, "tally": tally.n_seen or rows, "labels": ledger.next_row or rows}
        for name, seen in counted.items():
            if seen != rows:
                raise InvalidStateError(f"this state is damaged: its {name} saw {seen} rows, the stream {rows}")
        if online._monitor is not None and online._monitor.n_rows > rows:
            raise InvalidStateError("this state is damaged: its monitor saw more rows than the stream has")
        whole = [*since_alarm, model_since]
        if len(since_alarm) != fitted.n_classes or not all(type(one) is int and one >= 0 for one in whole):
            raise InvalidStateError("this state is damaged: what was counted since the alarm is no count")
        online._follow(tracker)
        online._ledger, online._rows = ledger, rows
        online._record = StreamRecord(tally, history, positive=positive)
        online._since_alarm, online._model_since = since_alarm, min(model_since, rows)
        return online

    def _follow(self, tracker: PriorTracker) -> None:
        self._n_views = _require_views(tracker, self._model)
        self._tracker = tracker
        if isinstance(tracker, CompiledTracker):
            self._vote = tracker.update_checked  # log ratios of a model are checked when they are made
        else:
            self._vote = lambda ratios, views: tracker.update(ratios, views=views)

    def _meaning_of(self, silence: Any) -> int | None:
        if silence is None:
            return None
        names = self._model.classes_.tolist()
        if isinstance(silence, str) and silence == "negative" and silence not in names:
            if self._positive is None or len(names) != 2:
                raise InvalidInputError(f'silence="negative" needs two classes: name one of {names} instead')
            return 1 - self._positive
        if silence not in names:
            raise InvalidInputError(f'silence must be None, "negative" or one of {names}, got {silence!r:.40}')
        return int(names.index(silence))

    def _decide_row(self, ratios: FloatArray, views: FloatArray | None, given_id: Any) -> Decision:
        """Decide one row: what `_decide_rows` does, without the arrays."""
        row = self._rows
        name = row if given_id is None else as_id(given_id)
        prior = self._vote(ratios, views)  # the prior from before the row: none votes on itself
        number, threshold, reachable = self._rule.decide_one(ratios, prior)
        trusted, evidence = True, None
        if self._monitor is not None:
            trusted = self._monitor.trusted
            self._monitor.update_checked(ratios)
            evidence = self._monitor.log_evidence
        self._rows += 1
        alert = number == self._positive
        self._record.add_one(ratios, prior, threshold, alert, log_evidence=evidence)
        if self._ledger.horizon:
            left = self._ledger.remember_one(row, name, ratios, alert)
            if left is not None:
                self._learn(left.row, left.log_ratios, left.alert, left.label, left.propensity)
        return Decision(
            id=name,
            label=self._model.classes_[number],
            log_ratios=ratios,
            prior=prior,
            threshold=threshold,
            trusted=trusted,
            reachable=reachable,
        )

    def _decide_rows(self, ratios: FloatArray, views: FloatArray | None, ids: Sequence[Any] | None) -> Decisions:
        names = range(self._rows, self._rows + len(ratios)) if ids is None else as_ids(ids)
        if len(names) != len(ratios):
            raise InvalidInputError(f"ids must name every row ({len(ratios)}), got {len(names)}")
        wanted = (len(ratios), self._n_views, self._model.n_classes)
        if self._n_views and views is not None and (views.shape != wanted or not np.isfinite(views).all()):
            raise InvalidInputError(f"views must be finite log ratios of shape {wanted}, got {views.shape}")
        if self._ledger.silence is not None:  # each row may bring a label for an older one before the next is decided
            return self._one_by_one(ratios, views, names)
        first = self._rows
        priors = self._tracker.update_many(ratios, views=views)  # the prior before each row: none votes on itself
        numbers, thresholds, reachable = self._rule.decide(ratios, priors)
        trusted, evidence = watch_in_parts(self._monitor, ratios, self._record.history.ends(len(ratios)))
        self._rows += len(ratios)
        alerts = numbers == self._positive if self._positive is not None else np.zeros(len(ratios), dtype=bool)
        self._record.add(ratios, priors, thresholds, alerts, log_evidence=evidence)
        if self._ledger.horizon:
            self._ledger.remember(first, names, ratios, alerts)
        return Decisions(
            ids=names,
            labels=self._model.classes_[numbers],
            log_ratios=ratios,
            priors=priors,
            thresholds=thresholds,
            reachable=reachable,
            trusted=trusted,
        )

    def _one_by_one(self, ratios: FloatArray, views: FloatArray | None, names: Sequence[Any]) -> Decisions:
        decided = [
            self._decide_row(ratios[i], None if views is None else views[i], name) for i, name in enumerate(names)
        ]
        matrix_decides = self._rule.bound is None
        return Decisions(
            ids=names,
            labels=np.array([one.label for one in decided], dtype=self._model.classes_.dtype),
            log_ratios=ratios,
            priors=np.array([one.prior for one in decided]).reshape(ratios.shape),
            thresholds=None if matrix_decides else np.array([one.threshold for one in decided], dtype=np.float64),
            reachable=np.array([one.reachable for one in decided], dtype=bool),
            trusted=np.array([one.trusted for one in decided], dtype=bool),
        )

    def _learn(
        self,
        row: int,
        log_ratios: FloatArray,
        alert: bool,
        label: int,
        propensity: float,
        *,
        replaced: int | None = None,
        replaced_propensity: float | None = None,
    ) -> None:
        """Pass a label on to those who can use it."""
        if self._alarm_row is not None and row >= max(self._alarm_row, self._model_since):
            self._since_alarm[label] += 1
            if replaced is not None:
                self._since_alarm[replaced] -= 1
        if isinstance(self._tracker, LearnsFromLabels):
            self._tracker.feedback(
                log_ratios, label, propensity=propensity, row=row, replaced=replaced,
                counts_only=row < self._model_since,
            )  # fmt: skip
        if self._positive is None:
            return
        age = self._rows - 1 - row
        if replaced is not None and replaced_propensity is not None:
            was_positive = replaced == self._positive
            self._record.add_label(alert, was_positive, propensity=replaced_propensity, age=age, sign=-1)
        self._record.add_label(alert, label == self._positive, propensity=propensity, age=age)


def _widened(model: RatioModel, prior: FloatArray, own: FloatArray | None, level: float) -> FloatArray | None:
    """Return a tracker's interval with the calibrator's own uncertainty in it."""
    if own is None:
        return None
    return widen(prior, own, calibration_variance(model.calibrator, model.holdout_, prior), level=level)


def _require_views(tracker: PriorTracker, model: RatioModel) -> int:
    """Return how many views a tracker listens to, which must be those of the model or none."""
    n_views = int(getattr(tracker, "n_views", 0))
    if n_views and n_views != len(model.view_members):
        raise InvalidInputError(f"the tracker listens to {n_views} views, the model has {len(model.view_members)}")
    return n_views


def watch_over(model: RatioModel) -> LabelShiftMonitor:
    """Return a monitor for the streams of a model."""
    return LabelShiftMonitor(monitored_rows(model), tolerance=MONITOR_TOLERANCE)


def monitored_rows(model: RatioModel) -> Holdout:
    """Return the held-out rows that a monitor compares a stream with: all, or as many as are enough."""
    rows, holdout = thinned_rows(model.holdout_.labels, n_classes=model.n_classes, most=MONITOR_ROWS), model.holdout_
    return Holdout(holdout.log_ratios[rows], holdout.labels[rows], holdout.weights[rows])
