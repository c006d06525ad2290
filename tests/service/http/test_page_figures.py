"""What the page says of a figure, drawn by Node on elements that only remember what they were given."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import obil.service
from obil.online.state.outcome_tally import ENOUGH_LABELS

PAGE = Path(obil.service.__file__).parent / "page"
NODE = shutil.which("node")
ELEMENTS = """
class Element {
  constructor(tag) { Object.assign(this, { tag, title: "", children: [] }); }
  setAttribute(name, value) { this[name] = value; }
  addEventListener() {}
  append(...children) { this.children.push(...children); }
  set textContent(text) { this.children = [text]; }
  get textContent() { return this.children.map((one) => one.textContent ?? one).join(" "); }
}
globalThis.document = { createElement: (tag) => new Element(tag) };
const found = (root, tag) => root instanceof Element ? [...(root.tag === tag ? [root] : []), ...root.children.flatMap((one) => found(one, tag))] : [];
const told = (elements) => elements.map(({ textContent, title }) => [textContent, title]);
"""  # noqa: E501  # one line of JavaScript
UNKNOWN = {"value": None, "low": 0.0, "high": 0.86, "source": "unknown"}
UNDEFINED = {"value": None, "low": 0.0, "high": 1.0, "source": "expected"}
KNOWN = {"value": 0.5, "low": 0.4, "high": 0.6, "source": "expected"}
PERFORMANCE = {
    "now": {"precision": UNKNOWN, "recall": KNOWN, "f1": UNKNOWN, "alert_rate": KNOWN},
    "window": {"precision": UNDEFINED, "recall": UNKNOWN, "f1": KNOWN, "alert_rate": KNOWN, "rows": 400},
}


def drawn(folder: Path, script: str) -> Any:
    """Run a script that has the page's modules and prints JSON."""
    if NODE is None:
        pytest.skip("the page's modules are run with Node, which is not installed")
    shutil.copytree(PAGE, folder, dirs_exist_ok=True)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "drawn.js").write_text(f"{ELEMENTS}\nconst performance = {json.dumps(PERFORMANCE)};\n{script}")
    answer = subprocess.run([NODE, "drawn.js"], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_the_table_of_the_labels_says_unknown_with_the_reason_and_a_dash_where_there_is_nothing(tmp_path: Path) -> None:
    script = """
        const { labelPanel } = await import("./label_panel.js");
        const [, table] = labelPanel({ labels: 3, performance });
        console.log(JSON.stringify(told(found(table, "tbody").flatMap((one) => found(one, "td")))));
    """
    cells = drawn(tmp_path, script)
    assert [text.replace("\u00a0", " ").split(" ")[0] for text, _ in cells] == [
        "unknown", "–", "50", "unknown", "unknown", "50", "50", "50",
    ]  # fmt: skip
    assert [bool(title) for _, title in cells] == [True, False, False, True, True, False, False, False]
    text, title = cells[0]
    assert re.fullmatch(r"unknown 0.0 to 86.0\s%", text)
    assert title.startswith("Nothing bounds this figure well enough")
    assert f"labels of {ENOUGH_LABELS:.0f} alerts" in title
    assert f"until {ENOUGH_LABELS:.0f} positives" in title


def test_a_tile_says_unknown_with_the_reason_for_as_long_as_it_is(tmp_path: Path) -> None:
    script = """
        const { Figures } = await import("./figures.js");
        const figures = new Figures();
        const prior = { 0: 0.9, 1: 0.1 };
        const stream = { prior, training_prior: prior, positive: 1, rows: 400, alerts: 8 };
        const show = (now) => {
          figures.show({ ...stream, performance: { now, window: performance.window } });
          return told(["precision", "recall"].map((name) => figures.tiles.get(name).value));
        };
        console.log(JSON.stringify([show(performance.now), show(performance.window)]));
    """
    [[precision, recall], [undefined, unknown]] = drawn(tmp_path, script)
    assert precision[0] == unknown[0] == "unknown"
    assert precision[1] == unknown[1]
    assert precision[1].startswith("Nothing bounds")
    assert (undefined, recall[0][:2], recall[1]) == (["–", ""], "50", "")
