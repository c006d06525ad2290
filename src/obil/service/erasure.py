"""Erase what is kept of single decisions: ids, scores and inputs. Their votes stay: nobody can be read from them."""

from collections.abc import Sequence

import numpy as np

from obil.service.live_stream import LiveStream
from obil.service.operations import Sender
from obil.service.store import Writing
from obil.service.stored_event import DECIDED, LABELLED, inputs_of, read_record, read_rows, write_record, write_rows
from obil.stream.decision_ids import Id, erased_id


def erase_rows(live: LiveStream, ids: Sequence[Id], sender: Sender, session: Writing, at: float) -> int:
    """Erase decisions, wherever they are kept; return how many were found."""
    wanted = set(ids)
    remembered = {name: row for name in wanted if (row := live.online.row_of(name)) is not None}
    # the snapshot that this writes takes the place of all older events, so that these may be rewritten
    live.forget(list(remembered.values()), sender, session, at)
    found = set(remembered)
    for event in session.events_of_kinds(live.row.id, (DECIDED, LABELLED)):
        if event.kind == LABELLED:
            _erase_labels(live, event.seq, event.payload, wanted, session)
            continue
        rows = read_rows(event.payload)
        numbers = range(event.first_row, event.first_row + event.n_rows)
        names: list[Id] = list(numbers if rows.ids is None else rows.ids)
        places = [place for place, name in enumerate(names) if name in wanted]
        if not places:
            continue
        found.update(names[place] for place in places)
        log_ratios = rows.log_ratios.copy()
        log_ratios[places, 1:] = 0.0
        views = None if rows.views is None else rows.views.copy()
        if views is not None:
            views[places, :, 1:] = 0.0
        inputs = inputs_of(event.payload)
        for place in places:
            names[place] = erased_id(event.first_row + place)
            if inputs is not None:
                inputs[place] = None
        answer = rows.answer
        if answer is not None and answer.thresholds is not None:
            thresholds = answer.thresholds.copy()
            thresholds[places] = np.nan
            answer = answer._replace(thresholds=thresholds)
        changed = rows._replace(ids=names, log_ratios=log_ratios, views=views, answer=answer)
        session.rewrite(live.row.id, event.seq, write_rows(changed, inputs=inputs))
    return len(found)


def _erase_labels(live: LiveStream, seq: int, payload: bytes, wanted: set[Id], session: Writing) -> None:
    record = read_record(payload)
    kept = [one for one in record["labels"] if one[0] not in wanted]
    if len(kept) < len(record["labels"]):
        record["labels"], record["unknown"] = kept, [name for name in record["unknown"] if name not in wanted]
        session.rewrite(live.row.id, seq, write_record(record))
