"""Erase what is older than it may become: events that a snapshot stands for, and points of the history."""

import logging

from obil.service.refusals import RefusedError
from obil.service.storage.store import Store
from obil.service.streams.group_commit import GroupCommit

MOST_PACKED = 500  # streams, before some events are erased

log = logging.getLogger("obil.service")


def erase_old(store: Store, writer: GroupCommit, before: float) -> int:
    """Erase some of what is older than a moment; return how many events went, 0 once there are no more."""
    # a stream that gets a row now and then is never idle: for weeks its log may be too short to be worth a snapshot
    for name in store.uncovered(before, most=MOST_PACKED):
        try:
            writer.submit(name, lambda live, session, _at: live.save_snapshot(session)).result()
        except RefusedError as error:
            log.warning("a stream is not pruned", extra={"fields": {"reason": str(error)}})
    with store.writing() as session:
        n_events = session.prune(before)
    store.sweep()
    return n_events
