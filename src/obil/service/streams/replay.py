"""Create a stream from its settings, replay its log to the same state bit for bit, and erase decisions from it."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from obil.errors import InvalidStateError
from obil.online.decision_ids import Id, erased_id
from obil.online.online_classifier import HORIZON, OnlineClassifier
from obil.policies import CostPolicy
from obil.policies.notation import policy_from_json
from obil.service.refusals import BadInputError, RefusedError, as_bad_input
from obil.service.storage import stored_event as stored
from obil.service.storage.store import Store
from obil.service.storage.writing import Writing
from obil.service.streams.group_commit import GroupCommit
from obil.service.streams.live_stream import LiveStream
from obil.service.streams.operations import Sender, StreamSettings
from obil.serving.ratio_model import RatioModel
from obil.trackers import BayesBank

Models = Callable[[str], RatioModel]  # version -> model
TRACKERS = ("safe", "bank")
MAX_SNAPSHOTS = 500  # of streams, before events are erased

log = logging.getLogger("obil.service")


def resolved_settings(settings: StreamSettings, defaults: StreamSettings) -> dict[str, Any]:
    """Return the settings of a new stream as plain JSON values, completed from the defaults."""
    chosen = StreamSettings(CostPolicy().to_json(), tracker="safe", horizon=HORIZON)
    for given in (defaults, settings):
        chosen = replace(chosen, **{name: value for name, value in asdict(given).items() if value is not None})
    return asdict(chosen)


def new_online(model: RatioModel, settings: Mapping[str, Any]) -> OnlineClassifier:
    """Return a stream without rows, or refuse its settings."""
    if settings["tracker"] not in TRACKERS:
        raise BadInputError(
            f"tracker must be one of {', '.join(TRACKERS)}, got {settings['tracker']!r:.40}", where="tracker"
        )
    # classes are text in JSON keys and on the command line
    by_text = {str(name): name for name in model.classes_.tolist()}
    prior, positive, unlabeled_as = settings["prior"], settings["positive"], settings["unlabeled_as"]
    if isinstance(prior, Mapping):
        prior = {by_text.get(name, name): value for name, value in prior.items()}
    with as_bad_input(None, TypeError):
        return OnlineClassifier(
            model,
            policy=None if settings["policy"] is None else policy_from_json(settings["policy"]),
            tracker=BayesBank() if settings["tracker"] == "bank" else None,
            prior=prior,
            positive=by_text.get(positive, positive) if isinstance(positive, str) else positive,
            horizon=settings["horizon"],
            unlabeled_as=by_text.get(unlabeled_as, unlabeled_as) if isinstance(unlabeled_as, str) else unlabeled_as,
        )


def replay(online: OnlineClassifier | None, events: Sequence[stored.StoredEvent], models: Models) -> OnlineClassifier:
    """Return the stream after these consecutive events; None is a stream before its first event."""
    for event, before in zip(events, (None, *events), strict=False):
        if before is not None and event.seq != before.seq + 1:
            raise InvalidStateError(f"the log of this stream lacks the events between {before.seq} and {event.seq}")
        if event.kind == stored.CREATED:
            created = stored.read_record(event.payload)
            online = new_online(models(created["model"]), created["settings"])
            continue
        if online is None:
            raise InvalidStateError("the log of this stream lacks its first event, and there is no snapshot")
        _replay_event(online, event, models)
    if online is None:
        raise InvalidStateError("the log of this stream is empty")
    return online


def _replay_event(online: OnlineClassifier, event: stored.StoredEvent, models: Models) -> None:
    if event.kind == stored.DECIDED:
        rows = stored.read_rows(event.payload)
        online.decide_log_ratios(rows.log_ratios, evidence=rows.evidence, ids=rows.ids)
    elif event.kind == stored.LABELLED:
        for name, label, propensity in stored.read_record(event.payload)["labels"]:
            online.feedback(name, label, propensity=propensity)
    elif event.kind == stored.SETTINGS:
        online.policy = policy_from_json(stored.read_record(event.payload)["after"])
    elif event.kind == stored.MODEL:
        online.model = models(stored.read_record(event.payload)["version"])
    elif event.kind == stored.RESTARTED:
        online.restart_monitor()
    elif event.kind == stored.FORGOTTEN:
        for row in stored.read_record(event.payload)["rows"]:
            online.forget(row)
    elif event.kind != stored.NOTED:  # a note changes no decision
        raise InvalidStateError(f"the log has an event of an unknown kind: {event.kind!r:.40}")


def erase_old(store: Store, writer: GroupCommit, before: float) -> int:
    """Erase some events and history points older than `before`; return how many events, 0 once none are left.

    What decisions added to the prior stays.
    """
    # a stream with a row now and then is never idle: for weeks its log may be too short for a snapshot
    for name in store.uncovered(before, limit=MAX_SNAPSHOTS):
        try:
            writer.submit(name, lambda live, session, _at: live.save_snapshot(session)).result()
        except RefusedError as error:
            log.warning("a stream is not pruned", extra={"fields": {"reason": str(error)}})
    with store.writing() as session:
        n_events = session.prune(before)
    store.sweep()
    return n_events


def erase_rows(live: LiveStream, ids: Sequence[Id], sender: Sender, session: Writing, at: float) -> int:
    """Erase decisions, wherever they are stored; return how many were found."""
    wanted = set(ids)
    remembered = {name: row for name in wanted if (row := live.online.row_of(name)) is not None}
    kept = [event for event in session.events_of_kind(live.row.id, stored.DECIDED) if _positions(event, wanted)]
    labelled = [event for event in session.events_of_kind(live.row.id, stored.LABELLED) if _labelled(event) & wanted]
    found = set(remembered) | {_names(event)[position] for event in kept for position in _positions(event, wanted)}
    # a label may name a decision that never was, or one that was pruned
    found |= {name for event in labelled for name in _labelled(event) & wanted}
    if not found:
        return 0
    # this writes a snapshot that replaces all older events, so that these may be rewritten
    live.forget(list(remembered.values()), sender, session, at)
    for event in kept:
        session.rewrite(live.row.id, event.seq, _without_rows(event, _positions(event, wanted)))
    for event in labelled:
        session.rewrite(live.row.id, event.seq, _without_labels(event, wanted))
    return len(found)


def _names(event: stored.StoredEvent) -> list[Id]:
    ids = stored.read_rows(event.payload).ids
    return list(range(event.first_row, event.first_row + event.n_rows) if ids is None else ids)


def _positions(event: stored.StoredEvent, wanted: set[Id]) -> list[int]:
    return [position for position, name in enumerate(_names(event)) if name in wanted]


def _without_rows(event: stored.StoredEvent, positions: list[int]) -> bytes:
    """Return an event's bytes with only the decided class left of some of its rows."""
    rows, names, inputs = stored.read_rows(event.payload), _names(event), stored.inputs_of(event.payload)
    log_ratios = rows.log_ratios.copy()
    log_ratios[positions, 1:] = 0.0
    evidence = None if rows.evidence is None else rows.evidence.copy()
    if evidence is not None:
        evidence[positions, :, 1:] = 0.0
    for position in positions:
        names[position] = erased_id(event.first_row + position)
        if inputs is not None:
            inputs[position] = None
    return stored.write_rows(rows._replace(ids=names, log_ratios=log_ratios, evidence=evidence), inputs=inputs)


def _labelled(event: stored.StoredEvent) -> set[Id]:
    return {one[0] for one in stored.read_record(event.payload)["labels"]}


def _without_labels(event: stored.StoredEvent, wanted: set[Id]) -> bytes:
    record = stored.read_record(event.payload)
    record["labels"] = [one for one in record["labels"] if one[0] not in wanted]
    record["unknown"] = [name for name in record["unknown"] if name not in wanted]
    return stored.write_record(record)
