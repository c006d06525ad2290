"""The comparison with single models: its test is corrected, its bounds can be missed, its cells run."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
from scipy.stats import ttest_1samp

from experiments import members
from experiments.significance import corrected_p_value
from obil.datasets.named_set import load_named
from obil.errors import InvalidInputError

SETTINGS: dict[str, Any] = {
    "sets": ["yeast4"],
    "splits": 4,
    "test_share": 0.3,
    "known_features": [1],
    "known_priors": [0.5],
    "known_separation": 2.5,
    "known_rows": 10,
    "known_imbalance": 9,
    "known_fresh": 10,
    "known_seeds": 1,
}


def results(default: list[float], best: list[float]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    values = {model: [0.1] * len(default) for model in (*members.OURS, *members.ANCHORS)}
    values |= {"default": default, "gradient boosting": best}
    real = [
        ({"set": "yeast4", "model": model, "split": i}, {"auprc": value, "seconds": 1.0, "share": 0.3})
        for model, own in values.items()
        for i, value in enumerate(own)
    ]
    measures = ("correlation", "ece", "exact_ece", "slope", "offset")
    known = {f"{measure}.0.5": 0.5 for measure in measures}
    return [*real, ({"set": members.KNOWN, "features": 1, "split": 0}, known)]


def test_the_corrected_test_is_students_with_a_larger_variance() -> None:
    """Without overlap it is the plain t test; with 30 % tested of the rest its variance is 1/n + 3/7 and not 1/n."""
    rng = np.random.default_rng(0)
    differences = rng.normal(-0.3, 1.0, size=10)
    plain = ttest_1samp(differences, 0.0, alternative="less").pvalue
    assert corrected_p_value(differences, test_size=0.0) == pytest.approx(plain)
    assert corrected_p_value(differences, test_size=0.3) > plain
    assert corrected_p_value(np.zeros(5), test_size=0.3) == 1.0


def test_a_default_that_is_clearly_worse_is_counted_and_one_that_is_not_is_not() -> None:
    worse = members.figures(results([0.20, 0.21, 0.19, 0.2], [0.4, 0.41, 0.39, 0.4]), SETTINGS)
    assert worse["worse.sets"] == 1
    assert worse["excess.mean"] == pytest.approx(-0.2)
    level = members.figures(results([0.39, 0.42, 0.38, 0.4], [0.4, 0.41, 0.39, 0.4]), SETTINGS)
    assert level["worse.sets"] == 0
    assert "gradient boosting" in members.table(level, SETTINGS)


def test_a_cell_of_a_real_set_runs() -> None:
    try:
        load_named("yeast4")
    except InvalidInputError as error:
        pytest.skip(str(error))
    cell = {"set": "yeast4", "model": "gradient boosting", "split": 0}
    found = members.run(cell, SETTINGS)
    assert 0.1 < found["auprc"] < 1.0  # 3.4 % are positive
    assert found["share"] == pytest.approx(0.3, abs=0.01)


def test_a_known_ratio_is_measured_at_each_prior() -> None:
    pytest.importorskip("torch", reason="the extra 'torch' is not installed")
    settings = SETTINGS | {"known_rows": 600, "known_fresh": 2_000, "known_priors": [0.1, 0.5]}
    found = members.run({"set": members.KNOWN, "features": 1, "split": 0}, settings)
    assert found["correlation.0.5"] > 0.9
    assert set(found) == {
        f"{m}.{p}" for m in ("correlation", "ece", "exact_ece", "slope", "offset") for p in (0.1, 0.5)
    }
