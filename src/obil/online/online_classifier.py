"""Score a row, decide it at the current prior, then update the prior: the threshold follows the stream."""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from obil.arrays import BoolArray, FloatArray, PriorLike, as_evidence, as_log_ratios
from obil.bayes.costs import Costs
from obil.bayes.posterior import posteriors_at
from obil.errors import InvalidInputError, InvalidStateError, NotStartedError
from obil.flat_record import Layout, Record, copied_record, copy_into, in_record, views_of
from obil.monitor import LabelShiftMonitor
from obil.online.decision import Decision, Decisions
from obil.online.decision_ids import as_id, as_ids
from obil.online.decision_rule import DecisionRule, Ruling, class_number, unlabeled_class
from obil.online.labels.label_ledger import LabelLedger, LabelledRow
from obil.online.labels.one_class_labels import OneClass, OneClassLabels
from obil.online.labels.pending_block import LabelCounts
from obil.online.one_row import one_row
from obil.online.state.history import StreamHistory, update_monitor
from obil.online.state.monitoring_runs import MonitoringRun, with_ended
from obil.online.state.outcome_tally import OutcomeTally
from obil.online.state.stream_memory import Counters, StreamMemory
from obil.online.state.stream_record import StreamRecord
from obil.online.state.stream_state import read_settings, read_state, settings_of, tracker_of, write_state
from obil.online.writer_lock import WriterLock
from obil.policies import CostPolicy, Policy
from obil.policies.notation import policy_from_json
from obil.serving.folds import fold_of_row
from obil.serving.ratio_model import RatioModel, Scores, as_ratio_model, labels_to_numbers
from obil.trackers import LearnsFromLabels, PriorTracker, SafeTracker
from obil.trackers.calibration_spread import with_calibration_spread
from obil.trackers.tracker import CompiledTracker

if TYPE_CHECKING:
    from obil.online.reports.explain import ChangeReport
    from obil.online.reports.performance_report import PerformanceReport

HORIZON = 10_000  # rows that a label may come late
MOST_TEMPLATES = 100  # kept of a model: one for each kind of stream


