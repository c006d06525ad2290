"""Write a stream as bytes, and read them back: settings, one flat record, and the decisions that wait for labels."""

import hashlib
import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from obil.arrays import is_count
from obil.errors import InvalidInputError, InvalidStateError
from obil.flat_record import Layout, Record, pack
from obil.monitor import LabelShiftMonitor
from obil.policies import Policy
from obil.serving.measured_once import MeasuredOnce
from obil.serving.ratio_model import RatioModel
from obil.trackers import PriorTracker
from obil.trackers.restore import NAMES, tracker_from_settings
from obil.trackers.tracker import CompiledTracker
from obil.trackers.view_reference import ViewReference

MAGIC = b"obilstat"
VERSION = 3
# magic, version, model, layout of the record, checksum of what follows; bytes of settings, record, pending decisions
HEAD = struct.Struct("<8sI16s8sIIII")
LARGEST = 1 << 28  # bytes of a state
OF_MODEL = "model"  # the view reference in the settings of a tracker, where it is the model's own


class SavedState(NamedTuple):
    """The parts of a state that belongs to a model."""

    settings: bytes
    layout: bytes  # its hash
    record: bytes
    pending: bytes

    def record_in(self, layout: Layout) -> Record:
        """Return the record, if it has this layout."""
        if layout.hash != self.layout:
            raise InvalidStateError("this state has another layout: it was written by another version")
        return layout.unpack(self.record)


def write_state(model: RatioModel, settings: bytes, layout: Layout, record: Record, pending: bytes) -> bytes:
    """Return a state as bytes."""
    packed = pack(record)
    body = b"".join((settings, packed, pending))
    sizes = len(settings), len(packed), len(pending)
    return HEAD.pack(MAGIC, VERSION, fingerprint_of(model), layout.hash, zlib.crc32(body), *sizes) + body


def read_state(model: RatioModel, state: Any) -> SavedState:
    """Return the parts of a state, if it is whole and belongs to the model."""
    if not isinstance(state, bytes | bytearray | memoryview):
        raise InvalidStateError(f"a state is the bytes that online.state() returned, got {type(state).__name__}")
    data = bytes(state)
    if data[: len(MAGIC)] != MAGIC or len(data) < HEAD.size:
        raise InvalidStateError("this is not the state of an online classifier: give what online.state() returned")
    _, version, fingerprint, layout, checksum, *sizes = HEAD.unpack_from(data)
    if version != VERSION:
        raise InvalidStateError(f"this version reads state format {VERSION}, got {version}")
    if len(data) != HEAD.size + sum(sizes) or len(data) > LARGEST or zlib.crc32(data[HEAD.size :]) != checksum:
        raise InvalidStateError("this state is damaged: its checksum is wrong")
    if fingerprint != fingerprint_of(model):
        raise InvalidStateError("this state belongs to another model: give the one that the stream was decided with")
    middle, end = HEAD.size + sizes[0], HEAD.size + sizes[0] + sizes[1]
    return SavedState(data[HEAD.size : middle], layout, data[middle:end], data[end:])


def settings_of(
    model: RatioModel,
    *,
    positive: int | None,
    policy: Policy,
    tracker: PriorTracker,
    monitor: LabelShiftMonitor | None,
    horizon: int,
    unlabeled_as: int | None,
) -> bytes:
    """Return what a stream was made with, as JSON: with it and the model, another one like it can be made."""
    if not isinstance(tracker, CompiledTracker) or type(tracker).__name__ not in NAMES:
        raise InvalidInputError(
            f"a stream that is followed by {type(tracker).__name__} has no state: only obil's own trackers have one"
        )
    tracked = tracker.settings
    if (
        tracked.get("view_reference") is not None
        and tracked["view_reference"] == ViewReference.of_model(model).to_json()
    ):
        tracked["view_reference"] = OF_MODEL
    return json.dumps(
        {
            "positive": positive,
            "policy": policy.to_json(),
            "tracker": [type(tracker).__name__, tracked],
            "monitor": None if monitor is None else monitor.settings,
            "horizon": horizon,
            "unlabeled_as": unlabeled_as,
        }
    ).encode()


def read_settings(settings: bytes) -> dict[str, Any]:
    """Return the settings in a state."""
    try:
        found = json.loads(settings)
    except (ValueError, RecursionError):
        raise InvalidStateError("this state is damaged: its settings are not JSON") from None
    names = {"positive", "policy", "tracker", "monitor", "horizon", "unlabeled_as"}
    if not isinstance(found, dict) or set(found) != names:
        raise InvalidStateError(f"this state is damaged: its settings are {', '.join(sorted(names))}")
    for name in ("positive", "unlabeled_as"):
        if found[name] is not None and not is_count(found[name]):
            raise InvalidStateError(
                f"this state is damaged: its setting {name} is a class number, got {found[name]!r:.40}"
            )
    tracker = found["tracker"]
    if not isinstance(tracker, list) or [type(part) for part in tracker] != [str, dict]:
        raise InvalidStateError("this state is damaged: its tracker has a name and settings")
    return found


def tracker_of(model: RatioModel, named: Sequence[Any]) -> CompiledTracker:
    """Return a started tracker with the settings in a state: its name, and what it was made with."""
    name, given = named[0], dict(named[1])
    if given.get("view_reference") == OF_MODEL:
        given["view_reference"] = ViewReference.of_model(model)
    return tracker_from_settings(name, given)


def fingerprint_of(model: RatioModel) -> bytes:
    """Return sixteen bytes that name a model by its classes and by how it scored its held-out rows."""
    return _FINGERPRINTS.of(model)


def _fingerprint(model: RatioModel) -> bytes:
    held_out, seen = model.holdout_, model.evidence_holdout
    digest = hashlib.blake2b(json.dumps(model.classes_.tolist()).encode(), digest_size=16)
    arrays = [model.prior_, held_out.log_ratios, held_out.labels, held_out.weights, seen.log_ratios]
    for values in (*arrays, *(view.holdout for view in model.view_members)):
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.digest()


_FINGERPRINTS = MeasuredOnce(_fingerprint)
