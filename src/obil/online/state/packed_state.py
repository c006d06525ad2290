"""Pack the state of a stream into few bytes, exactly: numbers apart in four or eight bytes each, the rest as text."""

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.errors import InvalidStateError
from obil.online.online_classifier import OnlineClassifier

MAGIC = b"obil2"
MARK = "~"  # where a number stood, or numbers of a shape; before a text that begins with one
MILLION = 1e6  # a number of at most six decimal places, and not large, is kept as a whole one
# what most states hold anyway; it belongs to the format, so it never changes
DICTIONARY = (
    b'{"format":2,"kind":"online_classifier","classes":[0,1],"positive":1,"policy":{"name":"cost","matrix":"~2,'
    b'2","classes":null},"rows":100,"tracker":{"tracker":"SafeTracker","settings":{"prior":"~2","view_reference":{"e'
    b'xpected":[[]],"sensitivity":"~1,12","noise":[],"least_information":"~1,1","error":"~2,1"},"lead":"auto","start_weights":'
    b'"~9"},"memory":{"prior":"~2","slow.prior":"~2","slow.counts":"~2,4","slow.snapshots":[[],[]],"slow.weight'
    b's":"~3,4","slow.uses":"~3,4","slow.used":"~3","slow.rate_weights":"~3","slow.visits":[],"slow.seen":[100,'
    b'0],"fast.prior":"~2","fast.counts":"~2,8","fast.snapshots":"~2,8","fast.weights":"~3,16","fast.uses":"~3,'
    b'16","fast.used":"~3","fast.rate_weights":"~3","fast.visits":[1,0,0,0,0,0,0,0],"fast.seen":[100,1],"guard.'
    b'shifts":"~2,1,1","guard.information":"~2,1,1","guard.squares":"~2,1,1","guard.products":"~2,1,1","guard.block":'
    b'"~3,2,1,1","guard.reference":"~1","guard.bounds":"~1,2","guard.disagreement":"~1","guard.seen":[0,0],"'
    b'labels.weights":"~9","labels.counts":"~3,2","labels.maps":"~3,2","labels.p'
    b'recisions":"~3,2,2","labels.past":"~8,3,9,2","labels.past_rows":[[0,64,-1],[0,-1,-1],[0,-1,-1],[0,-1,-1],[0,-1,-1],[0,-1,-1],[0,-1,-1],['
    b'0,-1,-1]],"labels.past_labels":[[0,0,0],[0,0,0],[0,0,0],[0,0,0],[0,0,0],[0,0,0],[0,0,0],[0,0,0]],"labels.'
    b'latest":"~9,2","labels.arrivals":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0'
    b',0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"labels.least_propensity":"~1","labels.seen":[1'
    b'00,0]}},"monitor":{"monitor":"LabelShiftMonitor","settings":{"alpha":"~","delta":"~","tolerance":"~"},"he'
    b'ld_out":"","memory":{"fresh":"~8","counts":"~2,8","priors":"~7,2","mixing":"~8,2","parts":"~8,2,8","pays"'
    b':"~17,8","wealths":"~17","evidence":"~2","seen":[100,100,0,0]}},"labels":{"format":1,"kind":"label_ledger'
    b'","n_classes":2,"horizon":10000,"unlabeled_as":null,"next_row":100,"log_ratios":[],"alerts":"","ids":[],"label'
    b's":[],"counts":{"labelled":0,"unknown":0,"repeated":0,"replaced":0,"unlabeled":0,"superseded":0}},"tally":{"'
    b'kind":"outcome_tally","memory":"~","seen":100,"sums":"~2,4","surprise":"~","labels":"~2,2,2"},"history":{'
    b'"length":8,"full":{"prevalence":"~12,2","thresholds":"~12","alerts":[1,0,1,0,0,0,0,0,0,0,1,1],"log_evidence":'
    b'"~12"},"open":{"rows":4,"prevalence":"~2","threshold":"~","thresholds":4,"alerts":0,"log_evidence":"~"}},"lab'
    b'els_since_alarm":[0,0],"model_since":0,"monitoring_runs":[],"one_class_labels":{"mixed":false,"label":null,"'
    b'labels":0,"log_ratios":[]}}'
)
LARGE = 50_000  # characters: pending labels, on which more effort is lost
LARGEST = 1 << 28  # bytes of a state when unpacked
_NUMBERS, _LISTS, _WHOLE = {float}, {list}, {int, bool, type(None)}


def pack_stream(online: OnlineClassifier) -> bytes:
    """Return where a stream stands, in few bytes."""
    return pack_state(online.state())


def unpack_stream(model: Any, data: bytes) -> OnlineClassifier:
    """Return a classifier that continues exactly where the packed one stopped."""
    return OnlineClassifier.from_state(model, unpack_state(data))


