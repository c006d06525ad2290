"""Erase decisions, by id or by age: ids, scores, inputs and labels. What they added to the prior stays."""

import logging
from collections.abc import Sequence

from obil.online.decision_ids import Id, erased_id
from obil.service.refusals import RefusedError
from obil.service.storage import stored_event as stored
from obil.service.storage.store import Store
from obil.service.storage.writing import Writing
from obil.service.streams.group_commit import GroupCommit
from obil.service.streams.live_stream import LiveStream
from obil.service.streams.operations import Sender

MAX_SNAPSHOTS = 500  # of streams, before events are erased

log = logging.getLogger("obil.service")


def erase_old(store: Store, writer: GroupCommit, before: float) -> int:
    """Erase some events and history points older than `before`; return how many events, 0 once none are left."""
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
    views = None if rows.views is None else rows.views.copy()
    if views is not None:
        views[positions, :, 1:] = 0.0
    for position in positions:
        names[position] = erased_id(event.first_row + position)
        if inputs is not None:
            inputs[position] = None
    return stored.write_rows(rows._replace(ids=names, log_ratios=log_ratios, views=views), inputs=inputs)


def _labelled(event: stored.StoredEvent) -> set[Id]:
    return {one[0] for one in stored.read_record(event.payload)["labels"]}


def _without_labels(event: stored.StoredEvent, wanted: set[Id]) -> bytes:
    record = stored.read_record(event.payload)
    record["labels"] = [one for one in record["labels"] if one[0] not in wanted]
    record["unknown"] = [name for name in record["unknown"] if name not in wanted]
    return stored.write_record(record)
