"""Erase what is kept of single decisions: ids, scores and inputs. Their votes stay: nobody can be read from them."""

from collections.abc import Sequence

from obil.online.decision_ids import Id, erased_id
from obil.service.storage.stored_event import (
    DECIDED,
    LABELLED,
    StoredEvent,
    inputs_of,
    read_record,
    read_rows,
    write_record,
    write_rows,
)
from obil.service.storage.writing import Writing
from obil.service.streams.live_stream import LiveStream
from obil.service.streams.operations import Sender


def erase_rows(live: LiveStream, ids: Sequence[Id], sender: Sender, session: Writing, at: float) -> int:
    """Erase decisions, wherever they are kept; return how many were found."""
    wanted = set(ids)
    remembered = {name: row for name in wanted if (row := live.online.row_of(name)) is not None}
    kept = [event for event in session.events_of_kinds(live.row.id, (DECIDED,)) if _places(event, wanted)]
    labelled = [event for event in session.events_of_kinds(live.row.id, (LABELLED,)) if _labelled(event) & wanted]
    found = set(remembered) | {_names(event)[place] for event in kept for place in _places(event, wanted)}
    # a label may name what was never decided here, or what was decided so long ago that it is pruned
    found |= {name for event in labelled for name in _labelled(event) & wanted}
    if not found:
        return 0
    # the snapshot that this writes takes the place of all older events, so that these may be rewritten
    live.forget(list(remembered.values()), sender, session, at)
    for event in kept:
        session.rewrite(live.row.id, event.seq, _without_rows(event, _places(event, wanted)))
    for event in labelled:
        session.rewrite(live.row.id, event.seq, _without_labels(event, wanted))
    return len(found)


def _names(event: StoredEvent) -> list[Id]:
    ids = read_rows(event.payload).ids
    return list(range(event.first_row, event.first_row + event.n_rows) if ids is None else ids)


def _places(event: StoredEvent, wanted: set[Id]) -> list[int]:
    return [place for place, name in enumerate(_names(event)) if name in wanted]


def _without_rows(event: StoredEvent, places: list[int]) -> bytes:
    """Return an event's bytes with nothing left of some of its rows but what was decided."""
    rows, names, inputs = read_rows(event.payload), _names(event), inputs_of(event.payload)
    log_ratios = rows.log_ratios.copy()
    log_ratios[places, 1:] = 0.0
    views = None if rows.views is None else rows.views.copy()
    if views is not None:
        views[places, :, 1:] = 0.0
    for place in places:
        names[place] = erased_id(event.first_row + place)
        if inputs is not None:
            inputs[place] = None
    return write_rows(rows._replace(ids=names, log_ratios=log_ratios, views=views), inputs=inputs)


def _labelled(event: StoredEvent) -> set[Id]:
    return {one[0] for one in read_record(event.payload)["labels"]}


def _without_labels(event: StoredEvent, wanted: set[Id]) -> bytes:
    record = read_record(event.payload)
    record["labels"] = [one for one in record["labels"] if one[0] not in wanted]
    record["unknown"] = [name for name in record["unknown"] if name not in wanted]
    return write_record(record)
