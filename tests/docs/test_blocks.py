"""Every code block of the pages runs, or says in a comment why it does not."""

import json
import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.docs.blocks import PAGES, ROOT, blocks_of, run_commands, run_python
from tests.docs.example_data import names_for, write_files

LANGUAGES = {"python", "console", "json", "yaml"}
PYTHON_PAGES = [page for page in PAGES if blocks_of(page, "python")]
ELSEWHERE = {  # what their blocks need is started there
    "docs/integrations.md": "tests/test_integrations.py",
    "docs/service.md": "tests/docs/test_service_page.py",
    "docs/spark.md": "tests/spark/test_page.py",
}
TRAINS_NETWORKS = {"docs/guide.md", "docs/choosing.md"}
SLOW = {"README.md", "docs/guide.md"}


def marked(pages: Iterable[str]) -> list[Any]:
    """Return pages as parameters of a test, with a mark on those that take more than a few seconds."""
    return [pytest.param(page, marks=pytest.mark.slow if page in SLOW else ()) for page in pages]


def write_onnx_model(path: Path) -> None:
    """Write a linear classifier of two columns as another tool would."""
    pytest.importorskip("onnx", reason="needs onnx")
    from tests.serving.onnx_models import linear

    weight, bias = np.array([[1.8], [-0.08]], np.float32), np.array([1.0], np.float32)
    path.write_bytes(linear(weight, bias).SerializeToString())


def pretrained_network() -> dict[str, Any]:
    """Return a network as a user would bring it, and its weights."""
    from torch import nn

    def backbone(n_outputs: int) -> nn.Module:
        return nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, n_outputs))

    return {"Backbone": backbone, "pretrained": backbone(1).state_dict()}


@pytest.mark.parametrize("page", PAGES)
def test_every_block_has_a_language(page: str) -> None:
    for block in blocks_of(page):
        assert block.language in LANGUAGES or block.language.startswith("{"), f"{page}:{block.line}"
    fences = re.findall(r"^ *```", (ROOT / page).read_text(), flags=re.MULTILINE)
    assert len(fences) == 2 * len(blocks_of(page)), "a fence is not closed, or is indented"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page, "json")])
def test_json_is_json(page: str) -> None:
    for block in blocks_of(page, "json"):
        json.loads(block.code)


@pytest.mark.parametrize("page", marked(page for page in PYTHON_PAGES if page not in ELSEWHERE))
def test_the_python_blocks_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page in TRAINS_NETWORKS and not find_spec("torch"):
        pytest.skip("needs obil[torch]")
    names = names_for(page)
    monkeypatch.chdir(tmp_path)
    if page == "docs/guide.md":
        write_onnx_model(tmp_path / "model.onnx")
    if page == "docs/choosing.md":
        names |= pretrained_network()
    run_python(page, names)


def test_the_other_pages_are_run_elsewhere() -> None:
    for page, test in ELSEWHERE.items():
        assert page.removeprefix("docs/") in (ROOT / test).read_text()
    sections = re.split(r"^## ", (ROOT / "docs/integrations.md").read_text(), flags=re.MULTILINE)
    for section in sections:
        if "```python" in section:
            assert f'run("{section.splitlines()[0]}"' in (ROOT / ELSEWHERE["docs/integrations.md"]).read_text()


@pytest.mark.parametrize("page", marked(page for page in PAGES if blocks_of(page, "console") and page not in ELSEWHERE))
def test_the_commands_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    run_commands(page)
