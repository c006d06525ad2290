"""A memory lies in one record as it is, a layout names where, and bytes that are no such record are refused."""

import zlib
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obil.errors import InvalidStateError
from obil.flat_record import Layout, arrays_of, copy_into, in_record, pack, views_of
from tests.online.bits import lies_in


class Inner(NamedTuple):
    """A part."""

    rows: Any
    weights: Any


class Outer(NamedTuple):
    """A memory of arrays, of a part that is a memory, and of one that may be missing."""

    sums: Any
    inner: Any
    seen: Any
    extra: Any


def memory_of(*, seed: int = 0, extra: bool = True) -> Outer:
    rng = np.random.default_rng(seed)
    return Outer(
        sums=rng.normal(size=(2, 3)),
        inner=Inner(rng.integers(0, 9, size=4), rng.normal(size=(3, 2)).astype(np.float32)),
        seen=rng.integers(0, 9, size=1),
        extra=rng.normal(size=(2, 0, 3)) if extra else None,
    )


def same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    mine, theirs = arrays_of(one), arrays_of(other)
    return mine.keys() == theirs.keys() and all(mine[name].tobytes() == theirs[name].tobytes() for name in mine)


def test_a_layout_holds_each_array_at_its_place_and_no_missing_part() -> None:
    layout = Layout.of(memory_of())
    assert layout.dtype.itemsize == 8 * (6 + 4 + 3 + 1)
    assert layout.dtype.names == ("sums", "inner", "seen", "extra")
    assert layout.dtype["inner"].fields is not None
    assert list(layout.dtype["inner"].fields) == ["rows", "weights"]
    assert layout.dtype["sums"].base == np.dtype("<f8")
    assert layout.dtype["sums"].shape == (2, 3)
    assert Layout.of(memory_of(extra=False)).dtype.names == ("sums", "inner", "seen")
    assert len(layout.hash) == 8


def test_numbers_are_little_endian_whatever_the_memory_holds() -> None:
    class One(NamedTuple):
        sums: Any

    big = One(np.array([1.5, -2.0], dtype=">f8"))
    views, record = in_record(big)
    assert record.tobytes() == np.array([1.5, -2.0], dtype="<f8").tobytes()
    assert views.sums.tolist() == [1.5, -2.0]
    assert Layout.of(big).hash == Layout.of(One(np.zeros(2))).hash


def test_layouts_of_the_same_fields_kinds_and_shapes_have_one_name() -> None:
    layout = Layout.of(memory_of())
    assert Layout.of(memory_of(seed=1)) is layout
    sums, inner, seen, extra = memory_of()
    others = [
        memory_of(extra=False),
        Outer(sums[:1], inner, seen, extra),
        Outer(sums.astype(np.int64), inner, seen, extra),
        Outer(sums.T, inner, seen, extra),
        Outer(sums, seen, inner, extra),
        Outer(sums, inner._replace(weights=inner.weights.reshape(2, 3)), seen, extra),
    ]
    hashes = {Layout.of(other).hash for other in others}
    assert len(hashes) == len(others)
    assert layout.hash not in hashes

    class Renamed(NamedTuple):
        totals: Any
        inner: Any
        seen: Any
        extra: Any

    assert Layout.of(Renamed(sums, inner, seen, extra)).hash != layout.hash


def test_views_lie_in_the_record_and_the_memory_that_was_copied_is_left_alone() -> None:
    memory = memory_of()
    before = memory.sums.copy()
    views, record = in_record(memory)
    assert isinstance(views, Outer)
    assert isinstance(views.inner, Inner)
    assert same(views, memory)
    for values in arrays_of(views).values():
        assert values.size == 0 or lies_in(values, record)
        assert values.flags.c_contiguous
        assert values.flags.aligned
        assert values.flags.writeable
    views.sums[1, 2] = 7.0
    views.inner.rows[0] = -3
    assert record["sums"][1, 2] == 7.0
    assert record["inner"]["rows"][0] == -3
    assert memory.sums.tolist() == before.tolist()
    other = record.copy()
    other["sums"] = 0.0
    assert views.sums[1, 2] == 7.0


def test_a_missing_part_stays_missing() -> None:
    views, record = in_record(memory_of(extra=False))
    assert views.extra is None
    assert views_of(views, record).extra is None
    assert "extra" not in arrays_of(views)
    target, _ = in_record(memory_of(seed=1, extra=False))
    copy_into(views, target)
    assert same(views, target)


def test_the_records_of_many_are_one_array() -> None:
    memory = memory_of()
    layout = Layout.of(memory)
    records = np.zeros(5, layout.dtype)
    for number in range(5):
        copy_into(memory_of(seed=number), views_of(memory, records[number : number + 1].reshape(())))
    for number in range(5):
        assert same(views_of(memory, records[number : number + 1].reshape(())), memory_of(seed=number))


def test_arrays_are_named_by_their_parts() -> None:
    assert list(arrays_of(memory_of())) == ["sums", "inner.rows", "inner.weights", "seen", "extra"]


def test_an_array_that_fills_no_whole_units_is_refused() -> None:
    class Odd(NamedTuple):
        flags: Any

    for values in (np.zeros(3, dtype=bool), np.zeros(1, dtype=np.float32)):
        with pytest.raises(TypeError, match="whole units"):
            Layout.of(Odd(values))
    assert Layout.of(Odd(np.zeros(16, dtype=bool))).dtype.itemsize == 16


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 1.0))
def test_a_packed_record_comes_back_as_it_was(seed: int, used: float) -> None:
    memory, rng = memory_of(seed=seed), np.random.default_rng(seed)
    for values in arrays_of(memory).values():
        values[rng.random(values.shape) >= used] = 0
    if used > 0.5:
        memory.sums[0, 0] = -0.0
        memory.inner.weights[0, 0] = np.nan
    layout = Layout.of(memory)
    _, record = in_record(memory)
    data = pack(record)
    back = layout.unpack(data)
    assert back.tobytes() == record.tobytes()
    assert back.flags.writeable
    assert pack(back) == data


def test_a_record_that_would_fill_the_memory_is_refused() -> None:
    layout = Layout.of(memory_of())
    with pytest.raises(InvalidStateError, match="not whole"):
        layout.unpack(zlib.compress(bytes(1 << 28)))  # a quarter of a gigabyte in a quarter of a megabyte


def test_bytes_that_are_no_whole_record_are_refused() -> None:
    layout = Layout.of(memory_of())
    _, record = in_record(memory_of())
    data = pack(record)
    for cut in range(len(data)):
        with pytest.raises(InvalidStateError, match="not whole"):
            layout.unpack(data[:cut])
    for rest in (b"\0", bytes(8), data):
        with pytest.raises(InvalidStateError, match="not whole"):
            layout.unpack(data + rest)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused_where_they_cannot_stand_for_a_missing_one(value: float) -> None:
    layout = Layout.of(memory_of())
    views, record = in_record(memory_of())
    views.inner.weights[0, 0] = value  # float32: the parts look themselves
    views.inner.rows[0] = np.array([value]).view(np.int64)[0]  # whole numbers may have any bits
    assert layout.unpack(pack(record)).tobytes() == record.tobytes()
    views.sums[1, 2] = value
    with pytest.raises(InvalidStateError, match="finite"):
        layout.unpack(pack(record))
