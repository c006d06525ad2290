import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obil.service.http.request_bodies import MAX_DEPTH, read_json
from obil.service.refusals import BadInputError, NotUnderstoodError, RefusedError, TooLargeError

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_reads_what_the_standard_library_wrote(value: object) -> None:
    assert read_json(json.dumps(value).encode()) == value


@given(st.binary(max_size=60))
def test_reads_any_bytes_or_refuses_them(body: bytes) -> None:
    try:
        expected = json.loads(body.decode())
    except (UnicodeDecodeError, ValueError):
        with pytest.raises(RefusedError):
            read_json(body)
        return
    try:
        assert read_json(body) == expected
    except NotUnderstoodError:
        assert b"NaN" in body or b"Infinity" in body or b'"' in body


@pytest.mark.parametrize(
    ("depth", "refused"), [(MAX_DEPTH, False), (MAX_DEPTH + 1, True), (400, True), (200_000, True)]
)
def test_refuses_what_is_nested_deeper_than_the_limit(depth: int, refused: bool) -> None:
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        body = opening * depth + b"1" + closing * depth
        if refused:
            with pytest.raises(NotUnderstoodError, match="deep"):
                read_json(body, max_containers=depth)
        else:
            assert read_json(body) == json.loads(body)


def test_takes_brackets_inside_text_for_text() -> None:
    body = json.dumps({"note": "[" * 50, "rows": [[1]] * 20}).encode()

    assert read_json(body)["note"] == "[" * 50


def test_refuses_more_objects_and_arrays_than_rows_can_have_without_reading_them() -> None:
    for body in (b'{"rows":[' + b"[]," * 2_600_000 + b"[]]}", b'{"rows":[' + b'{"a":[1]},' * 700 + b"[]]}"):
        started = time.perf_counter()
        with pytest.raises(TooLargeError, match="1,000 objects and arrays"):
            read_json(body)
        assert time.perf_counter() - started < 1.0

    assert read_json(json.dumps({"note": '\\"[{' * 2_000}).encode())["note"]


@pytest.mark.parametrize("text", [b'"' * 7_900_000, b'\\"' * 3_900_000, b'"' + b'\\"' * 3_900_000, b"[" * 7_900_000])
def test_looks_at_no_byte_of_a_broken_body_again_and_again(text: bytes) -> None:
    started = time.perf_counter()
    with pytest.raises(RefusedError):
        read_json(b"[" * 2_000 + text)
    assert time.perf_counter() - started < 5.0  # a search from each quote to the end would take hours


def test_names_the_key_that_comes_twice() -> None:
    with pytest.raises(NotUnderstoodError, match="'age' twice") as refused:
        read_json(b'{"rows": [{"age": 1, "sum": 2, "age": 3}]}')

    assert refused.value.where == "age"


def test_finds_the_key_that_comes_twice_among_a_hundred_thousand() -> None:
    keys = ",".join(f'"{number}": 0' for number in [*range(100_000), 99_999])
    started = time.perf_counter()
    with pytest.raises(NotUnderstoodError, match="'99999' twice"):
        read_json(f"{{{keys}}}".encode())
    assert time.perf_counter() - started < 5.0  # a search for each of them would take minutes


def test_refuses_half_a_surrogate_pair_and_takes_a_whole_one() -> None:
    assert read_json(b'["\\ud83d\\ude00"]') == ["\U0001f600"]
    with pytest.raises(NotUnderstoodError, match="Unicode"):
        read_json(b'["\\uD83D"]')


def test_refuses_a_number_of_thousands_of_digits() -> None:
    with pytest.raises(BadInputError, match="digits"):
        read_json(b"[" + b"1" * 5_000 + b"]")
