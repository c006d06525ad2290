"""Fill the pages of the docs with figures and tables from the results, so that they hold no number that no file holds.

A template under `experiments/pages/` has, between double braces,

- `NAME FIGURE | FORMAT`: a figure of an experiment, such as `comparison below_oracle.bank | +.4f`;
- `table NAME`: the whole table of an experiment, or with `/ HEADING` the section under that heading;
- `plot NAME / FILE / CAPTION`: one of its plots, with a text alternative.

What an experiment without a full run should fill is marked so.
"""

import json
import re
from pathlib import Path
from typing import Any

from experiments.runner import FOLDER, RESULTS, load

TEMPLATES = FOLDER / "pages"
PAGES = FOLDER.parent / "docs"
UNFINISHED = "*(its full run is not finished)*"
_PLACE = re.compile(r"\{\{\s*(.+?)\s*\}\}")


def render_pages() -> list[Path]:
    """Write every page from its template; return where they are."""
    written = []
    for template in sorted(TEMPLATES.glob("*.md")):
        target = PAGES / template.name
        target.write_text(filled(template))
        written.append(target)
    return written


def filled(template: Path) -> str:
    """Return the text of a page."""
    head = f"<!-- made by `make reproduce` from experiments/pages/{template.name} -->\n\n"
    return head + _PLACE.sub(lambda place: _value(place[1]), template.read_text())


def _value(place: str) -> str:
    if place.startswith("table "):
        name, _, heading = place.removeprefix("table ").partition(" / ")
        record = _record(name)
        if record is None:
            return UNFINISHED
        module, _, _ = load(name, quick=False)
        text = module.table(record["figures"], record["settings"])
        return (section(text, heading) if heading else text).strip()
    if place.startswith("plot "):
        name, file, caption = place.removeprefix("plot ").split(" / ")
        return UNFINISHED if _record(name) is None else f"![{caption}](figures/{file}.svg)"
    found, _, form = place.partition(" | ")
    name, _, figure = found.partition(" ")
    record = _record(name)
    if record is None:
        return UNFINISHED
    return f"{record['figures'][figure]:{form}}"


def section(text: str, heading: str) -> str:
    r"""Return what stands under a heading, up to the next.

    >>> section("## One\n\nfirst\n\n## Two\n\nsecond\n", "One")
    '\n\nfirst\n\n'
    """
    _, found, rest = text.partition(f"## {heading}\n")
    if not found:
        raise KeyError(f"no section {heading!r}")
    return "\n" + rest.partition("\n## ")[0] + "\n"


def _record(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None
