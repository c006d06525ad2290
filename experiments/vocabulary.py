"""Turn texts into rows of token numbers with a vocabulary learned from them."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from obil.arrays import IntArray
from obil.errors import InvalidInputError

PADDING, UNKNOWN = 0, 1  # the token numbers of nothing, and of words that are not in the vocabulary
LONGEST_NUMBER = 12  # longer ones count as this long
_TOKENS = re.compile(r"\d+|[^\W\d_]+(?:'[^\W\d_]+)?|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words that have a number of their own, the most frequent first, and the length of a row.

    >>> words = Vocabulary.learn(["call now now", "call me"], length=4, min_count=2)
    >>> words.words
    ('call', 'now')
    >>> words.encode(["Call me now!", ""])
    array([[2, 1, 3, 1],
           [0, 0, 0, 0]])
    """

    words: tuple[str, ...]  # word i has the number i + 2
    length: int
    _numbers: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if type(self.length) is not int or self.length < 1:
            raise InvalidInputError(f"the length of a row must be a positive whole number, got {self.length!r}")
        if {type(word) for word in self.words} - {str} or len(set(self.words)) != len(self.words):
            raise InvalidInputError("the words of a vocabulary must be distinct texts")
        numbers = {word: number for number, word in enumerate(self.words, start=UNKNOWN + 1)}
        object.__setattr__(self, "_numbers", numbers)

    @classmethod
    def learn(cls, texts: Iterable[str], *, size: int = 5_000, length: int = 40, min_count: int = 2) -> "Vocabulary":
        """Return the vocabulary of texts: at most `size` numbers, for words seen at least `min_count` times.

        Learn it from training texts only. Ties are broken by the alphabet, so the same texts give the same numbers.
        """
        if size < UNKNOWN + 1:
            raise InvalidInputError(f"size must be at least {UNKNOWN + 1}, got {size!r}")
        counts: Counter[str] = Counter()
        for text in _as_texts(texts):
            counts.update(tokens_of(text))
        ranked = sorted(counts.items(), key=lambda counted: (-counted[1], counted[0]))
        kept = [word for word, count in ranked if count >= min_count]
        return cls(tuple(kept[: size - UNKNOWN - 1]), length)

    @property
    def size(self) -> int:
        """How many token numbers there are, padding and unknown included."""
        return len(self.words) + UNKNOWN + 1

    def encode(self, texts: Iterable[str]) -> IntArray:
        """Return token numbers, (n, length): the first `length` tokens of each text, then padding."""
        rows = [
            [self._numbers.get(token, UNKNOWN) for token in tokens_of(text)[: self.length]] for text in _as_texts(texts)
        ]
        encoded = np.full((len(rows), self.length), PADDING, dtype=np.int64)
        for number, row in enumerate(rows):
            encoded[number, : len(row)] = row
        return encoded

    def to_json(self) -> dict[str, Any]:
        """Return what a file has to keep."""
        return {"words": list(self.words), "length": self.length}

    @classmethod
    def from_json(cls, saved: Any) -> "Vocabulary":
        """Return the vocabulary that `to_json` wrote, or refuse anything else."""
        if not isinstance(saved, Mapping) or not isinstance(saved.get("words"), list):
            raise InvalidInputError("a vocabulary is saved as its words and the length of a row")
        return cls(tuple(saved["words"]), saved.get("length"))  # type: ignore[arg-type]  # checked by the class


def tokens_of(text: str) -> list[str]:
    """Return the words, signs and numbers of a text; a number is told by its length alone.

    >>> tokens_of("Don't text 87121: £100 prize!")
    ["don't", 'text', '00000', ':', '£', '000', 'prize', '!']
    """
    found = _TOKENS.findall(text.lower())
    return ["0" * min(len(token), LONGEST_NUMBER) if token.isdecimal() else token for token in found]


def _as_texts(texts: Iterable[str]) -> Sequence[str]:
    if isinstance(texts, str | bytes):
        raise InvalidInputError("texts must be a list of texts, got a single one")
    listed = list(texts)
    for number, text in enumerate(listed):
        if not isinstance(text, str):
            raise InvalidInputError(f"texts must be texts, got {type(text).__name__} in place {number}")
    return listed
