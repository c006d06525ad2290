"""The site: its configuration loads, every script of the gallery is on it, and so is every public name."""

import ast
import re
import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.test_public_surface import NAMES, PUBLIC, is_public, public, used_names

DOCS = Path(__file__).parent.parent / "docs"
SCRIPTS: tuple[str, ...] = runpy.run_path(str(DOCS / "gallery_order.py"))["SCRIPTS"]


def test_the_configuration_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    config = runpy.run_path(str(DOCS / "conf.py"))
    for needed in ("myst_parser", "numpydoc", "pydata_sphinx_theme", "sphinx_gallery"):
        pytest.importorskip(needed, reason="needs obil[docs]")
    assert config["html_theme"] == "pydata_sphinx_theme"
    assert "sphinx_gallery.gen_gallery" in config["extensions"]
    assert "sphinx.ext.intersphinx" not in config["extensions"]  # the site builds without the network


def test_every_script_of_the_gallery_is_listed_once() -> None:
    assert sorted(SCRIPTS) == sorted(script.name for script in (DOCS / "gallery").glob("*.py"))


def test_scripts_are_sorted_as_listed() -> None:
    order = runpy.run_path(str(DOCS / "gallery_order.py"))["InOrder"]("gallery")
    assert sorted(sorted(SCRIPTS), key=order) == list(SCRIPTS)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_short_has_a_title_and_uses_public_names_only(script: str) -> None:
    code = (DOCS / "gallery" / script).read_text()
    title, underline = (ast.get_docstring(ast.parse(code)) or "").splitlines()[:2]
    assert underline == "=" * len(title)
    assert len(code.splitlines()) <= 90
    private = [name for name in used_names(code) if not is_public(name)]
    assert not private, f"{script} uses {private}"
    assert "plt." in code, f"{script} draws no figure"


@pytest.mark.parametrize("package", PUBLIC)
def test_the_reference_lists_exactly_the_public_names(package: str) -> None:
    page = (DOCS / "api" / f"{package.replace('.', '_')}.rst").read_text()
    listed = re.findall(r"^   (\w+)$", page, flags=re.MULTILINE)
    names = [name for owner, name in NAMES if owner == package]
    assert listed == [name for name in names if not isinstance(public(package, name), ModuleType)]


def test_every_page_is_in_the_table_of_contents() -> None:
    index = (DOCS / "index.md").read_text()
    pages = {page.stem for page in DOCS.glob("*.md")} - {"index"}
    assert pages <= set(re.findall(r"^(\w+)$", index, flags=re.MULTILINE))
