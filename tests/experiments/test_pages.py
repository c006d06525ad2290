"""Pages hold what the results hold, and the examples in the experiments' own names are true."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
pytest.importorskip("imblearn", reason="the extra 'experiments' is not installed")
from experiments import pages
from experiments.runner import FOLDER

TEMPLATES = sorted(pages.TEMPLATES.glob("*.md"))
WITH_EXAMPLES = [
    ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts)
    for path in sorted(FOLDER.rglob("*.py"))
    if ">>> " in path.read_text()
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_are_true(name: str) -> None:
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "torchvision"):  # an extra
            raise
        pytest.skip(str(error))
    failed, tried = doctest.testmod(module)
    assert tried > 0
    assert failed == 0


def test_modules_with_examples_are_found() -> None:
    assert {"experiments.pages", "experiments.growth", "experiments.theory_rows.row"} <= set(WITH_EXAMPLES)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_a_committed_page_is_the_template_filled(template: Path) -> None:
    assert (pages.PAGES / template.name).read_text() == pages.filled(template)


def test_a_figure_that_no_file_holds_cannot_stand_on_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("{{ trackers no.such.figure | .2f }}")
    with pytest.raises(KeyError, match=r"no\.such\.figure"):
        pages.filled(page)
    page.write_text("{{ table trackers / No such heading }}")
    with pytest.raises(KeyError, match="No such heading"):
        pages.filled(page)


def test_figures_are_formatted_and_an_unfinished_run_is_marked(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("imbalance {{ data_sets imbalance.yeast4 | .1f }}, {{ nothing at.all | .1f }}")
    assert pages.filled(page).endswith(f"imbalance 28.1, {pages.UNFINISHED}")
    page.write_text("{{ plot data_sets / some_file / Caption }} {{ plot nothing / some_file / Caption }}")
    assert pages.filled(page).endswith(f"![Caption](figures/some_file.svg) {pages.UNFINISHED}")
