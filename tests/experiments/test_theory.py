"""Every claim of the paper has a row, its verdict follows its figures, and the constructions are what they say."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
from experiments import theory
from experiments.gaussian_pair import GaussianPair
from experiments.growth import exponent
from experiments.paper_claims import THEORY_LABELS
from experiments.plots import style
from experiments.runner import load
from experiments.theory_rows import lower_bound, many_classes, regret_rows, tracking
from experiments.theory_rows.row import CORRECTED, FAILS, HOLDS, NOT_AS_STATED, VERDICTS
from obil.datasets.gaussian_stream import GaussianClasses

TESTS = Path(__file__).parent.parent
QUICK: dict[str, Any] = load("theory", quick=True)[1]


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    """Every row, measured by a short run."""
    reason = theory.missing(QUICK)
    if reason is not None:
        pytest.skip(reason)
    results = [(cell, theory.run(cell, QUICK)) for cell in theory.cells(QUICK)]
    return {"figures": theory.figures(results, QUICK), "series": theory.series(results, QUICK), "settings": QUICK}


def own(record: dict[str, Any], name: str) -> dict[str, float]:
    return theory.own_figures(record["figures"], theory.ROWS[name])


def verdict_of(name: str, figures: dict[str, float]) -> str:
    return theory.ROWS[name].verdict(figures).split("**")[1]


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


# what each row says of the figures of a short run, and what it must say of others, which change only what is named
TURNS: dict[str, tuple[str, list[tuple[dict[str, float], str]]]] = {
    "transfer": (HOLDS, [({"exact.largest": 0.1}, FAILS)]),
    "costs": (
        CORRECTED, [({"plain.largest": 0.2}, FAILS), ({"twice.largest": 0.01, "divided.largest": 0.01}, HOLDS)],
    ),
    "proper scoring (Savage)": (CORRECTED, [({"without_positive_g": 0.0}, HOLDS), ({"largest_distance": 0.1}, FAILS)]),
    "characterisation of losses": (
        CORRECTED, [({"no_form_and_right": 0.0}, HOLDS), ({"form_and_wrong": 1.0}, FAILS)],
    ),
    "architecture": (
        CORRECTED,
        [({"held.squared": 0.1}, FAILS), ({"not_held.squared": 0.0, "constant.trained": 0.5}, HOLDS)],
    ),
    "squared error": (HOLDS, [({"accepted": 0.0}, FAILS)]),
    "logistic loss": (CORRECTED, [({"printed.accepted": 1.0}, HOLDS), ({"corrected.accepted": 0.0}, FAILS)]),
    "cross-entropy": (NOT_AS_STATED, [({"accepted": 0.0}, HOLDS)]),
    "error propagation": (FAILS, [({"printed.violated": 0.0}, HOLDS)]),
    "sensitivity": (
        NOT_AS_STATED, [({"at_boundary": 0.0}, HOLDS), ({"least_at.0.05": 0.1}, FAILS)],
    ),
    "undersampling": (CORRECTED, [({"kolmogorov_p": 1e-9}, FAILS)]),
    "selection bias": (CORRECTED, [({"pseudo.0.01": 0.5}, FAILS)]),
    "feedback loop": (NOT_AS_STATED, [({"algorithm2.low": 0.0}, FAILS), ({"loop.exact": 0.0}, FAILS)]),
    "stability": (FAILS, [({"rare.outside": 0.0, "common.outside": 0.0}, HOLDS)]),
    "consistency": (FAILS, [({"algorithm2.largest_factor": 1.01}, HOLDS)]),
    "tracking": (
        FAILS, [({f"{name}.stated.exponent": 0.5 for name in ("average", "em", "algorithm2")}, HOLDS)],
    ),
    "oracle and loss": (NOT_AS_STATED, [({"corrected.1.0": 1.5}, FAILS)]),
    "regret bound": (FAILS, [({"exact.growth_over_bound": 0.0, "over_no_adaptation": 0.5}, HOLDS)]),
    "stationary regret": (FAILS, [({"algorithm2.exponent": 0.5}, HOLDS)]),
    "lower bound": (
        NOT_AS_STATED, [({"stationary.exponent": 0.5}, HOLDS), ({"least.over_by_hand": 0.5}, FAILS)],
    ),
    "calibration error": (
        FAILS, [({f"bound.{e}.{p}": 0.01 for e in (0.05, 0.02) for p in (0.1, 0.5, 0.9)}, HOLDS)],
    ),
    "many classes, regret": (FAILS, [({"algorithm2.largest_growth": 0.5}, HOLDS)]),
    "one against the rest": (
        CORRECTED, [({"rest.largest_move": 0.0}, HOLDS), ({"rebased.largest_error": 0.1}, FAILS)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TURNS)
def test_a_verdict_is_that_of_its_figures_and_turns_with_them(record: dict[str, Any], name: str) -> None:
    measured, turns = TURNS[name]
    figures = own(record, name)
    assert verdict_of(name, figures) == measured
    for changed, expected in turns:
        assert changed.keys() <= figures.keys()  # or the change would be of nothing
        assert verdict_of(name, figures | changed) == expected, changed


def test_rows_that_depend_on_training_or_on_time_turn_as_well() -> None:
    widths = {"built.2": 0.5, "built.8": 0.01, "built.exponent": -2.0, "trained.2": 0.5, "trained.8": 0.1}
    assert verdict_of("universal approximation", widths) == HOLDS
    assert verdict_of("universal approximation", widths | {"trained.8": 0.4}) == FAILS
    smote = {"smote.rms.25": 1.0, "undersample.rms.25": 0.5, "smote.rms.400": 0.4, "undersample.rms.400": 0.2}
    assert verdict_of("SMOTE", smote) == CORRECTED
    assert verdict_of("SMOTE", smote | {"undersample.rms.25": 2.0}) == NOT_AS_STATED
    assert verdict_of("SMOTE", smote | {"smote.rms.400": 1.5}) == FAILS
    powers = {"training.rows": 1.0, "training.width": 2.0, "training.members": 1.0, "inference.width": 2.0}
    times = powers | {"inference.members": 1.0, "algorithm2.late_over_early": 1.0, "bank.late_over_early": 1.0}
    assert verdict_of("complexity", times | {"inference.inputs": 1.0}) == CORRECTED
    assert verdict_of("complexity", times | {"inference.inputs": 0.0}) == HOLDS
    assert verdict_of("complexity", times | {"training.rows": 2.0}) == FAILS
    assert {"universal approximation", "SMOTE", "complexity", *TURNS} == set(theory.ROWS)


def test_the_reason_follows_the_figures_too(record: dict[str, Any]) -> None:
    tracked = own(record, "tracking") | {"average.best.exponent": 0.33, "average.stated.exponent": 0.25}
    assert "its own proof" in theory.ROWS["tracking"].verdict(tracked)
    other = theory.ROWS["tracking"].verdict(tracked | {"average.best.exponent": 0.45})
    assert "0.45 at the best rate" in other


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
    fraction = regret_rows.margin_probability(0.2, np.log(4.0), margin, 2.0)
    drawn = [(np.abs(ratios - 4.0) < width).mean() for width in margin]
    assert fraction == pytest.approx(drawn, abs=0.005)


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


def test_the_exponent_is_a_power() -> None:
    assert exponent([1, 2, 4], [3.0, 3 * 2**0.5, 6.0]) == pytest.approx(0.5)


def test_the_table_has_a_line_a_row_in_the_paper_s_order_and_counts_the_verdicts(record: dict[str, Any]) -> None:
    page = theory.table(record["figures"], QUICK)
    lines = page.partition("| --- | --- | --- | --- |\n")[2].strip().split("\n")
    assert len(lines) == len(theory.ROWS)
    assert lines[0].startswith("| ")
    assert THEORY_LABELS[0] in lines[0]
    counts = Counter(verdict_of(name, own(record, name)) for name in theory.ROWS)
    assert f"{len(lines)} rows: " + ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS) in page
    for line, row in zip(lines, theory.ROWS.values(), strict=True):
        assert row.claim.replace("|", "\\|") in line
        assert f"**{verdict_of(row.name, own(record, row.name))}**" in line
    # a figure that changes its row's verdict changes the page
    flipped = record["figures"] | {f"error propagation{theory.SEPARATOR}printed.violated": 0.0}
    assert f"{counts[HOLDS] + 1} {HOLDS}, " in theory.table(flipped, QUICK)


def test_the_plot_shows_four_bounds_as_they_were_measured(record: dict[str, Any]) -> None:
    with style():
        figure = theory.plots(record)["theory"]
    propagation, tracked, stationary, least = figure.axes
    truth, printed = (line.get_ydata() for line in propagation.get_lines())
    assert list(truth) == record["series"]["propagation.truth"]
    assert list(printed) == record["series"]["propagation.printed"]
    assert f"bank: {own(record, 'tracking')['bank.exponent']:.2f}" in tracked.get_legend_handles_labels()[1]
    assert list(stationary.get_lines()[0].get_xdata()) == QUICK["stationary_horizons"]
    assert list(least.get_lines()[-1].get_ydata()) == QUICK["lower_drifts"]
