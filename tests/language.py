"""Count the words that the project's glossary replaces, and find the words that users search for.

    python -m tests.language                  one line per package
    python -m tests.language src/obil/online  every place in the files whose path starts so

Read are the docs, and in Python files docstrings, comments, strings and identifiers (each identifier once per file).
"""

import io
import re
import sys
import token
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PYTHON = ("src", "tests", "experiments", "benchmarks", "examples", "deploy")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "docs/results/*.md")
PAGE_TEXTS = ("src/obil/service/page/*.js", "src/obil/service/page/*.html", "src/obil/service/page/*.css")
TEXT_TOKENS = {token.STRING, tokenize.COMMENT, getattr(token, "FSTRING_MIDDLE", token.STRING)}
SELF = ("tests/language.py", "tests/test_language.py")

SEARCH_WORDS = (
    "label shift", "prior shift", "prevalence", "quantification", "concept drift", "covariate shift",
    "credible interval", "delayed labels", "class imbalance", "calibration", "resampling", "threshold",
    "categorical", "out-of-fold",
)  # fmt: skip

_PER = r"an? (row|key|class|column|stream|member|segment|batch|fold|label|feature|tree|view)\b"
_PER += r"(?! ?(\{|column|is\b|was\b))"
_NO_NOUN = "is|by|as|of|in|from|than|for|to|at|that|about|with|names|needs|where|likely"
OLD_PHRASES = {
    "witness": r"\bwitness(es)?\b",
    "opinion": r"\bopinions?\b",
    "silence": r"\bsilences?\b",
    "honest": r"\b(dis)?honest(y|ly)?\b",
    "told apart": r"\b(told|tells?|telling)( \w+){0,3} apart\b",
    "prior of now": r"\bpriors? of now\b|\bof now\b",
    "vote": r"\bvot(e|es|ed|ing)\b",
    "say": r"\b(a|its|their|no|more|less|much|any|the|of|full) say\b(?! (that|what|how|so|why|where))|_say\b",
    "says nothing": r"\b(weighs?|weighed|says?) nothing\b",
    "watch": r"\bwatch(es|ed|ing)?\b",
    "object": r"\bobject(s|ed|ing)? to\b|\bobjections?\b|\bmonitor( that)? object(s|ed)?\b|\bobjected\b",
    "weigher": r"\bweighers?\b",
    "shelf": r"\b(shelf|shelves)\b",
    "house": r"\bhouses?\b(?! prices?\b)|\brooms\b",
    "give or take": r"\bgive or take\b",
    "go on": r"\b(go|goes|going|went|gone) on\b(?! (to|the|with a)\b)",
    "words": r"\bwords?\b",
    "gaps": r"\b(with|and|or|has|no|of|for|words,|codes,) gaps\b|\bgaps (and|or|in|of|are|become|handled)\b",
    "share": r"\bshares\b(?! (a|an|one|no|the|its|all)\b)|\bshare\b(?! (a|an|one|no|the|its|all|memory)\b)"
    r"|\b(a|the|its|each|every) shares?\b",
    "balance": r"(?<!class )(?<!classes' )(?<!class-)\bbalances?\b(?! (lag|sensitivity|the|both|two)\b)",
    "way": r"(?<!the same )(?<!this )(?<!either )(?<!that )(?<!by the )(?<!on the )(?<!on its )(?<!on their )"
    r"(?<!of the )(?<!all the )(?<!the other )\bways?\b",
    "picture": r"\bpictures?\b",
    "how sure": r"\bhow sure\b",
    "praise": r"\bprais(e|es|ed|ing)\b",
    "may it be deployed": r"\bmay it be\b",
    "speak": r"\b(speaks?|spoke|spoken)\b",
    "wish": r"\bwish(es|ed)?\b",
    "classes themselves": r"\bclasses themselves\b",
    "a row as a rate": rf"(\b(one|two|three|some|few|more|many|\d[\d,.]*)|\}}) "
    rf"([\w-]+ ){{0,2}}(?!({_NO_NOUN})\b)\w+ {_PER}"
    rf"|\b(cost|value|probability|uniform) {_PER}|\}} {_PER}",
}
OLD_IDENTIFIERS = {
    "witness", "witnesses", "opinion", "opinions", "silence", "honest", "vote", "votes", "voted", "voting",
    "watch", "watches", "watched", "watching", "ground", "weigher", "shelf", "house", "word", "words",
    "gap", "gaps", "share", "shares", "balance", "balances", "way", "ways", "picture", "pictures", "praise", "wish",
    "wished", "speak", "speaks",
}  # fmt: skip
PHRASES = {name: re.compile(form.replace(" ", r"\s"), re.IGNORECASE) for name, form in OLD_PHRASES.items()}
# a gap is a missing value only where rows are encoded; elsewhere it is a difference
MISSING_VALUES = ("datasets", "serving", "networks", "estimators")

