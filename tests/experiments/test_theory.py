"""Every claim of the paper has a row, its verdict follows its figures, and the constructions are what they say."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
from experiments import theory
from experiments.growth import exponent
from experiments.paper_claims import THEORY_LABELS
from experiments.runner import load
from experiments.theory_rows import lower_bound, many_classes, regret_rows, tracking
from experiments.theory_rows.row import VERDICTS
from obil.bayes.regret import GaussianPair
from obil.data.gaussian_stream import GaussianClasses

TESTS = Path(__file__).parent.parent
QUICK: dict[str, Any] = load("theory", quick=True)[1]
# rows that take well under a second and need no torch
CHEAP = (
    "error propagation",
    "sensitivity",
    "oracle and loss",
    "one against the rest",
    "stability",
    "selection bias",
    "architecture",
)


def test_every_label_of_the_paper_has_one_row() -> None:
    covered = [label for row in theory.ROWS.values() for label in row.covers]
    assert sorted(covered) == sorted(THEORY_LABELS)
    assert len(set(covered)) == len(covered)
    for label in ("thm:transfer", "thm:regret", "thm:lower", "prop:smote", "cor:stationary", "rem:feedback"):
        assert label in covered


def test_every_test_that_a_row_names_exists() -> None:
    for row in theory.ROWS.values():
        for shown in row.shown_by:
            path, name = shown.split("::")
            assert re.search(rf"^def {name}\(", (TESTS / path).read_text(), re.MULTILINE), shown


@pytest.mark.parametrize("name", CHEAP)
def test_a_row_is_measured_and_judged(name: str) -> None:
    row = theory.ROWS[name]
    figures = theory.run({"row": name}, QUICK)["figures"]
    assert all(isinstance(value, float) for value in figures.values())
    assert row.measured(figures, QUICK)
    assert row.verdict(figures).split("**")[1] in VERDICTS


def test_verdicts_turn_with_the_figures() -> None:
    """As measured, and as they would be if the paper were right."""
    propagation = theory.run({"row": "error propagation"}, QUICK)["figures"]
    assert theory.ROWS["error propagation"].verdict(propagation).startswith("**fails**")
    assert theory.ROWS["error propagation"].verdict(propagation | {"printed.violated": 0.0}).startswith("**holds**")
    stability = theory.run({"row": "stability"}, QUICK)["figures"]
    inside = dict.fromkeys(stability, 0.0)
    assert theory.ROWS["stability"].verdict(stability).startswith("**fails**")
    assert theory.ROWS["stability"].verdict(inside).startswith("**holds**")
    tracked = {
        f"{name}.{rate}.exponent": 0.5 for name in ("average", "em", "algorithm2") for rate in ("best", "stated")
    }
    assert theory.ROWS["tracking"].verdict(tracked).startswith("**holds**")
    stated = tracked | {"average.best.exponent": 0.33, "average.stated.exponent": 0.25}
    assert "its own proof" in theory.ROWS["tracking"].verdict(stated)


def test_the_printed_bound_is_violated_as_computed_by_hand() -> None:
    figures = theory.run({"row": "error propagation"}, QUICK)["figures"]
    assert figures["truth.example"] == pytest.approx(0.05 / (0.9 * 0.05))
    assert figures["printed.example"] == pytest.approx(0.05 / (0.09 + 0.04))
    assert figures["printed.first_violated"] == pytest.approx(1 / 3, abs=0.005)
    sensitivity = theory.run({"row": "sensitivity"}, QUICK)["figures"]
    assert sensitivity["least_at.0.05"] == pytest.approx((1 - 0.05) / 2, abs=1e-4)


def test_the_construction_never_moves_faster_than_its_drift() -> None:
    paths = lower_bound.block_paths(1e-3, 200, 50, np.random.default_rng(0))
    assert np.abs(np.diff(paths.ravel())).max() <= 1e-3 * (1 + 1e-9)  # from block to block as well
    assert np.abs(paths - lower_bound.CENTRE).max() == pytest.approx(1e-3 * 100)
    assert {float(sign) for sign in np.sign(paths[:, 100] - lower_bound.CENTRE)} == {-1.0, 1.0}


def test_the_exact_filter_of_the_construction_is_bayes_rule() -> None:
    """Three rows of one block by hand: the coin's odds are the product of the rows' evidence ratios."""
    log_ratios, drift = np.array([[0.5, -1.0, 2.0]]), 0.05
    bump = drift * 1.5 * lower_bound.triangle(3)
    evidence = {
        sign: [
            1.0 + (lower_bound.CENTRE + sign * height) * np.expm1(row)
            for height, row in zip(bump, log_ratios[0], strict=True)
        ]
        for sign in (-1, 1)
    }
    means = []
    for t in range(3):
        up, down = np.prod(evidence[1][:t]), np.prod(evidence[-1][:t])
        means.append(lower_bound.CENTRE + bump[t] * (up - down) / (up + down))
    assert lower_bound.exact_filter(log_ratios, drift)[0] == pytest.approx(means)


def test_no_tracker_beats_the_exact_filter_on_the_construction() -> None:
    settings = QUICK | {"lower_drifts": [1e-4, 1e-3], "lower_seeds": 1, "stationary_seeds": 1}
    figures = lower_bound.measure_lower(settings).figures
    assert figures["bank.over_least"] > 1.0
    assert figures["least.over_by_hand"] > 1.0
    assert figures["least.exponent"] == pytest.approx(2 / 3, abs=0.12)  # 25 blocks at least


def test_information_and_curvature_have_the_values_they_must() -> None:
    assert lower_bound.fisher_information(0.2, 12.0) == pytest.approx(1 / (0.2 * 0.8), rel=1e-4)  # as if labelled
    pair, prior, error = GaussianPair(2.0), 0.3, 0.01
    regret = float(pair.regret([prior + error], [prior])[-1])
    assert regret == pytest.approx(lower_bound.regret_curvature(prior, 2.0) * error**2, rel=0.05)


def test_the_unbiased_average_finds_the_prior_and_follows_its_recursion() -> None:
    rows = GaussianClasses.pair(2.0).draw(np.full(50_000, 0.3), random_state=0).log_ratios[:, 1]
    path = tracking.unbiased_average(rows, 0.01, 0.3, 2.0)
    assert path.mean() == pytest.approx(0.3, abs=0.02)  # sd .003
    true_rate, false_rate = GaussianPair(2.0).rates(0.0)
    signal = (float(rows[0] > 0.0) - false_rate) / (true_rate - false_rate)
    assert path[0] == 0.3
    assert path[1] == pytest.approx(0.99 * 0.3 + 0.01 * signal)


def test_the_margin_probability_is_that_of_drawn_rows() -> None:
    stream = GaussianClasses.pair(2.0).draw(np.full(200_000, 0.2), random_state=1)
    ratios, margin = np.exp(stream.log_ratios[:, 1]), np.array([0.5, 5.0])
    share = regret_rows.margin_probability(0.2, np.log(4.0), margin, 2.0)
    drawn = [(np.abs(ratios - 4.0) < width).mean() for width in margin]
    assert share == pytest.approx(drawn, abs=0.005)


def test_regret_of_many_classes_is_zero_for_the_oracle_and_matches_the_closed_form_for_two() -> None:
    classes, truth = many_classes.even_classes(2), np.array([0.8, 0.2])
    rows = classes.draw(np.tile(truth, (100_000, 1)), random_state=2).log_ratios
    assert many_classes.regret_of(rows, np.tile(truth, (len(rows), 1)), truth)[-1] == 0.0
    found = many_classes.regret_of(rows, np.tile([0.5, 0.5], (len(rows), 1)), truth)[-1]
    expected = GaussianPair(many_classes.SEPARATION).regret(np.full(len(rows), 0.5), np.full(len(rows), 0.2))[-1]
    assert found == pytest.approx(expected, rel=0.05)


def test_losses_are_sorted_by_form_and_minimiser() -> None:
    pytest.importorskip("torch", reason="the extra 'torch' is not installed")
    from experiments.theory_rows import loss_forms

    squared, printed = (loss_forms.form_of(loss_forms.LOSSES[name]) for name in ("squared error", "logistic, printed"))
    assert squared.as_printed
    assert squared.right
    assert not printed.as_printed
    assert printed.error == pytest.approx(0.3, abs=0.01)  # tanh(logit P) - (2P - 1) at P = .75
    for name, form in ((name, loss_forms.form_of(loss)) for name, loss in loss_forms.LOSSES.items() if " 0" in name):
        assert form.right, name  # the minimiser is right
        assert not form.as_printed, name  # and the condition as printed fails


def test_the_table_has_a_line_a_row_and_the_exponent_is_a_power() -> None:
    assert exponent([1, 2, 4], [3.0, 3 * 2**0.5, 6.0]) == pytest.approx(0.5)
    assert min(THEORY_LABELS.index(label) for label in next(iter(theory.ROWS.values())).covers) == 0
