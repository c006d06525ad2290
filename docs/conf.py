"""Build the site: MyST pages, the API reference from docstrings, and a gallery whose scripts run."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import obil

sys.path.insert(0, str(Path(__file__).parent))  # gallery_order
os.environ.setdefault("OMP_NUM_THREADS", "1")  # examples are small: threads would only wait for each other

project = "obil"
author = "the obil developers"
version = release = obil.__version__
html_title = f"obil {version}"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery", "**/sg_execution_times.rst"]
templates_path = ["_templates"]
default_role = "code"  # docstrings put names between single backticks

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4  # links to headings are those that GitHub makes

autosummary_generate = True
toc_object_entries_show_parents = "hide"  # `decide` fits beside the page of a class, `OnlineClassifier.decide` does not
autodoc_typehints = "none"  # numpydoc lists the parameters
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the page of a class lists them

html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "github_url": "https://github.com/obil/obil",
    "show_toc_level": 2,
    "header_links_before_dropdown": 3,  # more would put the search into a second line
    "navbar_end": ["theme-switcher", "navbar-icon-links"],
}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False

sphinx_gallery_conf = {
    "examples_dirs": ["gallery"],
    "gallery_dirs": ["auto_gallery"],
    "filename_pattern": r"/plot_",
    "within_subsection_order": "gallery_order.InOrder",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "reference_url": {},
}

FOREIGN = ("sklearn.", "torch.", "pydantic", "river.")


def without_foreign_members(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what a class inherits from other libraries: their docstrings link into their own sites."""
    return True if str(getattr(member, "__module__", "")).startswith(FOREIGN) else None


def with_title(app: Any, page: str, source: list[str]) -> None:
    """Give a page of results the title that its tables go without."""
    if page.startswith("results/") and not re.search(r"^# ", source[0], flags=re.MULTILINE):
        source[0] = f"# {page.removeprefix('results/').replace('_', ' ').capitalize()}\n\n{source[0]}"


def setup(app: Any) -> None:
    """Connect both to the build."""
    app.connect("autodoc-skip-member", without_foreign_members)
    app.connect("source-read", with_title)
