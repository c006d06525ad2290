"""The runner resumes where it stopped, holds figures against bounds, and its results belong to this code."""

import json
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
from experiments import runner
from experiments.plots import panels

ROOT = Path(__file__).parent.parent.parent
# Targets that were not reached, as docs/trackers.md and docs/calibration.md say: a further miss fails here, and
# so does one that was mended without being taken off this list.
KNOWN_MISSES = {
    "architectures": {"least_recovered"},  # Cora, one against the rest, made rarer: .775 and .786 of .8
    "decomposition": {"auprc.yeast4.paper"},  # .349 of .38, where ten splits have a standard deviation of .14
    "keyed_streams": {"fleet.against_common.worst"},  # 1.0127 of 1: few labels of a segment against those of all rows
    "plan": {"saving.least", "saving.most", "delay.most"},  # .66 and 1.33 with few positives; 1.41 near the longest
    "wild": {  # docs/safety.md says on which streams, and why
        "all.shuffled.worst",  # 1.0021 of 1.001
        "all.jump.least",  # 9 of 12 streams follow a jump to .9 of the oracle's gain; two weak models do not
        "all.recalibrated.least",  # .20 on one of seven streams, which has next to no labelled positive
        "all.left_out.log_loss.worst",  # 1.0052 of 1.005
        "all.safe.cost_1_5.worst",  # 1.027 of 1.01
    },
    "evidence": {"log_loss.paper_wins.logistic"},  # 2 of 5, by differences below .0003; boosting 5 of 5
    "confirm": {"p.adapting.f1"},  # adapting gains in cost, p .04; in F1 +.001, p .30
    "comparison": {
        "below_oracle.bank",  # .016 below the oracle prior; the default's safe tracker .007
        # five sets and ten overlapping splits cannot show a gain of .02 in F1: `confirm` is the test
        "overlap.adapting.4.0.bank",
        "overlap.adapting.0.25.safe",
        "overlap.adapting.4.0.safe",
    },
}


@pytest.fixture
def squares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """An experiment that squares numbers, in a folder of its own."""
    calls: dict[str, Any] = {"ran": [], "fail_at": None}
    module = ModuleType("experiments.squares")

    def run(cell: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
        if cell["n"] == calls["fail_at"]:
            raise KeyboardInterrupt
        calls["ran"].append(cell["n"])
        return {"square": cell["n"] ** 2}

    module.cells = lambda settings: [{"n": n} for n in range(settings["numbers"])]
    module.run = run
    module.figures = lambda results, settings: {"sum": float(sum(r["square"] for _, r in results))}
    module.table = lambda figures, settings: f"| {figures['sum']} |"
    monkeypatch.setitem(sys.modules, "experiments.squares", module)
    (tmp_path / "squares.toml").write_text(
        "[settings]\nnumbers = 4\n[quick]\nnumbers = 2\n[bounds]\nsum = {max = 14}\n"
    )
    monkeypatch.setattr(runner, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(runner, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(runner, "PLOTS", tmp_path / "docs" / "figures")
    settings = tomllib.loads((tmp_path / "squares.toml").read_text())

    def load(name: str, *, quick: bool, folder: Path = tmp_path) -> tuple[Any, Any, Any]:
        chosen = settings["settings"] | (settings["quick"] if quick else {})
        return module, chosen, {} if quick else settings["bounds"]

    monkeypatch.setattr(runner, "load", load)
    return calls


def test_a_run_writes_figures_versions_and_a_table(squares: dict[str, Any], tmp_path: Path) -> None:
    assert runner.run_experiment("squares", quick=False, jobs=1) == 0
    record = json.loads((tmp_path / "results" / "squares.json").read_text())
    assert record["figures"] == {"sum": 14.0}
    assert {"python", "numpy", "obil"} <= set(record["versions"])
    assert "14.0" in (tmp_path / "docs" / "squares.md").read_text()


def test_curves_are_kept_and_plots_are_drawn_from_the_record_alone(squares: dict[str, Any], tmp_path: Path) -> None:
    module = sys.modules["experiments.squares"]
    module.series = lambda results, settings: {"squares": [r["square"] / 3.0 for _, r in results]}

    def plots(record: dict[str, Any]) -> dict[str, Any]:
        figure, (axes,) = panels(1)
        axes.plot(record["series"]["squares"])
        return {"growth": figure}

    module.plots = plots
    runner.run_experiment("squares", quick=True, jobs=1)
    record = json.loads((tmp_path / "results" / "quick" / "squares.json").read_text())
    assert record["series"] == {"squares": [0.0, 0.3333]}
    drawn = (tmp_path / "results" / "quick" / "growth.svg").read_bytes()
    runner.render("squares", quick=True)
    assert (tmp_path / "results" / "quick" / "growth.svg").read_bytes() == drawn
    assert not (tmp_path / "docs").exists()  # a quick run leaves the pages alone


def test_an_interrupted_run_goes_on_where_it_stopped(squares: dict[str, Any], tmp_path: Path) -> None:
    squares["fail_at"] = 2
    with pytest.raises(KeyboardInterrupt):
        runner.run_experiment("squares", quick=False, jobs=1)
    squares.update(ran=[], fail_at=None)
    with (tmp_path / "results" / "squares.partial.jsonl").open("a") as file:
        file.write('{"of": "half a li')  # what a kill leaves behind
    assert runner.run_experiment("squares", quick=False, jobs=1) == 0
    assert squares["ran"] == [2, 3]
    assert not (tmp_path / "results" / "squares.partial.jsonl").exists()


def test_a_missed_bound_counts_and_an_absent_figure_too() -> None:
    console = Console(quiet=True)
    assert runner.report(console, {"a": 2.0}, {"a": {"max": 1.0}}, title="") == 1
    assert runner.report(console, {"a": 2.0}, {"a": {"min": 1.0, "max": 3.0}}, title="") == 0
    assert runner.report(console, {}, {"a": {"max": 1.0}}, title="") == 1
    assert runner.report(console, {"a": 2.0}, {"a": {}}, title="") == 0


@pytest.mark.parametrize("name", runner.EXPERIMENTS)
def test_committed_results_belong_to_the_committed_settings(name: str, tmp_path: Path) -> None:
    path = ROOT / "experiments" / "results" / f"{name}.json"
    if not path.exists():
        pytest.skip(f"no full run of {name} is committed")
    record = json.loads(path.read_text())
    module, settings, bounds = runner.load(name, quick=False)
    page = (ROOT / "docs" / "results" / f"{name}.md").read_text()
    assert module.table(record["figures"], record["settings"]).strip() in page
    assert record["settings"] == settings
    assert record["bounds"] == bounds
    assert runner.missed_bounds(record["figures"], bounds) == KNOWN_MISSES.get(name, set())