class OnlineClassifier:
    """Decide each row of a stream at the current class prior, then update the prior with the row.

    `predict` and `predict_proba` are pure; `decide` and `decide_many` update the state. True labels may come at any
    time after: `feedback`. A stream has one writer: a second concurrent `decide` raises. It can be pickled, and saved
    with its model by `obil.save`: restored, it continues bit for bit.

    Parameters
    ----------
    model
        A fitted `RatioClassifier` or `OBILClassifier`, or what `obil.load` returns.
    costs
        What wrong decisions cost; equal costs if neither this nor a policy is given.
    policy
        Another rule for the threshold: `FBetaPolicy`, `PrecisionFloor`, ... in `obil.policies`, or its name as on the
        command line: "f1", "precision:0.8", "budget:0.01".
    tracker
        What estimates the current prior; a `SafeTracker` if None. One of `obil.trackers` is copied, and its copy is
        started.
    prior
        Where the stream starts; if None, where the given tracker starts (`BayesBank(0.02)`), else the training prior.
        Give it when training was case-control.
    positive
        The class to alert on, `classes_[1]` of two if None; many classes need it only with a policy.
    monitor
        Whether to test that the stream can be label shift: True, False, or
        `LabelShiftMonitor.for_model(model, ...)` with settings of its own.
    horizon
        How many rows a decision is remembered for its label; 0 for none.
    unlabeled_as
        The class of a row for which no label has come within the horizon: None (not known), "negative", or a class.

    Attributes
    ----------
    classes_
        The classes, in the order of every prior and posterior, (K,).

    >>> from obil import OnlineClassifier, RatioClassifier
    >>> model = RatioClassifier.from_scores([-2.0, -1.0, 1.0, -1.0, 1.0, 2.0] * 10, [0, 0, 0, 1, 1, 1] * 10)
    >>> online = OnlineClassifier(model, prior=0.01)
    >>> print(online.decide([2.0]).label)  # at equal priors it would be 1
    0
    >>> online.n_rows
    1
    """

    _update: Callable[[FloatArray, FloatArray], FloatArray]
    _tracker: PriorTracker
    _memory: StreamMemory  # of all parts, in one record
    _flat: Record  # that record, ()
    _layout: Layout
    _settings: bytes | None  # what the stream was made with, once it was asked for
    _followed: SafeTracker  # the tracker, where it wants inputs of a row with its label

    def __init__(
        self,
        model: Any,
        *,
        costs: Costs | None = None,
        policy: Policy | str | None = None,
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
        own = _default_tracker(self._model) if tracker is None else _copied(tracker)
        self._follow(own.start(_start_prior(prior, own, self._model)))
        self._ledger = LabelLedger(
            self._model.n_classes, horizon=horizon, unlabeled_as=meaning, n_inputs=self._n_inputs
        )
        self._monitor = _chosen_monitor(monitor, self._model)
        self._since_alarm = [0] * self._model.n_classes  # labels of rows that the monitor no longer trusted, by class
        self._model_since = 0  # the row from which the model scores
        self._monitoring_runs: tuple[MonitoringRun, ...] = ()
        self._one_class = OneClassLabels(self._model.n_classes)
        self._record = StreamRecord(OutcomeTally(), StreamHistory(self._model.n_classes), positive=self._positive)
        self._rows = 0
        self._writer = WriterLock()
        self._lay_out()

    def __repr__(self) -> str:
        from obil.online.reports.change_text import prior_text  # noqa: PLC0415  # deciding rows needs no reports

        prior = prior_text(self._rule.labels, self.prior)
        known = f"{self._rows:,} rows, prior {prior}, {self._ledger.counts.labelled:,} labels"
        return f"OnlineClassifier({known}, {type(self._tracker).__name__}, {'' if self.trusted else 'not '}trusted)"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_state, (self._model, self.state())

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The classes, in the order of every prior and posterior, (K,)."""
        return self._model.classes_

    @property
    def model(self) -> RatioModel:
        """The ratio model that scores; a new one scores from the next row on, and the current prior is kept.

        The evidence against label shift, and what labels told of the scores, are about the old model: they start anew.
        """
        return self._model

    @model.setter
    def model(self, model: Any) -> None:
        fitted = as_ratio_model(model)
        if fitted.classes_.tolist() != self._model.classes_.tolist():
            raise InvalidInputError(
                f"the new model has the classes {fitted.classes_.tolist()}: they must be those of the stream, "
                f"{self._model.classes_.tolist()}"
            )
        rule = DecisionRule(fitted, self._rule.policy, self._positive)  # its threshold may rest on held-out rows
        with self._writer:
            tracker = self._tracker
            tracker = tracker.with_views_of(fitted) if isinstance(tracker, SafeTracker) else tracker
            monitor = None if self._monitor is None else self._monitor.renewed(fitted, replaced=self._model)
            _require_views(tracker, fitted)
            self._monitoring_runs = with_ended(self._monitoring_runs, self._monitor, self._rows)
            self._model, self._rule, self._monitor, self._model_since = fitted, rule, monitor, self._rows
            self._since_alarm = [0] * fitted.n_classes
            self._one_class.forget_scores()
            self._follow(tracker)
            self._ledger.renew_inputs(self._n_inputs)  # labels of earlier rows count, but their scores do not
            self._lay_out()

    @property
    def tracker(self) -> PriorTracker:
        """The tracker that follows the prior."""
        return self._tracker

    @property
    def monitor(self) -> LabelShiftMonitor | None:
        """The test of whether any prior explains the stream; None where there is none."""
        return self._monitor

    @property
    def trusted(self) -> bool:
        """Whether the monitor has raised no alarm: the stream can still be label shift."""
        return self._monitor is None or self._monitor.trusted

    @property
    def labels_since_alarm(self) -> tuple[int, ...]:
        """How many labels of each class belong to rows after the monitor's alarm, (K,)."""
        return tuple(self._since_alarm)

    def restart_monitor(self) -> None:
        """Forget the evidence against label shift: a new monitoring run starts with the next row."""
        with self._writer:
            if self._monitor is None:
                raise InvalidInputError("this stream has no monitor to restart: make it with monitor=True")
            self._monitoring_runs = with_ended(self._monitoring_runs, self._monitor, self._rows)
            self._monitor.restart()
            self._since_alarm = [0] * self._model.n_classes

    @property
    def monitoring_runs(self) -> tuple[MonitoringRun, ...]:
        """The last monitoring runs that ended by a restart or a new model, and where they had alarmed."""
        return self._monitoring_runs

    @property
    def prior(self) -> FloatArray:
        """The estimated prevalence of the stream, (K,); with labels, a row may be decided with another prior."""
        return self._tracker.prior

    @property
    def n_rows(self) -> int:
        """How many rows were decided."""
        return self._rows

    @property
    def horizon(self) -> int:
        """For how many rows a decision waits for its label."""
        return self._ledger.horizon

    @property
    def unlabeled_as(self) -> Any:
        """The class that a missing label means at the horizon; None where it means nothing."""
        number = self._ledger.unlabeled_as
        return None if number is None else self._rule.labels[number]

    @property
    def label_counts(self) -> LabelCounts:
        """How many decisions are labelled or wait for a label, and how many labels matched no decision."""
        return self._ledger.counts

    @property
    def one_class_labels(self) -> OneClass | None:
        """Labels that are all of one class although the scores expect others; None where that is not so.

        Then only that class is reported: set `unlabeled_as`, or give propensities.
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
        return None if self._positive is None else self._rule.labels[self._positive]

    @property
    def policy(self) -> Policy:
        """The rule for the threshold; a new one takes effect from the next row on."""
        return self._rule.policy

    @policy.setter
    def policy(self, policy: Policy | str) -> None:
        self._rule = DecisionRule(self._model, policy, self._positive)
        self._settings = None

    @property
    def costs(self) -> Costs | None:
        """What decisions cost, where costs set the threshold; new ones take effect from the next row on."""
        return self._rule.costs

    @costs.setter
    def costs(self, costs: Costs) -> None:
        self.policy = CostPolicy(costs)

    @property
    def log_threshold(self) -> float | None:
        """The current threshold, on the log ratio of the positive class."""
        uninformative = np.zeros((1, self._model.n_classes))
        return self._rule.log_threshold(self._tracker.priors_for(uninformative)[0])

    def interval(self, level: float = 0.9) -> FloatArray | None:
        """Return a credible interval of each class's prior, (K, 2), with the calibrator's own uncertainty in it."""
        return with_calibration_spread(self._tracker.interval(level), self._model, self.prior, level)

    def predict_proba(self, X: Any, *, at: Any = None) -> FloatArray:
        """Return posteriors at the current prior, (n, K), changing nothing; `at` as in `decide_many`."""
        return posteriors_at(*self._rated(X, at))

    def predict(self, X: Any, *, at: Any = None) -> npt.NDArray[Any]:
        """Return what would be decided at the current prior, (n,), changing nothing; `at` as in `decide_many`."""
        chosen: npt.NDArray[Any] = self.classes_[self._rule.decide(*self._rated(X, at)).numbers]
        return chosen

    def _rated(self, X: Any, at: Any) -> tuple[FloatArray, FloatArray]:
        """Return log ratios of rows, and the priors they would be decided with, (n, K) each."""
        if not self._n_inputs or not self._followed.n_labels:
            ratios = self._model.log_ratios(X)
            return ratios, self._tracker.priors_for(ratios)
        scores = self._model.score(X, at=at)
        ratios, evidence = scores.log_ratios, scores.evidence_from(self._rows)
        return ratios, self._followed.priors_for(ratios, evidence=evidence)

    def decide(self, x: Any, *, id: Any = None, at: Any = None) -> Decision:  # noqa: A002  # the name users know
        """Decide one row, then update the prior with it.

        `at` is when the row came, a datetime or seconds since 1970: labels can then teach the hour, the day of the week
        and the time of the year.
        """
        with self._writer:
            scores = self._model.score(one_row(x, self._model), at=at)
            evidence = scores.evidence[0, fold_of_row(self._rows, scores.evidence.shape[1])]
            return self._decide_row(scores.log_ratios[0], evidence, id)

    def decide_many(self, X: Any, *, ids: Sequence[Any] | None = None, at: Any = None) -> Decisions:
        """Decide rows in order, each at the prior from before it; `at` as in `decide`, a time for each row."""
        with self._writer:
            return self._decide_scores(self._model.score(X, at=at), ids)

    def decide_scores(self, scores: Scores, *, ids: Sequence[Any] | None = None) -> Decisions:
        """Decide rows that the model scored already: `model.score(X, at=)` may run elsewhere, before it is their turn.

        The evidence of a row is that of one fold, chosen by the row's number in this stream.
        """
        with self._writer:
            ratios = as_log_ratios(scores.log_ratios, n_classes=self._model.n_classes)
            n_rows, n_folds, n_classes = len(ratios), self._model.n_folds, ratios.shape[1]
            if np.shape(scores.evidence)[:2] != (n_rows, n_folds):
                raise InvalidInputError(
                    f"evidence must be of {n_rows} rows by the model's {n_folds} folds, got {np.shape(scores.evidence)}"
                )
            evidence = as_evidence(
                Scores(ratios, scores.evidence).evidence_from(self._rows), n_rows=n_rows, n_classes=n_classes
            )
            return self._decide_rows(ratios, evidence, ids)

    def decide_log_ratios(
        self, log_ratios: npt.ArrayLike, *, evidence: npt.ArrayLike | None = None, ids: Sequence[Any] | None = None
    ) -> Decisions:
        """Decide rows whose log ratios, (n, K), are known already: a replay, or scores made elsewhere.

        `evidence`, (n, 1 + V + D, K), is what the prior is read from: `Decisions.evidence` of the rows when they were
        decided first. Without it, log ratios are evidence too, and there are no views and no inputs.
        """
        with self._writer:
            ratios = as_log_ratios(log_ratios, n_classes=self._model.n_classes)
            if evidence is None:
                return self._decide_rows(ratios, ratios[:, None], ids)
            n_rows, n_classes = ratios.shape
            return self._decide_rows(ratios, as_evidence(evidence, n_rows=n_rows, n_classes=n_classes), ids)

    def feedback(self, id: Any, label: Any, *, propensity: float = 1.0) -> bool:  # noqa: A002  # the name users know
        """Learn the true label of a decision, one of `classes_`; return whether the decision is known.

        `propensity` is the probability that this label was asked for: 1 where all are checked, .02 for an audit of
        2 %. A label that comes twice counts once; one that contradicts an earlier one replaces it. With
        `unlabeled_as`, every row is learned when it leaves the horizon, those with a label too.
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

    def row_of(self, id: Any) -> int | None:  # noqa: A002  # the name users know
        """Return the row of a decision that is still remembered."""
        with self._writer.waiting():
            return self._ledger.row_of(id)

    def forget(self, row: int) -> bool:
        """Erase a remembered row, its id and its scores, but not its update; return whether it was remembered."""
        with self._writer:
            return self._ledger.forget(row)

    def performance(self, *, level: float = 0.9) -> "PerformanceReport":
        """Return precision, recall, F1, alert rate and cost: expected now, and over about the last 5,000 rows.

        Without labels they follow from the prior, the calibrated log ratios and their uncertainty; labels take over
        as they come. Intervals are widened by the drift that held-out rows showed from one part to the next; a figure
        that nothing bounds is "unknown" (NaN). After the monitor's alarm they are marked as not trusted.
        """
        if self._positive is None:
            raise InvalidInputError(
                "performance needs a positive class: OnlineClassifier(model, positive=...), "
                f"one of {self._rule.labels!r:.200}"
            )
        from obil.online.reports.performance import performance_report  # noqa: PLC0415

        with self._writer.waiting():
            known: dict[str, Any] = {
                "prior": self.prior,
                "interval": self._tracker.interval(level),
                "log_threshold": self.log_threshold,
                "costs": self.costs,
                "trusted": self.trusted,
                "views_agree": not isinstance(self._tracker, SafeTracker) or self._tracker.views_agree,
                "one_class_labels": self.one_class_labels is not None,
                "positive": self._positive,
            }
            model, tally = self._model, self._record.tally.copy()
        return performance_report(tally, model, level=level, **known)

    def explain(self, *, level: float = 0.9) -> "ChangeReport":
        """Report what changed, since when, with what confidence, and what to do about it."""
        from obil.online.reports.explain import explain  # noqa: PLC0415
        from obil.online.reports.stream_facts import facts_of  # noqa: PLC0415

        with self._writer.waiting():
            return explain(facts_of(self, level=level), self._record.history)

    def state(self) -> bytes:
        """Return a checkpoint: restored, the stream continues bit for bit."""
        with self._writer.waiting():  # waits for a row that is being decided
            record, ledger = self.parts()
            return write_state(self._model, self._described(), self._layout, record, ledger.state())

    @classmethod
    def from_state(cls, model: Any, state: bytes, *, policy: Policy | None = None, horizon: int | None = None) -> Self:
        """Return a classifier that continues exactly where the one that made `state` stopped.

        A policy and a horizon, where they are given, replace those of the state.
        """
        fitted = as_ratio_model(model)
        saved = read_state(fitted, state)
        like = cls._like(fitted, saved.settings)
        online = like._on(saved.record_in(like._layout))
        online._require_possible()
        ledger = online._ledger
        if horizon is not None:
            ledger, online._settings = ledger.with_horizon(horizon), None
        online._ledger = ledger.restored(saved.pending, n_rows=online._rows)
        if policy is not None and policy.to_json() != online.policy.to_json():
            online.policy = policy
        return online

    def parts(self) -> tuple[Record, LabelLedger]:
        """Return what `resumed` continues from: the record that the stream learns in, and what waits for labels."""
        self._record.pass_on()
        counters = Counters.of(self._rows, self._model_since, self._since_alarm, self._monitoring_runs)
        copy_into(counters, self._memory.counters)
        return self._flat, self._ledger

    def resumed(self, record: Record, ledger: LabelLedger) -> Self:
        """Return a stream with the model and the settings of this one that continues from these parts of another."""
        online = self._on(record)
        online._ledger = ledger
        return online

    def copied(self) -> Self:
        """Return a stream that continues like this one, independent of it."""
        record, ledger = self.parts()
        return self.resumed(copied_record(record), ledger.copied())

    def _on(self, record: Record) -> Self:
        online = type(self).__new__(type(self))
        online.__dict__ |= self.__dict__ | {"_writer": WriterLock(), "_flat": record}
        online._take(views_of(self._memory, record))
        counters = online._memory.counters
        online._rows, online._model_since, _ = counters.seen.tolist()
        online._since_alarm, online._monitoring_runs = counters.since_alarm.tolist(), counters.monitoring_runs
        return online

    @classmethod
    def _like(cls, model: RatioModel, settings: bytes) -> Self:
        """Return a stream of a model with these settings, in a record that is to be replaced."""
        known = _TEMPLATES.setdefault(model, {})
        if (cls, settings) not in known:
            if len(known) >= MOST_TEMPLATES:
                known.clear()
            known[cls, settings] = cls._made(model, settings)
        online = cls.__new__(cls)
        online.__dict__ |= known[cls, settings].__dict__ | {"_model": model, "_writer": WriterLock()}
        return online

    @classmethod
    def _made(cls, model: RatioModel, settings: bytes) -> Self:
        """Return what all streams of a model with these settings are copied from; it does not hold the model."""
        given = read_settings(settings)
        names, monitored = model.classes_.tolist(), given["monitor"]
        with _refused_as_damaged():
            monitor = False if monitored is None else LabelShiftMonitor.for_model(model, **monitored)
            tracker = tracker_of(model, given["tracker"])
            template = cls(
                model, policy=policy_from_json(given["policy"]), tracker=tracker, prior=tracker.start_prior,
                positive=None if given["positive"] is None else names[given["positive"]], monitor=monitor,
                horizon=given["horizon"],
                unlabeled_as=None if given["unlabeled_as"] is None else names[given["unlabeled_as"]],
            )  # fmt: skip
        template._settings = settings
        del template._model, template._writer
        return template

    def _lay_out(self) -> None:
        """Move what the stream learns in into one record."""
        tracker, monitor, record = self._tracker, self._monitor, self._record
        memory = StreamMemory(
            Counters.of(self._rows, self._model_since, self._since_alarm, self._monitoring_runs),
            tracker.memory if isinstance(tracker, CompiledTracker) else None,
            None if monitor is None else monitor.memory,
            record.tally.memory,
            record.history.memory,
            self._one_class.memory,
        )
        self._layout, self._settings = Layout.of(memory), None
        memory, self._flat = in_record(memory)
        self._take(memory)

    def _take(self, memory: StreamMemory) -> None:
        """Learn in this memory from here on."""
        self._memory, tracker, record = memory, self._tracker, self._record
        self._follow(tracker.with_memory(memory.tracker) if isinstance(tracker, CompiledTracker) else tracker)
        if self._monitor is not None and memory.monitor is not None:
            self._monitor = self._monitor.with_memory(memory.monitor)
        self._record = record.on(memory.tally, memory.history)
        self._one_class = OneClassLabels.on(memory.one_class)

    def _require_possible(self) -> None:
        """Refuse a restored memory that no stream could have left."""
        self._memory.counters.require_possible()
        parts: list[Any] = [self._tracker, self._record.tally, self._record.history, self._one_class, self._monitor]
        for part in parts:
            if part is not None:
                part.require_possible()
        history, tally = self._record.history.n_rows, self._record.tally.n_seen
        tallied = 0 if self._positive is None else self._rows  # without a positive class there is nothing to tally
        for name, seen, rows in (("history", history, self._rows), ("tally", tally, tallied)):
            if seen != rows:
                raise InvalidStateError(f"this state is damaged: its {name} saw {seen} rows, the stream {rows}")
        if self._monitor is not None and self._monitor.n_rows > self._rows:
            raise InvalidStateError("this state is damaged: its monitor saw more rows than the stream has")

    def _described(self) -> bytes:
        """Return what the stream was made with."""
        if self._settings is None:
            self._settings = settings_of(
                self._model, positive=self._positive, policy=self._rule.policy, tracker=self._tracker,
                monitor=self._monitor, horizon=self._ledger.horizon, unlabeled_as=self._ledger.unlabeled_as,
            )  # fmt: skip
        return self._settings

    def _follow(self, tracker: PriorTracker) -> None:
        self._n_views = _require_views(tracker, self._model)
        self._tracker = tracker
        self._n_inputs = 0  # of a row, which a label needs
        if isinstance(tracker, SafeTracker):
            self._n_inputs, self._followed = math.prod(tracker.input_shape), tracker
        if isinstance(tracker, CompiledTracker):
            self._update = tracker.update_checked  # log ratios of a model are checked when they are made
        else:
            self._update = lambda ratios, evidence: tracker.update(ratios, evidence=evidence)

    def _decide_row(self, ratios: FloatArray, evidence: FloatArray, given_id: Any) -> Decision:
        """Decide one row: what `_decide_rows` does, without the arrays."""
        row = self._rows
        name = row if given_id is None else as_id(given_id)
        prior = self._update(ratios, evidence)  # the prior from before the row: it must not influence its own threshold
        number, threshold, reachable = self._rule.decide_one(ratios, prior)
        trusted, log_evidence = True, None
        if self._monitor is not None:
            trusted = self._monitor.trusted
            self._monitor.update_checked(evidence[0])
            log_evidence = self._monitor.log_evidence
        self._rows += 1
        alert = number == self._positive
        self._record.add_one(ratios, prior, threshold, alert, log_evidence=log_evidence)
        if self._ledger.horizon:
            inputs = self._followed.latest_inputs.ravel() if self._n_inputs else None
            left = self._ledger.remember_one(row, name, ratios, alert, inputs)
            if left is not None:
                self._learn(left)
        return Decision(name, self._rule.labels[number], ratios, prior, threshold, trusted, reachable, evidence)

    def _decide_scores(self, scores: Scores, ids: Sequence[Any] | None) -> Decisions:
        return self._decide_rows(scores.log_ratios, scores.evidence_from(self._rows), ids)

    def _decide_rows(self, ratios: FloatArray, evidence: FloatArray, ids: Sequence[Any] | None) -> Decisions:
        names = range(self._rows, self._rows + len(ratios)) if ids is None else as_ids(ids)
        if len(names) != len(ratios):
            raise InvalidInputError(f"ids must name every row ({len(ratios)}), got {len(names)}")
        self._require_sources(evidence)
        # each row may bring a label for an older one before the next is decided; and one row alone is quicker so
        if self._ledger.unlabeled_as is not None or len(ratios) == 1:
            return self._one_by_one(ratios, evidence, names)
        first = self._rows
        priors = self._tracker.update_many(ratios, evidence=evidence)  # the prior from before each row
        ruling = self._rule.decide(ratios, priors)
        ends = self._record.history.ends(len(ratios))
        trusted, log_evidence = update_monitor(self._monitor, evidence[:, 0], ends)
        self._rows += len(ratios)
        decisions = self._decisions(names, ratios, evidence, priors, ruling, trusted)
        self._record.add(decisions, log_evidence=log_evidence)
        if self._ledger.horizon:
            inputs = self._followed.inputs_of(evidence).reshape(len(ratios), -1) if self._n_inputs else None
            self._ledger.remember(first, names, ratios, decisions.alerts, inputs)
        return decisions

    def _require_sources(self, evidence: FloatArray) -> None:
        n_views, n_inputs = self._model.n_views, self._model.n_inputs
        n_sources = (1, 1 + n_views, 1 + n_views + n_inputs)
        if (self._n_views or self._n_inputs) and evidence.shape[1] not in n_sources:
            raise InvalidInputError(
                f"evidence must be of the model's {n_views} views and {n_inputs} inputs, got {evidence.shape[1] - 1} "
                "of them"
            )

    def _one_by_one(self, ratios: FloatArray, evidence: FloatArray, names: Sequence[Any]) -> Decisions:
        decided = [self._decide_row(*row) for row in zip(ratios, evidence, names, strict=True)]
        priors = np.array([one.effective_prior for one in decided]).reshape(ratios.shape)
        numbers = np.array([self._rule.labels.index(one.label) for one in decided], dtype=np.int64)
        thresholds = None if self._rule.bound is None else np.array([one.threshold for one in decided], dtype=float)
        reachable, trusted = (
            np.array([getattr(one, name) for one in decided], dtype=bool) for name in ("reachable", "trusted")
        )
        ruling = Ruling(numbers, posteriors_at(ratios, priors), thresholds, reachable)
        return self._decisions(names, ratios, evidence, priors, ruling, trusted)

    def _decisions(
        self,
        names: Sequence[Any],
        ratios: FloatArray,
        evidence: FloatArray,
        priors: FloatArray,
        ruling: Ruling,
        trusted: BoolArray,
    ) -> Decisions:
        return Decisions(
            ids=names,
            classes=self.classes_,
            positive=self._positive,
            log_ratios=ratios,
            evidence=evidence,
            effective_priors=priors,
            trusted=trusted,
            **ruling._asdict(),
        )

    def _learn(self, known: LabelledRow) -> None:
        """Pass a label on to those who can use it."""
        row, label, replaced = known.row, known.label, known.replaced
        monitor = self._monitor
        if monitor is not None and monitor.alarm_row is not None:
            alarm_row = self._rows - monitor.n_rows + monitor.alarm_row  # of the stream, counted from 0
            if row >= max(alarm_row, self._model_since):
                self._since_alarm[label] += 1
                if replaced is not None:
                    self._since_alarm[replaced] -= 1
        if isinstance(self._tracker, LearnsFromLabels):
            told: dict[str, Any] = {"propensity": known.propensity, "row": row, "replaced": replaced}
            if isinstance(self._tracker, SafeTracker) and known.inputs is not None:
                told["inputs"] = known.inputs.reshape(self._tracker.input_shape)
            self._tracker.feedback(known.log_ratios, label, counts_only=row < self._model_since, **told)
        if self._positive is None:
            return
        age = self._rows - 1 - row
        if replaced is not None:
            was_positive, earlier = replaced == self._positive, known.replaced_propensity
            self._record.add_label(known.alert, was_positive, propensity=earlier, age=age, sign=-1)
        self._record.add_label(known.alert, label == self._positive, propensity=known.propensity, age=age)


def _copied(tracker: PriorTracker) -> PriorTracker:
    if isinstance(tracker, type) or not hasattr(tracker, "start"):
        raise InvalidInputError(f"tracker must be one of obil.trackers, such as BayesBank(), got {tracker!r:.80}")
    return copy(tracker) if isinstance(tracker, CompiledTracker) else tracker


def _start_prior(prior: PriorLike | Mapping[Any, float] | None, tracker: PriorTracker, model: RatioModel) -> FloatArray:
    """Return where a stream starts, (K,): at the prior that is given, else at that of its tracker or of training."""
    if prior is not None:
        return model.as_prior(prior)
    with suppress(NotStartedError):
        return model.as_prior(tracker.start_prior) if isinstance(tracker, CompiledTracker) else model.prior_
    return model.prior_


def _default_tracker(model: RatioModel) -> SafeTracker:
    if not model.n_views and (model.advice is None or model.advice.lead == "auto"):
        warnings.warn(
            "the prior stays at the start prior until labels come: this model has no views that could support a move "
            "(scores alone, sparse rows and single features have none); give labels, or choose a tracker: "
            "tracker=obil.trackers.BayesBank() where only the prior moves",
            stacklevel=3,
        )
    return SafeTracker.for_model(model)


def _require_views(tracker: PriorTracker, model: RatioModel) -> int:
    """Return how many views a tracker uses, which must be those of the model or none."""
    n_views = int(getattr(tracker, "n_views", 0))
    if n_views and n_views != model.n_views:
        raise InvalidInputError(
            f"the tracker uses {n_views} views, the model has {model.n_views}: make it by SafeTracker.for_model(model)"
        )
    n_inputs = int(getattr(tracker, "n_inputs", 0))
    if n_inputs and (n_inputs, n_views) != (model.n_inputs, model.n_views):
        raise InvalidInputError(
            f"the tracker takes {n_inputs} inputs behind {n_views} views, the model has {model.n_inputs} behind "
            f"{model.n_views}: make it by SafeTracker.for_model(model)"
        )
    return n_views


def _chosen_monitor(monitor: bool | LabelShiftMonitor, model: RatioModel) -> LabelShiftMonitor | None:
    if isinstance(monitor, bool):
        return LabelShiftMonitor.for_model(model) if monitor else None
    n_classes = getattr(monitor, "n_classes", None)
    if n_classes != model.n_classes:
        given = f"one of {n_classes}" if isinstance(n_classes, int) else f"{monitor!r:.40}"
        raise InvalidInputError(
            f"monitor must be True, False or a LabelShiftMonitor of the model's {model.n_classes} classes, got {given}"
        )
    return monitor


@contextmanager
def _refused_as_damaged() -> Iterator[None]:
    """Say of settings that a stream cannot be made with that their state is damaged."""
    try:
        yield
    except InvalidStateError:
        raise
    except (TypeError, IndexError, InvalidInputError) as error:
        raise InvalidStateError(f"this state is damaged: {error}") from None


_TEMPLATES: WeakKeyDictionary[RatioModel, dict[tuple[type, bytes], Any]] = WeakKeyDictionary()
