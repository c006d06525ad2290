"""The experiment on prediction sets counts right, and asks the other libraries for the same coverage."""

import numpy as np
import pytest

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
from experiments.conformal_libraries import library_sets
from experiments.sets import _judged, _measured
from obil.bayes.posterior import posterior
from obil.datasets import GaussianClasses


def test_coverage_and_size_are_counted_by_window_and_class() -> None:
    found = np.array([[True, False], [True, True], [False, False], [False, True]])
    measured = _measured(found, np.array([0, 1, 0, 1]), window=2)
    assert measured == {
        "size": 1.0, "not_one": 0.5, "coverage": 0.75, "windows": [1.0, 0.5], "by_class": [0.5, 1.0],
        "prior": [0.5, 0.5],
    }  # fmt: skip


def test_what_is_off_is_judged_after_three_standard_errors_of_divisions_and_of_held_out_rows() -> None:
    def one(coverage: float) -> dict[str, object]:
        path = {"size": 1.0, "not_one": 0.0, "coverage": coverage, "windows": [coverage], "by_class": [coverage] * 2}
        return {"methods": {"ours": {"constant": path | {"prior": [0.75, 0.25]}}}, "held_out": [400, 100]}

    settings = {"shifts": ["constant"]}
    judged = _judged([one(0.6), one(0.7)], "ours", 0.9, settings)
    divisions = 0.005 / 2  # the variance over divisions, of their mean
    allowed = 3.0 * np.sqrt(divisions + 0.09 * (0.75**2 / 400 + 0.25**2 / 100))
    assert judged["off"] == pytest.approx(0.25 - allowed)
    assert judged["short"] == pytest.approx(0.25 - allowed)
    assert judged["short_of_class"] == pytest.approx(0.25 - 3.0 * np.sqrt(divisions + 0.09 / 400))
    above = _judged([one(0.98), one(0.98)], "ours", 0.9, settings)
    assert above["off"] > 0.0 > above["short"]


def test_the_libraries_at_hand_cover_what_was_asked_of_them() -> None:
    """2,000 held-out and 2,000 new rows: .03 is over three standard errors."""
    classes, prior = GaussianClasses(np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]), np.eye(2)), np.full(3, 1.0 / 3.0)
    held_out, rows = (classes.draw(np.tile(prior, (2_000, 1)), random_state=seed) for seed in (0, 1))
    probabilities = [posterior(each.log_ratios, prior) for each in (held_out, rows)]
    found = dict(library_sets(probabilities[0], held_out.labels, probabilities[1], coverage=0.9, seed=0))
    if not found:
        pytest.skip("neither mapie nor crepes is installed")
    for name, sets in found.items():
        coverage = sets[np.arange(2_000), rows.labels].mean()
        assert 0.87 < coverage < (1.0 if name in ("mapie_aps", "mapie_raps", "mapie_top_k") else 0.93)
