"""The adaptation figure: F1 and lag against hand-computed values, and one short run."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import adaptation
from experiments.online_methods import ORACLE, PRINTED, priors_used
from obil.datasets.gaussian_stream import GaussianClasses
from obil.trackers import Algorithm2

TOML = Path(adaptation.__file__).with_suffix(".toml")


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    config = tomllib.loads(TOML.read_text())
    small = {"measured_runs": 10, "step_runs": 10, "step_rows": 1_500, "separations": [2.5]}
    return config["settings"] | config["quick"] | small


@pytest.fixture(scope="module")
def results(settings: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [(cell, adaptation.run(cell, settings)) for cell in adaptation.cells(settings)]


def test_cumulative_f1_counts_the_rows_so_far() -> None:
    f1 = adaptation.cumulative_f1([False, True, True, False], np.array([0, 1, 0, 1]))
    # nothing yet; one hit; one hit and a false alarm; and a miss
    assert f1 == pytest.approx([0.0, 1.0, 2 / 3, 1 / 2])


def test_lag_counts_the_rows_that_were_seen_since_the_step() -> None:
    means = np.array([0.1, 0.1, 0.1, 0.2, 0.3])  # the first estimate that saw the step, at row 2, is that of row 3
    assert adaptation.rows_until(means, 0.2, jump_at=2, level_before=0.1) == 1
    assert adaptation.rows_until(means, 0.9, jump_at=2, level_before=0.1) is None
    assert adaptation.rows_until(means, 0.1, jump_at=2, level_before=0.1) == 0


def test_methods_decide_at_the_priors_they_say() -> None:
    classes = GaussianClasses.pair(2.5)
    stream = classes.draw(np.linspace(0.1, 0.3, 50), random_state=0)

    def used(method: str) -> Any:
        return priors_used(method, stream, classes, start=0.1, holdout_rows=500, seed=0)

    assert used(ORACLE).tolist() == stream.priors[:, 1].tolist()
    assert set(used("SMOTE")) == {0.5}
    assert used(PRINTED).tolist() == Algorithm2(0.1).update_many(stream.log_ratios)[:, 1].tolist()


def test_a_fixed_threshold_gains_f1_when_positives_become_more_frequent(results: Any, settings: dict[str, Any]) -> None:
    found = adaptation.figures(results, settings)
    # at ratio 1 and separation 2.5, both rates are ndtr(1.25) = .8944: F1 = 2 P .8944 / (P .8944 + (1-P) .1056 + P)
    at = {prior: 2 * prior * 0.8944 / (prior * 1.8944 + (1 - prior) * 0.1056) for prior in (0.03, 0.1008)}
    # .1008 is the mean prior of the 500 rows after the jump; 10 runs hold about 150 and 500 positives
    assert found["before.2.5.SMOTE"] == pytest.approx(at[0.03], abs=0.06)
    assert found["after.2.5.SMOTE"] == pytest.approx(at[0.1008], abs=0.06)


def test_algorithm_2_is_off_before_anything_happens(results: Any, settings: dict[str, Any]) -> None:
    found = adaptation.figures(results, settings)
    assert found[f"estimate_before.2.5.{PRINTED}"] > 1.5 * settings["step_from"]
    assert found["estimate_before.2.5.bank"] < 1.3 * settings["step_from"]
    assert found[f"excess.2.5.{ORACLE}"] == pytest.approx(0.0, abs=1e-12)


def test_the_table_and_the_plot_come_from_the_record(results: Any, settings: dict[str, Any]) -> None:
    found = adaptation.figures(results, settings)
    curves = adaptation.series(results, settings)
    assert {len(values) for values in curves.values()} == {settings["n_rows"] // adaptation.POINT_EVERY}
    assert f"| {PRINTED} | " in adaptation.table(found, settings)
    plot = adaptation.plots({"figures": found, "series": curves, "settings": settings})["adaptation"]
    assert len(plot.axes) == 3


def test_a_fraction_of_the_step_that_is_never_covered_has_no_figure() -> None:
    step = {"estimate_before": 0.03, "error_before": 0.0, "estimate_long_after": 0.1, "own_50": 5, "own_90": None}
    cell = {"separation": 2.5, "method": "bank"}
    found = adaptation.figures([(cell, {"jump": {}, "step": step})], {})
    assert found["own_50.2.5.bank"] == 5.0
    assert "own_90.2.5.bank" not in found
