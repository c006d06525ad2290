"""Turn the parts of a stream into a state and back, and refuse a state that no stream could have left."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from obil.errors import InvalidInputError, InvalidStateError
from obil.monitor import LabelShiftMonitor
from obil.monitor.reference import monitor_reference
from obil.online.labels.label_ledger import LabelLedger
from obil.online.labels.one_class_labels import OneClassLabels
from obil.online.state.history import StreamHistory
from obil.online.state.monitoring_runs import MonitoringRun, monitoring_runs_of
from obil.online.state.outcome_tally import OutcomeTally
from obil.online.state.stream_record import StreamRecord
from obil.policies import Policy
from obil.policies.notation import policy_from_json
from obil.serving.ratio_model import RatioModel
from obil.trackers import PriorTracker
from obil.trackers.restore import restore_tracker

STATE_FORMAT = 2
KIND = "online_classifier"


class SavedStream(NamedTuple):
    """The parts of a stream, which fit each other."""

    n_rows: int
    positive: int | None  # the number of the class that is alerted on
    policy: Policy
    tracker: PriorTracker
    monitor: LabelShiftMonitor | None
    ledger: LabelLedger
    record: StreamRecord
    labels_since_alarm: list[int]  # (K,)
    model_since: int  # the row from which the model scores
    monitoring_runs: tuple[MonitoringRun, ...]
    one_class_labels: OneClassLabels


def read_stream(model: RatioModel, state: Any) -> SavedStream:
    """Return the parts that made `state`, each continuing exactly where it stopped, if they fit the model."""
    n_rows, positive = _heading(model, state)
    with refused_as_damaged():
        tracker, ledger = restore_tracker(state["tracker"]), LabelLedger.from_state(state["labels"])
        tally, monitored = OutcomeTally.from_state(state["tally"]), state["monitor"]
        history = StreamHistory.from_state(model.n_classes, state["history"])
        since_alarm, model_since = list(state["labels_since_alarm"]), state["model_since"]
        monitor = None if monitored is None else LabelShiftMonitor.from_state(monitor_reference(model), monitored)
        policy = policy_from_json(state["policy"])
        runs = monitoring_runs_of(state["monitoring_runs"], n_rows)
        one_class = OneClassLabels.from_state(model.n_classes, state["one_class_labels"])
    for name, part in (("tracker", tracker), ("labels", ledger)):
        if part.n_classes != model.n_classes:
            raise InvalidStateError(f"the {name} have {part.n_classes} classes, the model {model.n_classes}")
    counted = {"history": history.n_rows, "tally": tally.n_seen or n_rows, "labels": ledger.next_row or n_rows}
    for name, seen in counted.items():
        if seen != n_rows:
            raise InvalidStateError(f"this state is damaged: its {name} saw {seen} rows, the stream {n_rows}")
    if monitor is not None and monitor.n_rows > n_rows:
        raise InvalidStateError("this state is damaged: its monitor saw more rows than the stream has")
    whole = [*since_alarm, model_since]
    if len(since_alarm) != model.n_classes or not all(type(one) is int and one >= 0 for one in whole):
        raise InvalidStateError("this state is damaged: what was counted since the alarm is no count")
    record, since = StreamRecord(tally, history, positive=positive), min(model_since, n_rows)
    return SavedStream(n_rows, positive, policy, tracker, monitor, ledger, record, since_alarm, since, runs, one_class)


@contextmanager
def refused_as_damaged() -> Iterator[None]:
    """Say of a part that is missing, or that its own class refuses, that the state is damaged."""
    try:
        yield
    except KeyError as error:
        raise InvalidStateError(f"this state is damaged: it has no part {error}") from None
    except (TypeError, InvalidInputError) as error:
        raise InvalidStateError(f"this state is damaged: {error}") from None


def _heading(model: RatioModel, state: Any) -> tuple[int, int | None]:
    """Return how many rows a state has, and the number of its positive class."""
    if isinstance(state, Mapping) and state.get("kind") == "obil_stream":
        raise InvalidStateError('this is the state of an `obil stream`: its online classifier is state["online"]')
    if not isinstance(state, Mapping) or state.get("kind") != KIND:
        raise InvalidStateError("this is not the state of an online classifier: give what online.state() returned")
    if state.get("format") != STATE_FORMAT:
        raise InvalidStateError(f"this version reads state format {STATE_FORMAT}, got {state.get('format')!r:.20}")
    names = model.classes_.tolist()
    if state.get("classes") != names:
        raise InvalidStateError(f"this state belongs to classes {state.get('classes')!r:.80}, the model has {names}")
    n_rows, positive = state.get("rows"), state.get("positive")
    if type(n_rows) is not int or n_rows < 0:
        raise InvalidStateError(f"a state counts its rows, got {n_rows!r:.20}")
    if positive is not None and (type(positive) is not int or not 0 <= positive < len(names)):
        raise InvalidStateError(f"the positive class is a number below {len(names)}, got {positive!r:.20}")
    return n_rows, positive