# Left in place: path, old word, reason. At most ten.
ALLOWED: tuple[tuple[str, str, str], ...] = (
    ("experiments/vocabulary.py", "words", "the words of a text, as in any vocabulary"),
    ("tests/experiments/test_vocabulary.py", "words", "the words of a text, as in any vocabulary"),
    ("experiments/efficiency_page.py", "vote", "a key of the committed results"),
    ("experiments/theory_rows/ratios.py", "balance", "a setting recorded in the committed results"),
)


class Place(NamedTuple):
    """One old word in one file."""

    path: str
    line: int
    word: str
    text: str


def package(path: str) -> str:
    """Return what a file is counted under: its package, or `docs`."""
    parts = path.split("/")
    if parts[0] == "src":
        return f"src/{parts[2].removesuffix('.py')}"
    if parts[0] == "tests":
        return f"tests/{parts[1].removeprefix('test_').removesuffix('.py')}" if len(parts) > 2 else "tests"
    return "docs" if path.endswith(".md") else parts[0]


def identifier_parts(name: str) -> set[str]:
    """Return the lower-case words that a name is made of.

    >>> sorted(identifier_parts("LabelShares_now"))
    ['label', 'now', 'shares']
    """
    return {part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def _phrases(path: str, text: str, line: int) -> Iterator[Place]:
    text = re.sub(r"[ \t]*\n[ \t]*", "\n", text)  # so that a phrase is found across the end of a line
    for word, form in PHRASES.items():
        if word == "gaps" and path.endswith((".js", ".css")):
            continue
        for found in form.finditer(text):
            start = text.rfind("\n", 0, found.start()) + 1
            end = text.find("\n", found.end())
            shown = text[start : end if end >= 0 else None].strip()
            yield Place(path, line + text.count("\n", 0, found.start()), word, shown[:160])


def _identifier(path: str, name: str, line: int) -> Iterator[Place]:
    old = identifier_parts(name) & OLD_IDENTIFIERS
    if not any(f"/{part}/" in path for part in MISSING_VALUES):
        old -= {"gap", "gaps"}
    if (name.endswith("_say") and not name.startswith("test_")) or (
        name == "say" and "/cli/" not in path
    ):  # `say` prints in the command line
        old.add("say")
    if old:
        yield Place(path, line, f"name: {min(old)}", name)


def _python(path: str, text: str) -> Iterator[Place]:
    seen, texts, line = set(), "", 1  # `texts`: what is not code, each piece in the line it has in the file
    results = path.startswith(("experiments", "tests/experiments"))  # JSON files, whose keys stay
    for piece in tokenize.generate_tokens(io.StringIO(text).readline):
        if piece.type == token.NAME and piece.string not in seen:
            seen.add(piece.string)
            yield from _identifier(path, piece.string, piece.start[0])
        elif piece.type in TEXT_TOKENS and not (results and " " not in piece.string):
            texts += "\n" * (piece.start[0] - line) + " \0 " + piece.string
            line = piece.end[0]
    yield from _phrases(path, texts, 1)


def _files() -> Iterator[Path]:
    for folder in PYTHON:
        yield from sorted((ROOT / folder).rglob("*.py"))
    for form in (*PAGES, *PAGE_TEXTS):
        yield from sorted(ROOT.glob(form))


@cache
def places() -> tuple[Place, ...]:
    """Return every old word that is left and not allowed."""
    found: list[Place] = []
    for file in _files():
        path, text = str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")
        if path not in SELF:
            found += _python(path, text) if path.endswith(".py") else _phrases(path, text, 1)
    return tuple(each for each in found if not _is_allowed(each))


def _is_allowed(place: Place) -> bool:
    word = place.word.removeprefix("name: ").rstrip("s")
    return any(place.path == path and word == allowed.rstrip("s") for path, allowed, _ in ALLOWED)


def missing_search_words() -> list[str]:
    """Return the search words that no page of the docs holds."""
    text = " ".join(file.read_text(encoding="utf-8") for form in PAGES[:-1] for file in ROOT.glob(form))
    plain = re.sub(r"\s+", " ", text).lower()
    return [word for word in SEARCH_WORDS if word not in plain]


def main(start: str = "") -> None:
    """Print the counts, or the places in the files whose path starts so."""
    if start:
        chosen = [each for each in places() if each.path.startswith(start)]
        for each in chosen:
            print(f"{each.path}:{each.line}: {each.word}: {each.text}")
        print(len(chosen))
        return
    counts = Counter(package(each.path) for each in places())
    for name in sorted(counts):
        words = Counter(each.word for each in places() if package(each.path) == name)
        print(f"{counts[name]:5}  {name:24}", ", ".join(f"{word} {n}" for word, n in words.most_common(6)))
    print(f"{counts.total():5}  in all; search words that the docs lack: {missing_search_words() or 'none'}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
