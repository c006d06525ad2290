"""Change one thing in a state and write it whole again, checksum included: a hostile hand would, a bad disk not."""

import json
from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from obil.flat_record import Layout, Record, arrays_of, views_of
from obil.online.labels.pending_block import Pending, read_pending, write_pending
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.stream_memory import StreamMemory
from obil.online.state.stream_state import read_settings, read_state, write_state
from obil.serving.ratio_model import RatioModel

Arrays = dict[str, npt.NDArray[Any]]


def record_of(model: RatioModel, state: bytes) -> Arrays:
    """Return the arrays of a state's record by name, as a copy."""
    _, _, memory = _opened(model, state)
    return arrays_of(memory)


def pending_of(model: RatioModel, state: bytes) -> Pending:
    """Return the decisions of a state that wait for their labels."""
    return read_pending(read_state(model, state).pending, n_classes=len(model.classes_))


def with_record(model: RatioModel, state: bytes, change: Callable[[Arrays], Any]) -> bytes:
    """Return a state whose record is another: `change` writes into its arrays."""
    layout, record, memory = _opened(model, state)
    change(arrays_of(memory))
    saved = read_state(model, state)
    return write_state(model, saved.settings, layout, record, saved.pending)


def with_field(model: RatioModel, state: bytes, name: str, place: Any, value: Any) -> bytes:
    """Return a state in whose record the array of this name holds a value at a place."""

    def change(arrays: Arrays) -> None:
        arrays[name][place] = value

    return with_record(model, state, change)


def with_part(model: RatioModel, state: bytes, part: str, other: bytes) -> bytes:
    """Return a state in which the arrays of a part ("tally.") are those of another state of a stream like it."""
    theirs = record_of(model, other)

    def change(arrays: Arrays) -> None:
        for name in arrays:
            if name.startswith(part):
                arrays[name][...] = theirs[name]

    return with_record(model, state, change)


def with_settings(model: RatioModel, state: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """Return a state with other settings: `change` writes into them."""
    saved = read_state(model, state)
    settings = read_settings(saved.settings)
    change(settings)
    return with_settings_text(model, state, json.dumps(settings).encode())


def with_settings_text(model: RatioModel, state: bytes, text: bytes) -> bytes:
    """Return a state whose settings are this text."""
    layout, record, _ = _opened(model, state)
    return write_state(model, text, layout, record, read_state(model, state).pending)


def with_pending(model: RatioModel, state: bytes, change: Callable[[Pending], Pending | bytes]) -> bytes:
    """Return a state whose waiting decisions are others: those that `change` returns, or their block."""
    saved, (layout, record, _) = read_state(model, state), _opened(model, state)
    changed = change(pending_of(model, state))
    block = changed if isinstance(changed, bytes) else write_pending(changed)
    return write_state(model, saved.settings, layout, record, block)


def _opened(model: RatioModel, state: bytes) -> tuple[Layout, Record, StreamMemory]:
    """Return the layout of a state, its record, and the memory that lies there."""
    online = OnlineClassifier.from_state(model, state)
    record = read_state(model, state).record_in(online._layout)
    return online._layout, record, views_of(online._memory, record)
