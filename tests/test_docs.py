"""The docs name things that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMED_TESTS = re.compile(r"`((?:\w+/)*test_\w+\.py)?::(test_\w+)`")


@pytest.mark.parametrize("page", ["errata", "theory"])
def test_every_test_that_a_page_names_exists(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    named, file = [], ""
    for path, test in NAMED_TESTS.findall(text):
        file = path or file  # `::test` alone is in the file named before it
        named.append((file, test))
    assert len(named) > 10
    for file, test in named:
        assert f"def {test}(" in (ROOT / "tests" / file).read_text(), f"{file}::{test}"


def test_every_row_of_the_errata_names_a_test_or_an_experiment() -> None:
    lines = (ROOT / "docs" / "errata.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith(("| ---", "| where"))]
    assert len(rows) > 30
    for row in rows:
        assert NAMED_TESTS.search(row) or "`python -m experiments " in row, row


def test_propositions_are_numbered_proved_tested_and_cited_from_the_code() -> None:
    parts = (ROOT / "docs" / "theory.md").read_text().split("\n## Proposition ")[1:]
    assert [int(part.partition(":")[0]) for part in parts] == list(range(1, len(parts) + 1))
    for part in parts:
        assert "Proof. " in part
        assert "∎" in part
        assert NAMED_TESTS.search(part.partition("Test")[2])
    cited = set()
    for folder in ("src", "experiments"):
        for file in (ROOT / folder).rglob("*.py"):
            cited |= set(re.findall(r"docs/theory\.md,\s+Proposition (\d+)", file.read_text()))
    assert cited == {str(number) for number in range(1, len(parts) + 1)}


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
)
def test_relative_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text()):
        if not target.startswith(("http", "auto_gallery/")):  # the gallery is made by `make docs`
            assert (ROOT / page).parent.joinpath(target).exists(), target


@pytest.mark.parametrize("page", [*sorted(p.name for p in (ROOT / "docs").glob("reproduction*.md")), "summary.md"])
def test_no_page_of_the_write_up_is_longer_than_two_screens_beside_its_tables(page: str) -> None:
    lines = (ROOT / "docs" / page).read_text().splitlines()
    prose = [line for line in lines if line.strip() and not line.startswith(("|", "!", "<!--"))]
    assert len(prose) <= 100
