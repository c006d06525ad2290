"""The regret figure: exponents and thresholds against closed forms, and one short run."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import regret
from experiments.fitted_ratio import balanced, fitted_ratio
from experiments.gaussian_pair import GaussianPair
from experiments.growth import growth_measures
from experiments.online_methods import PRINTED, THEOREM
from experiments.scenarios import SCENARIOS

TOML = Path(regret.__file__).with_suffix(".toml")


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    small = {"measured_runs": 4, "runs": 3, "regret_seeds": 1, "regret_horizons": [100, 1_000, 10_000]}
    return tomllib.loads(TOML.read_text())["settings"] | small


@pytest.fixture(scope="module")
def results(settings: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [(cell, regret.run(cell, settings)) for cell in regret.cells(settings)]


def test_the_exponent_of_a_power_is_that_power() -> None:
    horizons = [10, 30, 100, 1_000]
    measured = growth_measures(horizons, 3.0 * np.sqrt(horizons))
    assert measured == pytest.approx({"exponent": 0.5, "last_exponent": 0.5, "increase": np.sqrt(10.0)})
    assert growth_measures(horizons, np.log(horizons))["increase"] == pytest.approx(1.0)


def test_the_first_walk_is_the_drift_of_the_trackers_page(settings: dict[str, Any]) -> None:
    assert regret._walk(500, 0, settings).tolist() == SCENARIOS["drift"](500).tolist()


def test_a_fitted_ratio_comes_close_to_the_exact_one(settings: dict[str, Any]) -> None:
    # 200,000 rows: standard errors about .02 and .01
    assert fitted_ratio(2.0, np.full(200_000, settings["walk"]["start"]), seed=0) == pytest.approx((0.0, 1.0), abs=0.06)


def test_a_weight_on_the_negatives_moves_the_offset_alone() -> None:
    plain, weighted = (fitted_ratio(2.0, balanced(20_000), seed=1, negative_weight=weight) for weight in (1.0, 5.0))
    assert weighted.offset == pytest.approx(plain.offset - np.log(5.0), abs=0.06)
    assert weighted.slope == pytest.approx(plain.slope, abs=0.06)
    ratios = np.array([[0.0, -1.0], [0.0, 3.0]])
    np.testing.assert_allclose(weighted.true_thresholds(weighted.of(ratios)[:, 1]), ratios[:, 1])


def test_a_fixed_threshold_pays_what_the_closed_form_says(results: Any, settings: dict[str, Any]) -> None:
    truth = SCENARIOS["drift"](settings["n_rows"])
    pair = GaussianPair(settings["regret_separation"])
    # at ratio 1 both error rates are ndtr(-1) = .158655, whatever the prior
    by_hand = 0.15865525 * len(truth) - pair.oracle_cost(truth).sum()
    (smote,) = (result for cell, result in results if cell["method"] == "SMOTE")
    assert [edge[-1] for edge in smote["cumulative"]] == pytest.approx([by_hand] * 3)
    # the mean of the last window, times its rows, is what the last window added
    added = smote["cumulative"][1][-1] - smote["cumulative"][1][-1 - settings["smoothing_rows"] // regret.POINT_EVERY]
    assert smote["each"][1][-1] * settings["smoothing_rows"] == pytest.approx(added)


def test_who_knows_the_prior_pays_for_the_ratio_alone(results: Any, settings: dict[str, Any]) -> None:
    found = regret.figures(results, settings)
    assert found[f"whole.{regret.LA_EXACT}"] == 0.0
    assert 0.0 < found[f"whole.{regret.LA_FITTED}"] < 3.0
    assert found[f"whole.{regret.LA_FITTED}"] < found[f"whole.{regret.BANK_FITTED}"] < found["whole.Vanilla"]


def test_without_drift_algorithm_2_is_linear_at_either_rate(results: Any, settings: dict[str, Any]) -> None:
    found = regret.figures(results, settings)
    for method in (PRINTED, THEOREM):
        assert found[f"increase.constant.{method}"] == pytest.approx(10.0, rel=0.25)
        assert found[f"growth.constant.{method}.10000"] > 10.0 * found["growth.constant.bank.10000"]


def test_the_constant_prior_is_measured_alike_here_and_on_the_trackers_page(settings: dict[str, Any]) -> None:
    cell = {"measure": "growth", "path": "constant", "method": PRINTED, "seed": 0}
    assert regret._growth(cell, settings)["regret"] == pytest.approx(regret.run(cell, settings)["regret"])


def test_the_table_and_the_plot_come_from_the_record(results: Any, settings: dict[str, Any]) -> None:
    found = regret.figures(results, settings)
    curves = regret.series(results, settings)
    assert {len(values) for values in curves.values()} == {settings["n_rows"] // regret.POINT_EVERY}
    assert "| constant prior: bank | " in regret.table(found, settings)
    plot = regret.plots({"figures": found, "series": curves, "settings": settings})["regret"]
    assert len(plot.axes) == 4
