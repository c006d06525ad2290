"""Pack the state of a stream into few bytes, exactly: long numbers as eight bytes each, the rest as compressed text."""

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from obil.errors import InvalidStateError
from obil.stream.online_classifier import OnlineClassifier

MAGIC = b"obil1"
MARK = "~"  # outside of a text, where a long number stood
# what most states hold anyway; it belongs to the format, so it never changes
WORDS = (
    b'{"format":2,"kind":"online_classifier","classes":[0,1],"positive":1,"policy":{"name":"cost","matrix"'
    b':[[0.0,1.0],[1.0,0.0]],"classes":null},"rows":,"tracker":{"tracker":"SafeTracker","settings":{"prior'
    b'":[~,~],"witnesses":{"expected":[],"sensitivity":[],"noise":[],"least_information":[]},"lead":"slow"'
    b',"start_weights":[]},"memory":{"prior":[~,~],"slow.prior":[~,~],"slow.counts":[],"slow.snapshots":[]'
    b',"slow.weights":[],"slow.uses":[],"slow.used":[],"slow.rate_weights":[],"slow.visits":[],"slow.seen"'
    b':[],"fast.prior":[~,~],"fast.counts":[],"fast.snapshots":[],"fast.weights":[],"fast.uses":[],"fast.u'
    b'sed":[],"fast.rate_weights":[],"fast.visits":[],"fast.seen":[],"guard.shifts":[],"guard.information"'
    b':[],"guard.own":[],"guard.shared":[],"guard.block":[],"guard.reference":[],"guard.bounds":[],"guard.'
    b'disagreement":[],"guard.watched":[],"labels.weights":[],"labels.counts":[],"labels.maps":[],"labels.'
    b'precisions":[],"labels.past":[],"labels.past_rows":[],"labels.past_labels":[],"labels.latest":[],"la'
    b'bels.arrivals":[],"labels.least_propensity":[],"labels.seen":[]}},"monitor":{"monitor":"LabelShiftMo'
    b'nitor","settings":{"alpha":0.005,"delta":0.005,"tolerance":0.02},"held_out":"","memory":{"fresh":[],'
    b'"counts":[],"priors":[],"mixing":[],"parts":[],"pays":[],"wealths":[],"evidence":[],"seen":[]}},"lab'
    b'els":{"format":1,"kind":"label_ledger","n_classes":2,"horizon":10000,"silence":null,"next_row":,"log'
    b'_ratios":[],"alerts":"","ids":[],"labels":[],"counts":{"labelled":0,"unknown":0,"repeated":0,"replac'
    b'ed":0,"silent":0,"superseded":0}},"tally":{"kind":"outcome_tally","memory":5000.0,"seen":,"sums":[],'
    b'"surprise":~,"labels":[[[0.0,0.0],[0.0,0.0]],[[0.0,0.0],[0.0,0.0]]]},"history":{"length":8,"full":{"'
    b'shares":[],"thresholds":[],"alerts":[],"log_evidence":[]},"open":{"rows":0,"shares":[],"threshold":~'
    b',"thresholds":0,"alerts":0,"log_evidence":null}},"labels_since_alarm":[0,0],"model_since":0,"past_wa'
    b'tches":[],"one_class_labels":{"mixed":false,"label":null,"labels":0,"log_ratios":[]}}'
)
LARGE = 50_000  # characters: pending labels, on which more effort is lost
LARGEST = 1 << 28  # bytes of a state when unpacked
# a text, passed over whole, or a number with so many digits that eight bytes are fewer
_LONG_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+\.\d{7,}(?:e[-+]?\d+)?|-?\d+(?:\.\d+)?e[-+]?\d+')
_MARKED = re.compile(r'"(?:[^"\\]|\\.)*"|~')


def pack_stream(online: OnlineClassifier) -> bytes:
    """Return where a stream stands, in few bytes."""
    return pack_state(online.state())


def unpack_stream(model: Any, data: bytes) -> OnlineClassifier:
    """Return a classifier that goes on exactly where the packed one stopped."""
    return OnlineClassifier.from_state(model, unpack_state(data))


def pack_state(state: Mapping[str, Any]) -> bytes:
    """Return plain JSON values in few bytes.

    >>> state = {"prior": [0.1, 1 / 3], "name": "~ 0.12345678901"}
    >>> unpack_state(pack_state(state)) == state
    True
    """
    numbers: list[float] = []

    def put_aside(found: re.Match[str]) -> str:
        text = found[0]
        if text[0] == '"':
            return text
        numbers.append(float(text))
        return MARK

    text = _LONG_NUMBER.sub(put_aside, json.dumps(state, separators=(",", ":"), allow_nan=False))
    # the bytes of all numbers by their place: signs and exponents stand together and shrink
    planes = np.array(numbers, dtype="<f8").view(np.uint8).reshape(-1, 8).T.tobytes()
    size = len(numbers).to_bytes(4, "little")
    deflater = zlib.compressobj(9 if len(text) < LARGE else 4, zdict=WORDS)
    return MAGIC + deflater.compress(size + planes + text.encode()) + deflater.flush()


def unpack_state(data: bytes) -> Any:
    """Return the values that were packed."""
    if data[: len(MAGIC)] != MAGIC:
        raise InvalidStateError("this is not the packed state of a stream, or of another version")
    try:
        raw = _inflated(data[len(MAGIC) :])
        end = 4 + 8 * int.from_bytes(raw[:4], "little")
        planes = np.frombuffer(raw[4:end], dtype=np.uint8).reshape(8, -1)
        numbers: Iterator[float] = iter(np.ascontiguousarray(planes.T).view("<f8").ravel().tolist())
        text = _MARKED.sub(lambda found: found[0] if found[0] != MARK else repr(next(numbers)), raw[end:].decode())
        state = json.loads(text, parse_constant=_refuse)
        if next(numbers, None) is not None:
            raise ValueError("numbers are left over")
        return state
    except (zlib.error, ValueError, StopIteration, RuntimeError, RecursionError, UnicodeDecodeError):
        raise InvalidStateError("this packed state is damaged") from None


def _inflated(data: bytes) -> bytes:
    inflater = zlib.decompressobj(zdict=WORDS)
    raw = inflater.decompress(data, LARGEST)
    if not inflater.eof or inflater.unused_data:
        raise ValueError
    return raw


def _refuse(name: str) -> float:
    raise ValueError(name)
