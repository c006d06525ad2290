"""Score, decide, then let the row vote: a classifier whose threshold follows the prior."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, PriorLike, as_log_ratios
from obil.bayes.costs import Costs
from obil.bayes.posterior import posteriors_at
from obil.errors import InvalidInputError
from obil.monitor import LabelShiftMonitor
from obil.online.decision import Decision, Decisions
from obil.online.decision_ids import as_id, as_ids
from obil.online.decision_rule import DecisionRule, class_number
from obil.online.labels.label_counts import LabelCounts
from obil.online.labels.label_ledger import Arrived, LabelLedger, Remembered
from obil.online.labels.one_class_labels import OneClass, OneClassLabels
from obil.online.labels.unlabeled import unlabeled_class
from obil.online.one_row import one_row
from obil.online.reference_sample import chosen_monitor, reference_sample
from obil.online.reports.explain import ChangeReport, explain
from obil.online.reports.monitoring_runs import MonitoringRun, with_ended
from obil.online.reports.performance_report import PerformanceReport, performance_report, with_calibration_spread
from obil.online.reports.prior_text import in_short
from obil.online.reports.stream_facts import facts_of
from obil.online.state.history import StreamHistory, watch_in_parts
from obil.online.state.outcome_tally import OutcomeTally
from obil.online.state.saved_stream import SavedStream, read_stream, refused_as_damaged
from obil.online.state.stream_record import StreamRecord
from obil.online.writer_lock import WriterLock
from obil.policies import CostPolicy, Policy
from obil.serving.ratio_model import RatioModel, as_ratio_model, labels_to_numbers
from obil.trackers import FixedPrior, LearnsFromLabels, PriorTracker, SafeTracker
from obil.trackers.tracker import CompiledTracker

HORIZON = 10_000  # rows that a label may come late


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
        Another rule for the threshold: `FBetaPolicy`, `PrecisionFloor`, ... in `obil.policies`.
    tracker
        How the prior is followed; a `SafeTracker` if None. It is started at `prior`.
    prior
        Where the stream starts; the training prior if None. Give it when training was case-control.
    positive
        The class to alert on, `classes_[1]` of two if None; many classes need it only with a policy.
    monitor
        Whether to watch if label shift holds: True, False, or a `LabelShiftMonitor` with settings of its
        own, on `reference_sample(model)`.
    horizon
        How many rows a decision is remembered for its label; 0 for none.
    unlabeled_as
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
        unlabeled_as: Any = None,
    ) -> None:
        self._model = as_ratio_model(model)
        self._positive = class_number(positive, self._model)
        if costs is not None and policy is not None:
            raise InvalidInputError("give costs or a policy, not both: a cost policy is CostPolicy(costs)")
        self._rule = DecisionRule(self._model, CostPolicy(costs) if costs is not None else policy, self._positive)
        meaning = unlabeled_class(unlabeled_as, self._model, self._positive)
        self._ledger = LabelLedger(self._model.n_classes, horizon=horizon, unlabeled_as=meaning)
        start = self._model.prior_ if prior is None else self._model.as_prior(prior)
        self._follow((SafeTracker.for_model(self._model) if tracker is None else tracker).start(start))
        self._monitor = chosen_monitor(monitor, self._model)
        self._since_alarm = [0] * self._model.n_classes  # labels of rows that the monitor no longer trusted, by class
        self._model_since = 0  # the row from which the model scores
        self._monitoring_runs: tuple[MonitoringRun, ...] = ()
        self._one_class = OneClassLabels(self._model.n_classes)
        history = StreamHistory(self._model.n_classes)
        self._record = StreamRecord(OutcomeTally(), history, positive=self._positive)
        self._rows = 0
        self._writer = WriterLock()

    def __repr__(self) -> str:
        prior = in_short(self._model.classes_.tolist(), self.prior)
        known = f"{self._rows:,} rows, prior {prior}, {self._ledger.counts.labelled:,} labels"
        return f"OnlineClassifier({known}, {type(self._tracker).__name__}, {'' if self.trusted else 'not '}trusted)"

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
            tracker = tracker.with_views_of(fitted) if isinstance(tracker, SafeTracker) else tracker
            watch = None if self._monitor is None else self._monitor.renewed(reference_sample(fitted))
            _require_views(tracker, fitted)
            self._monitoring_runs = with_ended(self._monitoring_runs, self._monitor, self._rows)
            self._model, self._rule, self._monitor, self._model_since = fitted, rule, watch, self._rows
            self._since_alarm = [0] * fitted.n_classes
            self._one_class.forget_scores()
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
            self._monitoring_runs = with_ended(self._monitoring_runs, self._monitor, self._rows)
            self._monitor.restart()
            self._since_alarm = [0] * self._model.n_classes

    @property
    def monitoring_runs(self) -> tuple[MonitoringRun, ...]:
        """The last watches that ended by a restart or a new model, and where they had alarmed."""
        return self._monitoring_runs

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
    def one_class_labels(self) -> OneClass | None:
        """What is wrong with labels that are all of one class though the scores expect others; None where nothing is.

        Then only that class is reported: say what unlabeled_as means, or give propensities.
        """
        return self._one_class.finding_beside(self._tracker)

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
        return with_calibration_spread(self._tracker.interval(level), self._model, self.prior, level)

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
            scores = self._model.score(one_row(x, self._model))
            return self._decide_row(scores.log_ratios[0], scores.views[0] if self._n_views else None, id)

    def decide_many(self, X: Any, *, ids: Sequence[Any] | None = None) -> Decisions:
        """Decide rows in order, each at the prior before it, and let them vote."""
        with self._writer:
            scores = self._model.score(X)
            return self._decide_rows(scores.log_ratios, scores.views if self._n_views else None, ids)

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
        2 %. A label that comes twice counts once; one that contradicts an earlier one takes its place. With
        `unlabeled_as`, every row is learned from when it leaves the horizon, those with a label too.
        """
        number = int(labels_to_numbers([label], self._model.classes_)[0])
        with self._writer:
            arrived = self._ledger.label(id, number, propensity=propensity)
            if arrived is None:
                return False
            if not arrived.repeated and self._ledger.unlabeled_as is None:  # else it is learned when its row leaves
                self._one_class.add(arrived.log_ratios, number, arrived.replaced)
                self._learn(arrived)
            return True

    def row_of(self, id: Any) -> int | None:  # noqa: A002  # the word users know
        """Return the row of a decision that is still remembered."""
        with self._writer.waiting():
            return self._ledger.row_of(id)

    def forget(self, row: int) -> bool:
        """Erase a remembered row, its id and its scores; its vote stays. Return whether it was remembered."""
        with self._writer:
            return self._ledger.forget(row)

    def performance(self, *, level: float = 0.9) -> PerformanceReport:
        """Return precision, recall, F1, alert rate and cost: to be expected now, and over about the last 5,000 rows.

        Without labels they follow from the prior, the calibrated ratio and their uncertainty; labels take over as they
        come. They are marked untrusted while the monitor objects.
        """
        if self._positive is None:
            raise InvalidInputError(
                "performance speaks of one class against the rest: name it by OnlineClassifier(model, positive=...), "
                f"one of {self._model.classes_.tolist()!r:.200}"
            )
        with self._writer.waiting():
            known: dict[str, Any] = {
                "prior": self.prior,
                "interval": self._tracker.interval(level),
                "log_threshold": self.log_threshold,
                "costs": self.costs,
                "trusted": self.trusted,
                "one_class_labels": self.one_class_labels is not None,
            }
            model, tally = self._model, OutcomeTally.from_state(self._record.tally.state())
        return performance_report(tally, model, positive=self._positive, level=level, **known)

    def explain(self, *, level: float = 0.9) -> ChangeReport:
        """Say what changed, since when, how sure that is, and what to do about it."""
        with self._writer.waiting():
            return explain(facts_of(self, level=level), self._record.history)

    def state(self) -> dict[str, Any]:
        """Return a checkpoint as plain JSON values: restored, the stream goes on bit for bit."""
        with self._writer.waiting():  # waits for a row that is being decided
            return SavedStream(
                n_rows=self._rows,
                positive=self._positive,
                policy=self._rule.policy,
                tracker=self._tracker,
                monitor=self._monitor,
                ledger=self._ledger,
                tally=self._record.tally,
                history=self._record.history,
                labels_since_alarm=self._since_alarm,
                model_since=self._model_since,
                monitoring_runs=self._monitoring_runs,
                one_class_labels=self._one_class,
            ).state(self._model)

    @classmethod
    def from_state(cls, model: Any, state: Any) -> Self:
        """Return a classifier that goes on exactly where the one that made `state` stopped."""
        fitted = as_ratio_model(model)
        saved = read_stream(fitted, state)
        label = None if saved.positive is None else fitted.classes_.tolist()[saved.positive]
        watch = False if saved.monitor is None else saved.monitor
        with refused_as_damaged():
            online = cls(model, policy=saved.policy, positive=label, tracker=FixedPrior(), monitor=watch)
        online._follow(saved.tracker)
        online._ledger, online._rows = saved.ledger, saved.n_rows
        online._record = StreamRecord(saved.tally, saved.history, positive=saved.positive)
        online._since_alarm, online._model_since = saved.labels_since_alarm, saved.model_since
        online._monitoring_runs, online._one_class = saved.monitoring_runs, saved.one_class_labels
        return online

    def _follow(self, tracker: PriorTracker) -> None:
        self._n_views = _require_views(tracker, self._model)
        self._tracker = tracker
        if isinstance(tracker, CompiledTracker):
            self._vote = tracker.update_checked  # log ratios of a model are checked when they are made
        else:
            self._vote = lambda ratios, views: tracker.update(ratios, views=views)

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
                self._learn(left)
        return Decision(name, self._rule.labels[number], ratios, prior, threshold, trusted, reachable)

    def _decide_rows(self, ratios: FloatArray, views: FloatArray | None, ids: Sequence[Any] | None) -> Decisions:
        names = range(self._rows, self._rows + len(ratios)) if ids is None else as_ids(ids)
        if len(names) != len(ratios):
            raise InvalidInputError(f"ids must name every row ({len(ratios)}), got {len(names)}")
        wanted = (len(ratios), self._n_views, self._model.n_classes)
        if self._n_views and views is not None and (views.shape != wanted or not np.isfinite(views).all()):
            raise InvalidInputError(f"views must be finite log ratios of shape {wanted}, got {views.shape}")
        # each row may bring a label for an older one before the next is decided; and one row alone is quicker so
        if self._ledger.unlabeled_as is not None or len(ratios) == 1:
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

    def _learn(self, known: Arrived | Remembered) -> None:
        """Pass a label on to those who can use it."""
        row, label = known.row, known.label
        replaced = known.replaced if isinstance(known, Arrived) else None
        if self._alarm_row is not None and row >= max(self._alarm_row, self._model_since):
            self._since_alarm[label] += 1
            if replaced is not None:
                self._since_alarm[replaced] -= 1
        if isinstance(self._tracker, LearnsFromLabels):
            self._tracker.feedback(
                known.log_ratios, label, propensity=known.propensity, row=row, replaced=replaced,
                counts_only=row < self._model_since,
            )  # fmt: skip
        if self._positive is None:
            return
        age = self._rows - 1 - row
        if isinstance(known, Arrived) and replaced is not None and known.replaced_propensity is not None:
            was_positive, earlier = replaced == self._positive, known.replaced_propensity
            self._record.add_label(known.alert, was_positive, propensity=earlier, age=age, sign=-1)
        self._record.add_label(known.alert, label == self._positive, propensity=known.propensity, age=age)


def _require_views(tracker: PriorTracker, model: RatioModel) -> int:
    """Return how many views a tracker listens to, which must be those of the model or none."""
    n_views = int(getattr(tracker, "n_views", 0))
    if n_views and n_views != len(model.view_members):
        raise InvalidInputError(f"the tracker listens to {n_views} views, the model has {len(model.view_members)}")
    return n_views
