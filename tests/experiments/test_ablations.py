"""The ablations: means and tests over splits are right, hindsight is a ceiling, and alpha is counted where it acts."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import wilcoxon

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
pytest.importorskip("imblearn", reason="the extra 'experiments' is not installed")

from experiments import ablations
from experiments.ablation_tables import TABLES
from experiments.paper_claims import ABLATION_F1
from experiments.protocol import Arrivals

CONFIG = tomllib.loads((Path(ablations.__file__).parent / "ablations.toml").read_text())
SETTINGS: dict[str, Any] = CONFIG["settings"]


def made_up(value: float) -> dict[str, float]:
    """A cell in which everything measured has one value."""
    return {
        f"{ablation.name}/{variant}/{measure.method}/{measure.name}.{factor}": value
        for ablation in TABLES
        for variant in ablation.variants(SETTINGS)
        for measure in ablation.measures
        for factor in SETTINGS["factors"]
    }


def test_a_split_is_one_observation_and_neighbours_are_tested_over_the_splits() -> None:
    key = "members/3/bank/f1.0.25"
    first, second = [0.5, 0.7, 0.6, 0.9, 0.4, 0.8], [0.1, 0.3, 0.2, 0.1, 0.0, 0.6]
    results = [
        ({"set": name, "split": split}, made_up(0.2) | {key: value})
        for name, values in (("yeast4", first), ("abalone19", second))
        for split, value in enumerate(values)
    ]
    found = ablations.figures(results, SETTINGS)
    both = np.mean([first, second], axis=0)
    assert found[f"yeast4/{key}"] == pytest.approx(np.mean(first))
    assert found[f"mean/{key}"] == pytest.approx(np.mean(both))
    assert found[f"sd mean/{key}"] == pytest.approx(np.std(both, ddof=1))
    assert found["p mean/members/1 to 3/bank/f1.0.25"] == pytest.approx(wilcoxon(both - 0.2).pvalue)
    assert found["p yeast4/members/5 to 7/bank/f1.0.25"] == 1.0  # no split differs
    page = ablations.table(found, SETTINGS)
    assert f"{np.mean(first):.3f} ± {np.std(first, ddof=1):.3f}" in page
    assert "Mean over 2 sets" in page


def test_every_claim_of_the_paper_has_a_column() -> None:
    for ablation in TABLES:
        for claims in ABLATION_F1[ablation.name].values():
            assert set(claims) <= set(ablation.variants(SETTINGS))


def test_alpha_acts_where_a_step_is_shorter_than_the_clamp() -> None:
    path = np.array([0.10, 0.12, 0.12, 0.121, 0.101, 0.101])  # clamp, unsure, alpha, clamp, unsure
    arrivals = Arrivals(1.0, np.arange(len(path)), 0.1)
    assert ablations._rate_used(lambda _: path, arrivals) == pytest.approx(1 / 5)


def test_a_small_cell_runs_and_hindsight_is_above_what_was_decided() -> None:
    pytest.importorskip("torch", reason="the extra 'torch' is not installed")
    settings = SETTINGS | {"members": [1, 5], "rates": [0.05], "n_rows": 500, "draws": 1, "sets": ["yeast4"]}
    if ablations.missing(settings) is not None:
        pytest.skip("yeast4 is not at hand")
    cell = {"set": "yeast4", "split": 0}
    found = ablations.run(cell, settings)
    for name, value in found.items():
        place, method, measure = name.rsplit("/", 2)
        # with the true prior there is one threshold; one that moves along the stream may be luckier
        if measure.startswith("f1.") and method == "true prior":
            assert value <= found[f"{place}/hindsight/{measure}"] + 1e-12
    for loss in ("cross-entropy", "squared error"):  # a calibration with a positive slope moves no row past another
        ceilings = [found[f"losses/{loss}, {method}/hindsight/f1.0.25"] for method in ("none", "temperature", "affine")]
        assert ceilings == pytest.approx([ceilings[0]] * 3)
    assert found["rates/0.05/tracked/f1.0.25"] == found["members/5/Algorithm 2/f1.0.25"]
    assert found["rates/bank/tracked/cost.4.0"] == found["losses/squared error, affine/bank/cost.4.0"]
    assert "Learning rate" in ablations.table(ablations.figures([(cell, found)], settings), settings)
