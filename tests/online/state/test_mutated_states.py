"""A state of which anything was changed, its checksum computed again, is refused or harmless."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from obil.arrays import SUM_TOLERANCE, FloatArray
from obil.errors import InvalidStateError
from obil.flat_record import Layout, Record, arrays_of, views_of
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.stream_state import read_state, write_state
from tests.online.state.streams import VIEWED, go_on, rows_of, stream_of
from tests.thorough import repeats
from tests.trackers.cases import CASES

STREAMS = [(VIEWED, 2), *((name, size) for name, size in CASES if size <= 3)]
N_EACH = repeats(2_000, 100_000) // len(STREAMS) + 1
REALS = [np.nan, np.inf, 0.0, -0.0, 0.5, 1.0, 2.0, 5e-324, 1e-300, 1e-12, 1e-9, 1e6, 1e9, 1e15, 1e300]
WHOLES = [0, 1, 2, 3, 64, 65, 100, 127, 128, 400, 500, 2**31, 2**53, 2**53 + 1, 2**62, 2**63 - 1]


def change_bytes(rng: np.random.Generator, values: npt.NDArray[np.uint8], most: int) -> str:
    """Change a few bytes; return which."""
    places = rng.integers(values.size, size=int(rng.integers(1, most)))
    values[places] = rng.integers(256, size=len(places))
    return f"bytes {places.tolist()}"


def change_array(rng: np.random.Generator, name: str, values: npt.NDArray[Any]) -> str:
    """Change one number of an array, or all, or their order; return how."""
    place = np.unravel_index(int(rng.integers(values.size)), values.shape)
    how = ("one", "all", "near", "order")[int(rng.integers(4))]
    if how == "order":
        values[...] = rng.permutation(values.ravel()).reshape(values.shape)
    elif how == "near" and values.dtype.kind == "f":
        values[place] *= values.dtype.type(10.0 ** float(rng.integers(-8, 9)))
    elif how == "near":
        values[place] += int(rng.integers(-3, 4))
    else:
        known: list[Any] = REALS if values.dtype.kind == "f" else WHOLES
        with np.errstate(over="ignore"):  # a float32 becomes infinite
            values[place if how == "one" else ...] = known[int(rng.integers(len(known)))] * int(rng.choice([1, 1, -1]))
    return f"{how} of {name} at {[int(one) for one in place]}"


def change_record(rng: np.random.Generator, record: Record, memory: tuple[Any, ...]) -> str:
    """Change a few bytes or numbers of a record; return which."""
    if rng.random() < 0.3:
        return change_bytes(rng, record.reshape(1).view(np.uint8), 5)
    arrays = {name: values for name, values in arrays_of(memory).items() if values.size}
    names = rng.choice(sorted(arrays), size=int(rng.integers(1, 3)))
    return ", ".join(change_array(rng, name, arrays[name]) for name in names)


@pytest.mark.parametrize(("tracker", "n_classes"), STREAMS)
def test_a_mutated_state_is_refused_or_harmless(tracker: str, n_classes: int) -> None:
    online, rows = stream_of(tracker, n_classes), rows_of(tracker, n_classes)
    go_on(online, rows.part(0, 1_300), seed=0)
    online.forget(online.n_rows - 3)
    model, layout = online.model, online._layout
    saved = read_state(model, online.state())
    refused = 0
    for number in range(N_EACH):
        rng = np.random.default_rng([1, number])
        record, pending = saved.record_in(layout), np.frombuffer(saved.pending, np.uint8).copy()
        if rng.random() < 0.75:
            changed = change_record(rng, record, views_of(online._memory, record))
        else:
            head = slice(0, 96 if rng.random() < 0.5 else None)
            changed = f"pending {head}: {change_bytes(rng, pending[head], 4)}"
        state = write_state(model, saved.settings, layout, record, pending.tobytes())
        try:
            found = OnlineClassifier.from_state(model, state)
        except InvalidStateError:
            refused += 1
            continue
        try:
            assert_harmless(found, rows.part(1_300, 1_360), seed=number)
        except Exception as error:
            raise AssertionError(f"{tracker}, {n_classes} classes, mutation {number}: {changed}") from error
    assert 0.2 * N_EACH < refused < 0.95 * N_EACH  # or the mutations would have tested nothing


def assert_priors(priors: FloatArray) -> None:
    """The first may sum to 1 as badly as a prior that a user gives."""
    assert np.isfinite(priors).all()
    assert ((priors >= 0.0) & (priors <= 1.0 + SUM_TOLERANCE)).all()
    assert (abs(priors.sum(axis=1) - 1.0) <= SUM_TOLERANCE).all()


def assert_harmless(online: OnlineClassifier, rows: Any, *, seed: int) -> None:
    """Decide 60 rows, feed labels back and read everything that a stream says."""
    assert_priors(go_on(online, rows, seed=seed))
    last = online.n_rows - 1
    online.feedback(last, online.classes_[0])
    assert_priors(online.prior[None])
    assert online.history.n_rows == online.n_rows
    assert sum(bucket.n_rows for bucket in online.history.buckets()) == online.n_rows
    assert online.label_counts.pending >= 0
    if seed % 25 == 0:  # these take a hundred times as long
        online.explain()
        if online.positive is not None:
            online.performance()
    state = read_state(online.model, online.state())
    Layout.of(online._memory).unpack(state.record)  # still finite


def test_a_record_of_another_stream_fits_only_where_its_numbers_fit() -> None:
    """The same layout, every part from one of two streams: parts that saw other rows are refused."""
    one, other = (stream_of("SafeTracker", 2) for _ in range(2))
    go_on(one, rows_of("SafeTracker", 2).part(0, 600), seed=0)
    go_on(other, rows_of("SafeTracker", 2).part(0, 700), seed=1)
    mine, theirs = (read_state(online.model, online.state()) for online in (one, other))
    for name in one._layout.dtype.names or ():
        record = mine.record_in(one._layout)
        record[name] = theirs.record_in(one._layout)[name]
        state = write_state(one.model, mine.settings, one._layout, record, mine.pending)
        if name in ("tracker", "one_class"):  # which do not count rows of the stream: a new model starts them anew
            assert OnlineClassifier.from_state(one.model, state).n_rows == 600
            continue
        with pytest.raises(InvalidStateError, match="saw"):
            OnlineClassifier.from_state(one.model, state)
