"""The sweep: ranges hold the paper's values, hindsight is the least of the grid, one real split, the page."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
pytest.importorskip("imblearn", reason="the extra 'experiments' is not installed")

from experiments import hyperparameters
from experiments.dropout_fusion import CHOSEN, EQUAL
from experiments.gaussian_pair import GaussianPair
from experiments.hyperparameters_page import GRID, MEAN, SWEPT, TAKEN, label_of
from experiments.protocol import named_set
from experiments.scenarios import SCENARIOS, SIX
from obil.datasets.gaussian_stream import GaussianClasses
from obil.trackers import Algorithm2

CONFIG = tomllib.loads((Path(hyperparameters.__file__).parent / "hyperparameters.toml").read_text())
SETTINGS: dict[str, Any] = CONFIG["settings"] | CONFIG["quick"] | {"n_rows": 1_000, "seeds": 1, "sets": ["yeast4"]}


def test_the_grid_has_the_ends_of_each_range_and_the_values_that_algorithm_2_takes_by_itself() -> None:
    tried = [tuple(choice[name] for name in SWEPT) for choice in hyperparameters.grid(SETTINGS)]
    assert len(tried) == len(set(tried)) == 3 ** len(SWEPT)
    assert tuple(TAKEN[name] for name in SWEPT) in tried
    for name in SWEPT:
        assert min(SETTINGS[name]) < TAKEN[name] < max(SETTINGS[name])
        assert TAKEN[name] in SETTINGS[name]
    ratios = GaussianClasses.pair(2.0).draw(np.full(500, 0.1), random_state=0).log_ratios
    swept = Algorithm2(0.05, **TAKEN).update_many(ratios)  # type: ignore[arg-type]
    np.testing.assert_array_equal(swept, Algorithm2(0.05).update_many(ratios))


def test_best_and_worst_are_the_ends_of_the_grid_in_the_mean_over_streams() -> None:
    labels = [label_of(choice) for choice in hyperparameters.grid(SETTINGS)]
    others = [label_of(choice) for choice in hyperparameters.one_at_a_time(SETTINGS)]
    values = {label: 10.0 + place for place, label in enumerate(labels)}
    streams = [dict.fromkeys(others, 99.0) | {k: v + move for k, v in values.items()} | {"bank": 12.5 + move}
               for move in (-1.0, 1.0)]  # fmt: skip
    results = [
        ({"part": "tracker", "scenario": scenario, "seed": seed}, stream)
        for scenario in SIX
        for seed, stream in enumerate(streams)
    ]
    found = hyperparameters.figures(results, SETTINGS)
    assert found[GRID] == len(labels)
    for scenario in (*SIX, MEAN):
        assert found[f"excess/{scenario}/best"] == 10.0
        assert found[f"excess/{scenario}/worst"] == 9.0 + len(labels)
        assert found[f"below bank/{scenario}"] == 3.0
        best = {name: found[f"best/{scenario}/{name}"] for name in SWEPT}
        assert label_of(best) == labels[0]


def test_a_stream_costs_what_its_closed_form_says() -> None:
    found = hyperparameters.run({"part": "tracker", "scenario": "jump", "seed": 0}, SETTINGS)
    truth = SCENARIOS["jump"](SETTINGS["n_rows"])
    ratios = GaussianClasses.pair(SETTINGS["separation"]).draw(truth, random_state=0).log_ratios
    estimate = Algorithm2(SETTINGS["start_prior"], clamp=0.05).update_many(ratios)[:, 1]
    expected = 100.0 * GaussianPair(SETTINGS["separation"]).excess(estimate, truth)
    assert found[label_of(TAKEN | {"clamp": 0.05})] == pytest.approx(expected)
    assert found["bank"] < found[label_of(TAKEN)]


@pytest.mark.skipif(named_set("yeast4") is None, reason="yeast4 is not at hand")
def test_one_real_split_is_fused_at_every_m_and_tau_and_the_page_shows_both_parts() -> None:
    pytest.importorskip("torch", reason="the extra 'torch' is not installed")
    settings = SETTINGS | {"passes": [3, 30], "temperatures": [1.0]}
    cell = {"part": "fusion", "set": "yeast4", "split": 0}
    found = hyperparameters.run(cell, settings)
    for measure in ("auprc", "f1", "errors"):
        assert found[f"3/{EQUAL}/{measure}"] == found[f"30/{EQUAL}/{measure}"]  # equal weights need no passes
    assert found["3/1/auprc"] != found["30/1/auprc"]
    streams = [({"part": "tracker", "scenario": s, "seed": 0},
                hyperparameters.run({"part": "tracker", "scenario": s, "seed": 0}, settings)) for s in SIX]  # fmt: skip
    figures = hyperparameters.figures([(cell, found), *streams], settings)
    page = hyperparameters.table(figures, settings)
    assert f"| tau {CHOSEN} |" in page
    assert "Bayes bank, untuned" in page
    assert page.count("(the paper's)") == len(SWEPT)
