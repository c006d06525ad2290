import json
import math
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import obil
from obil.errors import InvalidStateError
from obil.online.state.packed_state import DICTIONARY, MAGIC, pack_state, pack_stream, unpack_state, unpack_stream

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)


@pytest.fixture(scope="module")
def model() -> obil.RatioClassifier:
    rng = np.random.default_rng(0)
    labels = (rng.random(2_000) < 0.1).astype(int)
    rows = rng.normal(size=(2_000, 3)) + labels[:, None] * np.array([2.0, 0.6, 0.4])
    return obil.RatioClassifier(LogisticRegression(), views=True, random_state=0).fit(rows, labels)


def labelled_stream(model: obil.RatioClassifier, n_rows: int) -> obil.OnlineClassifier:
    online, rng = obil.OnlineClassifier(model), np.random.default_rng(1)
    online.decide_many(rng.normal(size=(n_rows, 3)), ids=[f"~{i} 0.123456789" for i in range(n_rows)])
    for i in range(0, n_rows, 20):
        online.feedback(f"~{i} 0.123456789", int(rng.random() < 0.1), propensity=0.3)
    return online


@given(PLAIN)
@settings(max_examples=300, deadline=None)
def test_gives_back_any_plain_value_with_its_types(value):
    back = unpack_state(pack_state({"value": value}))["value"]
    assert json.dumps(back) == json.dumps(value)


def test_a_stream_goes_on_bit_for_bit(model):
    online = labelled_stream(model, 700)
    back = unpack_stream(model, pack_stream(online))
    assert back.state() == online.state()
    rows = np.random.default_rng(2).normal(size=(100, 3))
    np.testing.assert_array_equal(back.decide_many(rows).effective_priors, online.decide_many(rows).effective_priors)


def test_a_labelled_stream_takes_less_than_seven_kilobytes_beside_its_pending_labels(model):
    state = labelled_stream(model, 2_000).state()
    state["labels"] = None
    assert len(pack_state(state)) < 7_000


def test_a_stream_of_200_rows_takes_less_than_five_kilobytes(model):
    online = obil.OnlineClassifier(model, horizon=0)
    online.decide_many(np.random.default_rng(1).normal(size=(200, 3)))
    assert len(pack_stream(online)) < 5_000


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"{}" + data,
        lambda data: data[:-3],
        lambda data: data + b"x",
        lambda data: data[:40] + b"\0\0\0\0" + data[44:],
        lambda data: MAGIC + _deflated(b"\xff\xff\xff\xff{}"),
        lambda data: MAGIC + _deflated(b"\0\0\0\0" + b'["~"]'),
        lambda data: MAGIC + _deflated(b"\0\0\0\0[NaN]"),
        lambda data: MAGIC + _deflated(b"\0\0\0\0[1.5]"),
        lambda data: MAGIC + _deflated(b"\0\0\0\0" + b"[" * 100_000),
        lambda data: MAGIC + _deflated(_one_long(math.nan) + b'["~"]'),
        lambda data: MAGIC + _deflated(_one_long(1 / 3) + b'["~x"]'),
        lambda data: MAGIC + _deflated(_one_long(1 / 3) + b'["~2"]'),
        lambda data: MAGIC + _deflated(_one_long(1 / 3) + b"[]"),
    ],
)
def test_says_that_a_damaged_state_is_damaged(damage):
    with pytest.raises(InvalidStateError):
        unpack_state(damage(pack_state({"prior": [1 / 3, 2 / 3]})))


def _deflated(raw: bytes) -> bytes:
    deflater = zlib.compressobj(zdict=DICTIONARY)
    return deflater.compress(raw) + deflater.flush()


def _one_long(number: float) -> bytes:
    """Return how one number of eight bytes stands before the text."""
    return b"\1\0\0\0" + b"\0" + np.array([number]).view(np.uint8).tobytes()


def test_reads_what_the_damaged_states_above_are_made_from():
    assert unpack_state(MAGIC + _deflated(_one_long(1 / 3) + b'["~"]')) == [1 / 3]


def test_tells_numbers_texts_and_shapes_apart():
    values = [-0.0, 0.0, 0.1, 12345.6789, 1e-6, 1e-7, 2000.0, 2000.000001, -3.25, 5e-324, 1.7e308]
    state = {
        "few": values, "table": [[values[i], 0.5] for i in range(11)], "ragged": [[0.5], [0.5, 0.25]],
        "deep": [[[0.5, 1.5]], [[2.5, 3.5]]], "texts": ["~", "~~", "~2", "~2,2", "2"], "same": ["~1", "~1"],
        "mixed": [1, 1.0, True, None, "~"], "nothing": [[], []], "single": 2.0, "wide": np.float64(0.25),
    }  # fmt: skip
    back = unpack_state(pack_state(state))
    assert json.dumps(back) == json.dumps(state)


def test_refuses_to_pack_what_is_no_number():
    with pytest.raises(ValueError, match="finite"):
        pack_state({"prior": [math.inf]})
