"""Erase decisions, old events and deleted streams, a little at a time, so that no request waits long."""

import logging
import time
from collections.abc import Sequence

import numpy as np

from obil.online.decision_ids import Id, erased_id
from obil.service.refusals import RefusedError
from obil.service.storage import stored_event as stored
from obil.service.storage.store import Store
from obil.service.storage.writing import SLICE, Writing
from obil.service.streams.group_commit import GroupCommit
from obil.service.streams.live_stream import LiveStream
from obil.service.streams.operations import Sender

MAX_SNAPSHOTS = 500  # of streams, before events are erased
REST = 3.0  # times as long as a slice took: requests write in between

log = logging.getLogger("obil.service")


def erase_rows(live: LiveStream, ids: Sequence[Id], sender: Sender, session: Writing, at: float) -> int:
    """Erase decisions, wherever they are stored; return how many were found."""
    wanted, found, events = set(ids), set(), {}
    remembered = {name: row for name in wanted if (row := live.online.row_of(name)) is not None}
    for name in wanted:
        for event in session.find_id(live.row, name):
            if name in stored.ids_of(event):  # two ids may have one digest
                events[event.seq] = event
                found.add(name)
    found |= set(remembered)
    if not found:
        return 0
    # this writes a snapshot that replaces all older events, so that these may be rewritten
    live.forget(list(remembered.values()), sender, session, at, ids=sorted(found, key=str))
    for event in events.values():
        session.erase_from(live.row.id, event, _without(event, wanted), wanted)
    return len(found)


def erase_deleted(store: Store) -> None:
    """Erase all that is left of deleted streams."""
    n_slices = 0
    while True:
        started = time.monotonic()
        with store.writing() as session:
            stream = session.deleted_stream()
            if stream is None:
                break
            session.erase_slice(stream)
        n_slices += 1
        time.sleep(REST * (time.monotonic() - started))
    if n_slices:
        store.sweep()


def erase_old(store: Store, writer: GroupCommit, before: float) -> int:
    """Erase some events or history points older than `before`; return how many, 0 once none are left.

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
    if n_events:
        return n_events
    points = store.old_points(before, limit=SLICE)
    if points:
        with store.writing() as session:
            session.erase_points(points)
        return len(points)
    store.sweep()
    return 0


def _without(event: stored.StoredEvent, wanted: set[Id]) -> bytes:
    if event.kind == stored.LABELLED:
        return _without_labels(event, wanted)
    return _without_rows(event, [position for position, name in enumerate(stored.ids_of(event)) if name in wanted])


def _without_rows(event: stored.StoredEvent, positions: list[int]) -> bytes:
    """Return an event's bytes with only the decided class left of some of its rows."""
    rows, names, inputs = stored.read_rows(event.payload), stored.ids_of(event), stored.inputs_of(event.payload)
    log_ratios = rows.log_ratios.copy()
    log_ratios[positions, 1:] = 0.0
    priors = rows.priors.copy()
    priors[positions] = np.nan  # once labels have come, they depend on the row
    evidence = None if rows.evidence is None else rows.evidence.copy()
    if evidence is not None:
        evidence[positions, :, 1:] = 0.0
    for position in positions:
        names[position] = erased_id(event.first_row + position)
        if inputs is not None:
            inputs[position] = None
    return stored.write_rows(
        rows._replace(ids=names, log_ratios=log_ratios, evidence=evidence, priors=priors), inputs=inputs
    )


def _without_labels(event: stored.StoredEvent, wanted: set[Id]) -> bytes:
    record = stored.read_record(event.payload)
    record["labels"] = [one for one in record["labels"] if one[0] not in wanted]
    record["unknown"] = [name for name in record["unknown"] if name not in wanted]
    return stored.write_record(record)
