"""A vocabulary turns texts into the same numbers every time, and survives its file."""

import doctest
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import vocabulary
from experiments.vocabulary import PADDING, UNKNOWN, Vocabulary, tokens_of
from obil.errors import InvalidInputError

TEXTS = ["Call 0800 now!", "call me at 10", "now, not later", "me? NOW"]


def test_the_most_frequent_words_come_first_and_ties_go_by_the_alphabet() -> None:
    words = Vocabulary.learn(TEXTS, min_count=2)
    assert words.words == ("now", "call", "me")
    assert words.size == 5
    assert Vocabulary.learn(reversed(TEXTS), min_count=2) == words


def test_size_counts_padding_and_unknown() -> None:
    assert Vocabulary.learn(TEXTS, size=3, min_count=1).words == ("now",)
    assert Vocabulary.learn(TEXTS, size=2, min_count=1).words == ()


def test_texts_are_cut_and_padded() -> None:
    words = Vocabulary(("now", "call", "me"), 4)
    expected = [[3, 4, 2, UNKNOWN], [PADDING] * 4, [2, 2, 2, 2]]
    assert words.encode(["CALL me now please", "  ", "now now now now now"]).tolist() == expected
    assert words.encode([]).shape == (0, 4)
    assert words.encode(["me"]).dtype == np.int64


def test_numbers_are_told_by_their_length() -> None:
    assert tokens_of("87121 07 and 99999999999999999") == ["00000", "00", "and", "0" * 12]


@given(st.lists(st.text(), max_size=5))
def test_any_texts_give_numbers_in_range_also_after_json(texts: list[str]) -> None:
    words = Vocabulary.learn(texts, min_count=1, length=6)
    again = Vocabulary.from_json(json.loads(json.dumps(words.to_json())))
    assert again == words
    rows = again.encode(texts)
    assert rows.shape == (len(texts), 6)
    assert ((rows >= 0) & (rows < words.size)).all()
    assert not (rows == UNKNOWN).any()
    np.testing.assert_array_equal(rows, words.encode(texts))


@pytest.mark.parametrize("texts", ["one text", b"bytes", ["a", None], [1]])
def test_what_is_no_list_of_texts_is_refused(texts: object) -> None:
    with pytest.raises(InvalidInputError, match="texts must be"):
        Vocabulary.learn(texts)
    with pytest.raises(InvalidInputError, match="texts must be"):
        Vocabulary(("a",), 3).encode(texts)


@pytest.mark.parametrize(
    "saved",
    [
        None, [], {}, {"words": "ab", "length": 3}, {"words": ["a", "a"], "length": 3}, {"words": [1], "length": 3},
        {"words": [["a"]], "length": 3}, {"words": ["a"], "length": 0}, {"words": ["a"], "length": True},
        {"words": ["a"], "length": 2.0}, {"words": ["a"]},
    ],
)  # fmt: skip
def test_what_is_no_vocabulary_is_refused(saved: object) -> None:
    with pytest.raises(InvalidInputError):
        Vocabulary.from_json(saved)


def test_a_size_without_room_for_unknown_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="size must be"):
        Vocabulary.learn(TEXTS, size=1)


def test_the_examples_of_the_docstrings_hold() -> None:
    assert doctest.testmod(vocabulary).failed == 0
