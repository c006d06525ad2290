"""Decisions that wait for their labels come back from their block as they were, and cost few bytes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obil.errors import InvalidStateError
from obil.online.labels.pending_block import COUNTED, NONE, Pending, read_pending, write_pending

IDS = st.one_of(st.integers(-(2**127), 2**127), st.text(max_size=8).filter(lambda name: name.isprintable()))
HEAD_BYTES = 8 * (5 + len(COUNTED))


def pending_of(
    n_rows: int, n_classes: int = 2, *, next_row: int | None = 500, n_inputs: int = 0, seed: int = 0
) -> Pending:
    rng = np.random.default_rng(seed)
    ratios = rng.normal(size=(n_rows, n_classes)) * 10.0 ** rng.integers(-300, 300, size=(n_rows, n_classes))
    ratios[:, 0] = 0.0
    inputs = rng.uniform(-3.0, 3.0, (n_rows, n_inputs)).astype(np.float32)
    return Pending(next_row, ratios, inputs, rng.random(n_rows) < 0.5, {}, {}, dict.fromkeys(COUNTED, 0))


@settings(max_examples=200, deadline=None)
@given(
    n_rows=st.integers(0, 40),
    n_classes=st.integers(2, 5),
    n_inputs=st.integers(0, 3),
    ids=st.dictionaries(st.integers(0, 39), IDS, max_size=10),
    came=st.dictionaries(st.integers(0, 39), st.tuples(st.integers(0, 1), st.floats(1e-9, 1.0)), max_size=10),
    row=st.integers(40, 2**62 - 1),
)
def test_whatever_waits_comes_back_as_it_was(
    n_rows: int, n_classes: int, n_inputs: int, ids: dict[int, object], came: dict[int, tuple[int, float]], row: int
) -> None:
    first = row - n_rows
    named = {first + place: name for place, name in ids.items() if place < n_rows}
    known = {first + place: label for place, label in came.items() if place < n_rows}
    counts = dict(zip(COUNTED, [len(known) + 3, 1, 2, 3, 4, len(named) + 5], strict=True))
    pending = pending_of(n_rows, n_classes, next_row=row, n_inputs=n_inputs)._replace(
        ids=named, came=known, counts=counts
    )
    block = write_pending(pending)
    back = read_pending(block, n_classes=n_classes)
    assert back.next_row == row
    assert back.rows == range(first, row)
    assert back.log_ratios.tobytes() == pending.log_ratios.tobytes()
    assert back.inputs.tobytes() == pending.inputs.tobytes()
    assert back.alerts.tolist() == pending.alerts.tolist()
    assert (back.ids, back.came, back.counts) == (named, known, counts)
    assert {type(name) for name in back.ids.values()} <= {int, str}
    assert write_pending(back) == block


def test_a_stream_without_rows_has_no_next_one() -> None:
    block = write_pending(pending_of(0, next_row=None))
    assert np.frombuffer(block, "<i8")[0] == NONE
    back = read_pending(block, n_classes=2)
    assert back.next_row is None
    assert back.rows == range(0)
    assert back.log_ratios.shape == (0, 2)
    with pytest.raises(InvalidStateError, match="rows are not those of a stream"):
        read_pending(write_pending(pending_of(3, next_row=None)), n_classes=2)


def test_a_row_takes_a_number_for_each_class_beyond_the_first_and_a_bit() -> None:
    for n_classes in (2, 3, 7):
        block = write_pending(pending_of(80, n_classes))
        assert len(block) == HEAD_BYTES + 80 * 8 * (n_classes - 1) + 10
    labelled = pending_of(80)._replace(came={430: (1, 0.5)}, counts=dict.fromkeys(COUNTED, 1))
    assert len(write_pending(labelled)) == len(write_pending(pending_of(80))) + 24


def test_numbers_are_little_endian_and_the_column_of_class_0_is_left_out() -> None:
    ratios = np.array([[-0.0, 1.5], [0.0, -2.0]])
    pending = pending_of(2, next_row=2)._replace(log_ratios=ratios)
    block = write_pending(pending)
    assert block[HEAD_BYTES : HEAD_BYTES + 16] == np.array([1.5, -2.0], dtype="<f8").tobytes()
    assert read_pending(block, n_classes=2).log_ratios.tobytes() == np.array([[0.0, 1.5], [0.0, -2.0]]).tobytes()


def test_a_block_of_other_classes_is_refused() -> None:
    for n_classes in (2, 4):
        with pytest.raises(InvalidStateError, match="wait for labels are damaged"):
            read_pending(write_pending(pending_of(20, 3)), n_classes=n_classes)
