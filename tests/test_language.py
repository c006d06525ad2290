"""Docs, docstrings, messages and names use the field's terms; `python -m tests.language` prints what is left."""

from collections import Counter

import pytest

from tests.language import ALLOWED, _phrases, identifier_parts, missing_search_words, package, places

# What was left per package when the glossary came: these numbers only go down, and end at 0.
MOST_LEFT: dict[str, int] = {}


def test_no_package_gains_an_old_word() -> None:
    left = Counter(package(each.path) for each in places())
    assert {name: count for name, count in left.items() if count > MOST_LEFT.get(name, 0)} == {}


def test_the_allowed_leftovers_are_few_and_each_has_a_reason() -> None:
    assert len(ALLOWED) <= 10
    assert all(reason for _, _, reason in ALLOWED)


def test_the_docs_hold_every_word_that_users_search_for() -> None:
    assert missing_search_words() == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("the row\n    votes on the next", "vote"),
        ("the classes are hardly told apart", "told apart"),
        ("labels have 2 % of the say", "say"),
        ("must have one value a row", "a row as a rate"),
        ("the share of class 1", "share"),
        ("the balance it was trained at", "balance"),
    ],
)
def test_an_old_word_is_found(text: str, word: str) -> None:
    assert [each.word for each in _phrases("docs/page.md", text, 1)] == [word]


@pytest.mark.parametrize(
    "text",
    [
        "the class balance moves",
        "they share no row",
        "it says that a row is wrong",
        "score a row",
        "works the same way",
    ],
)
def test_usual_english_is_not(text: str) -> None:
    assert list(_phrases("docs/page.md", text, 1)) == []


def test_names_are_read_part_by_part() -> None:
    assert identifier_parts("n_LabelShares") == {"n", "label", "shares"}
