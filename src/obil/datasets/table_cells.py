"""Read the cells of a real-life table: its delimiter, its header, its missing values and its numbers."""

import csv
import difflib
import re
from collections.abc import Collection, Sequence

from obil.errors import InvalidInputError

DELIMITERS = (",", ";", "\t", "|")
MISSING = frozenset({"", "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null", "?"})
_NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?)", re.ASCII | re.IGNORECASE)
_NO_DIGITS = re.compile(r"\D")
_CURRENCY = r"(?:\s?(?:[$€£¥₹]|USD|EUR|GBP|CHF)\s?)"
_FORMATTED = {
    decimal: re.compile(
        rf"(?P<sign>[+-]?{_CURRENCY}?|{_CURRENCY}[+-])(?P<whole>[0-9]{{1,3}}(?:(?P<mark>[{marks}])[0-9]{{3}})"
        rf"(?:(?P=mark)[0-9]{{3}})*|[0-9]+)(?:[{decimal}](?P<fraction>[0-9]*))?{_CURRENCY}?"
    )
    for decimal, marks in ((".", ", \u00a0\u202f'\u2019"), (",", ". \u00a0\u202f'\u2019"))
}


def number(cell: str, *, decimal: str = ".") -> float | None:
    """Return the number a cell holds, or None; thousands are left alone.

    >>> number("3.14"), number("3,14", decimal=","), number("1.234,5", decimal=","), number("12 kg")
    (3.14, 3.14, None, None)
    """
    if decimal == ",":
        if "." in cell or cell.count(",") > 1:
            return None
        cell = cell.replace(",", ".")
    return float(cell) if _NUMBER.fullmatch(cell) else None


def formatted_number(cell: str, *, decimal: str = ".") -> float | None:
    """Return the number of a cell that is written for people, or None: a currency sign, marks between thousands.

    >>> formatted_number("$1,234.50"), formatted_number("-1.234,5 €", decimal=","), formatted_number("1 234")
    (1234.5, -1234.5, 1234.0)
    >>> formatted_number("1,23"), formatted_number("12 kg")
    (None, None)
    """
    found = _FORMATTED[decimal].fullmatch(cell)
    if found is None:
        return None
    value = float(f"{_NO_DIGITS.sub('', found['whole'])}.{found['fraction'] or 0}")
    return -value if "-" in found["sign"] else value


def sniff_delimiter(lines: Sequence[str], *, names: Collection[str] = ()) -> str:
    """Return the delimiter of a table from its header and first lines; `names` are columns it should have.

    >>> sniff_delimiter(["weight;height", "3,14;2,72"])
    ';'
    """
    best, best_score = "", (-1.0, -1.0, 0.0)
    for delimiter in DELIMITERS:
        try:
            rows = [row for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True) if row]
        except csv.Error:  # a field too long to be one
            continue
        if not rows:
            break
        known = len(set(names).intersection(cell.strip() for cell in rows[0]))
        width = len(rows[0])
        regular = sum(len(row) == width for row in rows) / len(rows)
        # a header of one field is no evidence, unless every other reading is worse
        score = (float(known), regular if width > 1 else 0.0, float(width))
        if score > best_score:
            best, best_score = delimiter, score
    if best and best_score[1] == 0.0:  # one column: take a delimiter that cuts no line
        return next((mark for mark in DELIMITERS if not any(mark in line for line in lines)), best)
    return best or ","


def require_delimiter(delimiter: str | None, decimal: str | None) -> None:
    """Refuse a delimiter or a decimal mark that cannot be one."""
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise InvalidInputError(f"delimiter must be one character, got {delimiter!r}")
    if decimal not in {None, ".", ","}:
        raise InvalidInputError(f"decimal must be '.' or ',', got {decimal!r}")


def column_names(header: Sequence[str], *, table: str) -> tuple[str, ...]:
    """Return the names of a header's columns, each once; a column without a name is called by its place.

    >>> column_names(["", " age ", "y"], table="ward.csv")
    ('unnamed_1', 'age', 'y')
    """
    names = tuple(cell.strip() or f"unnamed_{place}" for place, cell in enumerate(header, start=1))
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInputError(f"column names must differ, got {', '.join(map(repr, twice))} twice in {table}")
    return names


def require_columns(wanted: Collection[str], names: Sequence[str], *, table: str) -> None:
    """Refuse a table that lacks a wanted column; the message lists those it has, and names the closest."""
    missing = [name for name in wanted if name not in names]
    if not missing:
        return
    texts = [str(name) for name in names]
    folded: dict[str, str] = {}
    for text in texts:
        folded.setdefault(text.casefold(), text)
    close = [folded[text] for text in difflib.get_close_matches(str(missing[0]).casefold(), list(folded), n=5)]
    meant = f" (is it {close[0]!r}?)" if close else ""
    shown = ", ".join(texts[:20]) + (f" and {len(texts) - 20} more" if len(texts) > 20 else "")
    raise InvalidInputError(f"{table} must have a column {missing[0]!r}{meant}, got the columns: {shown}")
