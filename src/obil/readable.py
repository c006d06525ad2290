"""Show a report as aligned text where it is printed, as an HTML table in a notebook, and as JSON values."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple


class Table(NamedTuple):
    """What a report shows: a title, columns of text, and sentences below them.

    A class gives one by a method of its own, and returns `as_text` of it in `__str__` and `as_html` in `_repr_html_`.
    """

    title: str
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    notes: Sequence[str] = ()


def as_text(table: Table) -> str:
    """Return a table as lines of text: the first column aligned left, the others right.

    >>> print(as_text(Table("Prior", ("class", "estimate"), [("ok", "98 %"), ("fraud", "2 %")], ["1,000 rows"])))
    Prior
    class  estimate
    ok         98 %
    fraud       2 %
    1,000 rows
    """
    lines = [row for row in (table.header, *table.rows) if row]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in lines
    ]
    return "\n".join([table.title, *(line.rstrip() for line in aligned), *table.notes])


def as_html(table: Table) -> str:
    """Return a table as HTML with every text escaped; a notebook styles it.

    >>> as_html(Table("Prior", rows=[("<ok>", "98 %")]))
    '<table><caption>Prior</caption><tbody><tr><th>&lt;ok&gt;</th><td>98 %</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in table.header)
    rows = "".join(
        f"<tr><th>{html.escape(row[0])}</th>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row[1:])}</tr>"
        for row in table.rows
    )
    body = (f"<thead><tr>{head}</tr></thead>" if head else "") + f"<tbody>{rows}</tbody>"
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in table.notes)
    return f"<table><caption>{html.escape(table.title)}</caption>{body}</table>{notes}"


class JsonRecord:
    """A dataclass that tells its fields as JSON values."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Return the figures as plain JSON values."""
        record: Any = self
        return {field.name: _plain(getattr(self, field.name)) for field in fields(record)}


def _plain(value: Any) -> Any:
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else value