def pack_state(state: Mapping[str, Any]) -> bytes:
    """Return plain JSON values in few bytes.

    >>> state = {"prior": [0.1, 1 / 3], "name": "~ 0.12345678901"}
    >>> unpack_state(pack_state(state)) == state
    True
    """
    numbers: list[float] = []

    def put_aside(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: put_aside(part) for name, part in value.items()}
        if isinstance(value, list | tuple):
            kinds = set(map(type, value))
            if kinds <= _WHOLE:
                return value
            grid = _as_grid(value)
            if grid is None:
                return [put_aside(part) for part in value]
            shape, values = grid
            numbers.extend(values)
            return MARK + ",".join(map(str, shape))
        if isinstance(value, float):
            numbers.append(value)
            return MARK
        return MARK + value if isinstance(value, str) and value.startswith(MARK) else value

    text = json.dumps(put_aside(state), separators=(",", ":")).encode()
    deflater = zlib.compressobj(6 if len(text) + 8 * len(numbers) < LARGE else 4, zdict=DICTIONARY)
    return MAGIC + deflater.compress(_as_bytes(np.array(numbers, dtype="<f8")) + text) + deflater.flush()


def unpack_state(data: bytes) -> Any:
    """Return the values that were packed."""
    if data[: len(MAGIC)] != MAGIC:
        raise InvalidStateError("this is not the packed state of a stream, or of another version")
    try:
        raw = _inflated(data[len(MAGIC) :])
        values, end = _from_bytes(raw)
        taken = 0

        def put_back(value: Any) -> Any:
            nonlocal taken
            if isinstance(value, dict):
                return {name: put_back(part) for name, part in value.items()}
            if isinstance(value, list):
                return value if set(map(type, value)) <= _WHOLE else [put_back(part) for part in value]
            if not isinstance(value, str) or not value.startswith(MARK):
                return value
            if value.startswith(MARK, 1):
                return value[1:]
            shape = [int(size) for size in value[1:].split(",")] if len(value) > 1 else []
            first, taken = taken, taken + math.prod(shape)
            return values[first:taken].reshape(shape).tolist()

        state = put_back(json.loads(raw[end:], parse_constant=refuse_constant, parse_float=refuse_constant))
        if taken != len(values):
            raise ValueError("the numbers are not those of the text")
        return state
    except (zlib.error, ValueError, IndexError, RecursionError):
        raise InvalidStateError("this packed state is damaged") from None


def _as_grid(value: Sequence[Any]) -> tuple[list[int], Sequence[float]] | None:
    """Return the shape and the numbers of lists in lists of one length each, or None where they are something else."""
    shape = [len(value)]
    while set(map(type, value)) == _LISTS:
        lengths = set(map(len, value))
        if len(lengths) > 1 or 0 in lengths:
            return None
        shape += lengths
        value = list(chain.from_iterable(value))
    return (shape, value) if set(map(type, value)) == _NUMBERS else None


def _as_bytes(values: FloatArray) -> bytes:
    """Return numbers as bytes that deflate well: which are short, the long ones, the short ones."""
    if not np.isfinite(values).all():
        raise ValueError("a state holds finite numbers only")
    whole = np.rint(np.clip(values, -2e3, 2e3) * MILLION)
    is_short = (whole / MILLION == values) & ((whole != 0) | ~np.signbit(values))  # minus zero is none of them
    parts = (np.packbits(is_short), _planes(values[~is_short]), _planes(whole[is_short].astype("<i4")))
    return len(values).to_bytes(4, "little") + b"".join(part.tobytes() for part in parts)


def _from_bytes(raw: bytes) -> tuple[FloatArray, int]:
    """Return the numbers, and where they end."""
    count = int.from_bytes(raw[:4], "little")
    if 4 * count > len(raw):
        raise ValueError("there are fewer numbers than it says")
    end = 4 + -(-count // 8)
    is_short = np.unpackbits(np.frombuffer(raw[4:end], dtype=np.uint8), count=count).astype(bool)
    values = np.empty(count)
    for chosen, kind in ((~is_short, "<f8"), (is_short, "<i4")):
        start, end = end, end + int(chosen.sum()) * np.dtype(kind).itemsize
        planes = np.frombuffer(raw[start:end], dtype=np.uint8).reshape(np.dtype(kind).itemsize, -1)
        values[chosen] = np.ascontiguousarray(planes.T).view(kind).ravel()
    values[is_short] /= MILLION
    if not np.isfinite(values).all():
        raise ValueError("a state holds finite numbers only")
    return values, end


def _planes(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return the first bytes of all numbers, then the second ones, and so on: those of one exponent stand together."""
    return values.view(np.uint8).reshape(-1, values.itemsize).T


def _inflated(data: bytes) -> bytes:
    inflater = zlib.decompressobj(zdict=DICTIONARY)
    raw = inflater.decompress(data, LARGEST)
    if not inflater.eof or inflater.unused_data:
        raise ValueError
    return raw


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN, Infinity, or whatever else JSON values are not to hold."""
    raise ValueError(name)
