"""The docs name things that exist."""

import importlib.util
import re
from pathlib import Path

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None
ROOT = Path(__file__).parent.parent
NAMED_TESTS = re.compile(r"`((?:\w+/)*test_\w+\.py)?::(test_\w+)`")


def test_every_test_that_the_errata_name_exists() -> None:
    text = (ROOT / "docs" / "errata.md").read_text()
    named, file = [], ""
    for path, test in NAMED_TESTS.findall(text):
        file = path or file  # `::test` alone is in the file named before it
        named.append((file, test))
    assert len(named) > 10
    for file, test in named:
        assert f"def {test}(" in (ROOT / "tests" / file).read_text(), f"{file}::{test}"


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
)
def test_relative_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text()):
        if not target.startswith("http"):
            assert (ROOT / page).parent.joinpath(target).exists(), target


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))])
def test_every_import_that_an_example_shows_works(page: str) -> None:
    for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL):
        for line in re.findall(r"^(?:from|import) .*$", block, flags=re.MULTILINE):
            if HAS_TORCH or ("torch" not in line and "obil.networks" not in line):  # an extra
                exec(line, {})  # our own docs


def test_what_the_safety_page_calls_is_imported_where_it_is_called() -> None:
    text = (ROOT / "docs" / "safety.md").read_text()
    assert re.search(r"^from obil.monitor import LabelShiftMonitor$", text, flags=re.MULTILINE)
