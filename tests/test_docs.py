"""The docs name things that exist."""

import re
from pathlib import Path

import pytest

EXTRAS = "torch|networks|mlflow|river|kafka|onnx|onnxruntime|polars|pyarrow"  # what an example may need beside the core
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


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))])
def test_every_import_that_an_example_shows_works(page: str) -> None:
    missing = set()
    for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL):
        for line in re.findall(r"^(?:from|import) .*$", block, flags=re.MULTILINE):
            try:
                exec(line, {})  # our own docs
            except ModuleNotFoundError as error:
                if not re.fullmatch(rf"(?:from|import) (?:obil\.)?(?:{EXTRAS})\b.*", line):
                    raise
                missing.add(str(error.name))
    if missing:
        pytest.skip(f"not installed: {', '.join(sorted(missing))}")


def test_what_the_safety_page_calls_is_imported_where_it_is_called() -> None:
    text = (ROOT / "docs" / "safety.md").read_text()
    assert re.search(r"^from obil.monitor import LabelShiftMonitor$", text, flags=re.MULTILINE)


@pytest.mark.parametrize("page", [*sorted(p.name for p in (ROOT / "docs").glob("reproduction*.md")), "summary.md"])
def test_no_page_of_the_write_up_is_longer_than_two_screens_beside_its_tables(page: str) -> None:
    lines = (ROOT / "docs" / page).read_text().splitlines()
    prose = [line for line in lines if line.strip() and not line.startswith(("|", "!", "<!--"))]
    assert len(prose) <= 100
