"""The gate deploys what is calibrated, never what is biased, and says when it cannot tell."""

import json
import time
from collections import Counter

import numpy as np
import pytest

from obil.calibration.diagnose import diagnose
from obil.calibration.gate import Gate
from obil.errors import InvalidInputError
from obil.serving.holdout import Holdout
from tests.calibration.rows import held_out, three_classes, with_counts
from tests.thorough import repeats

QUICK = Gate(n_simulations=60)
N_SETS = repeats(100, 200)
SEEDS = range(N_SETS)


def test_a_bias_of_seven_tenths_is_never_deployed_on_two_thousand_rows_at_one_percent() -> None:
    decisions = Counter(QUICK.judge(held_out(2000, 0.01, seed, bias=0.7)).decision for seed in SEEDS)
    assert decisions["deploy"] == 0
    assert decisions["too few"] <= N_SETS / 10  # it is seen, not only doubted


@pytest.mark.parametrize("n_rows", [2000, 5000])
def test_of_many_calibrated_sets_with_fifty_positives_few_are_refused_and_most_deployed(n_rows: int) -> None:
    # a set is refused with probability below .01: more than 7 of 100, or 10 of 200, with probability below 1e-5
    decisions = Counter(QUICK.judge(with_counts(n_rows - 50, 50, seed)).decision for seed in SEEDS)
    assert decisions["refuse"] <= (7 if N_SETS == 100 else 10)
    assert decisions["deploy"] >= 0.8 * N_SETS


def test_a_large_bias_or_slope_is_refused_in_a_sentence_with_figures() -> None:
    biased = QUICK.judge(held_out(5000, 0.05, 0, bias=1.2))
    assert biased.decision == "refuse"
    assert biased.sentence.startswith("Refuse: the log ratios are 1.")
    assert "too high (allowed 0.35, by chance up to 0." in biased.sentence
    steep = QUICK.judge(held_out(5000, 0.2, 0, slope=0.5))
    assert steep.decision == "refuse"
    assert any("the recalibration slope is" in reason for reason in steep.reasons)


def test_a_small_fault_is_a_warning() -> None:
    verdict = QUICK.judge(held_out(20_000, 0.1, 0, bias=0.5))
    assert verdict.decision == "warn"
    assert "too high" in verdict.sentence


def test_above_fifteen_hundredths_the_papers_fallback_is_named() -> None:
    verdict = QUICK.judge(held_out(5000, 0.1, 0, bias=3.0))
    assert verdict.figures["balanced_ece"].value > 0.15
    assert "batch BBSE, or logit adjustment with periodic re-estimation" in verdict.sentence
    assert "BBSE" not in QUICK.judge(held_out(5000, 0.1, 0, bias=0.8)).sentence


def test_calibration_error_at_the_rows_own_prior_never_decides() -> None:
    rows = held_out(20_000, 0.01, 2, bias=2.0)
    assert diagnose(rows).own.ece_equal_width < 0.05  # the paper's rule would deploy this
    verdict = QUICK.judge(rows)
    assert verdict.decision == "refuse"
    assert set(verdict.figures) == {"offset", "slope_error", "balanced_ece"}


def test_a_score_that_cannot_separate_the_classes_is_refused() -> None:
    noise = np.random.default_rng(0).standard_normal(2000)
    labels = np.random.default_rng(1).integers(0, 2, 2000)
    verdict = QUICK.judge(Holdout.of(np.stack([np.zeros(2000), noise * 0.01], axis=1), labels))
    assert verdict.decision == "refuse"
    assert "does not separate the classes (AUC 0." in verdict.sentence
    backwards = held_out(2000, 0.3, 0)
    verdict = QUICK.judge(Holdout.of(-backwards.log_ratios, backwards.labels))
    assert verdict.decision == "refuse"
    assert "ranks the classes backwards" in verdict.sentence


@pytest.mark.parametrize(
    ("bias", "slope", "said"),
    [
        (0.0, 1.0, "Deploy: the log ratios are calibrated as far as these rows can tell (offset 0.0"),
        (0.0, 1.15, "% interval of the slope, 0."),
        (0.2, 1.0, "% interval of the offset, -0."),
    ],
)
def test_the_sentence_says_calibrated_only_where_the_intervals_hold_the_ideal(
    bias: float, slope: float, said: str
) -> None:
    verdict = QUICK.judge(held_out(20_000, 0.2, 0, bias=bias, slope=slope))
    assert verdict.decision == "deploy"
    assert said in verdict.sentence
    assert ("calibrated as far as" in verdict.sentence) == ("excludes" not in verdict.sentence)


def test_with_three_classes_the_sentence_names_the_class_whose_offset_is_out() -> None:
    verdict = QUICK.judge(three_classes(20_000, 1, bias=0.25))
    assert verdict.decision == "deploy"
    assert "interval of the offset of class 2, -0." in verdict.sentence


def test_too_few_positives_is_its_own_verdict() -> None:
    verdicts = [QUICK.judge(with_counts(2000, 8, seed)) for seed in range(20)]
    verdicts += [QUICK.judge(with_counts(8, 2000, seed)) for seed in range(20)]
    decisions = Counter(verdict.decision for verdict in verdicts)
    assert decisions["deploy"] == 0
    assert decisions["too few"] >= 32  # the others showed a fault beyond chance, as 5 % do
    told = next(verdict for verdict in verdicts if verdict.decision == "too few")
    assert told.sentence == "Too few rows to tell: the rarest class has 8 rows and 20 are asked for."


def test_a_gross_fault_shows_even_in_few_rows() -> None:
    assert QUICK.judge(with_counts(2000, 12, 0, bias=3.0)).decision == "refuse"


def test_classes_far_apart_need_no_proof_of_what_would_change_nothing() -> None:
    assert QUICK.judge(with_counts(2000, 50, 0, separation=9.0)).decision == "deploy"


@pytest.mark.parametrize("n_rows", [600, 6000])
def test_three_calibrated_classes_are_not_refused_and_a_bias_on_one_is_not_deployed(n_rows: int) -> None:
    decisions = Counter(QUICK.judge(three_classes(n_rows, seed)).decision for seed in range(20))
    assert decisions["refuse"] <= 1
    assert n_rows < 6000 or decisions["deploy"] >= 17
    biased = Counter(QUICK.judge(three_classes(n_rows, seed, bias=0.8)).decision for seed in range(20))
    assert biased["deploy"] == 0


def test_which_class_is_number_0_does_not_matter() -> None:
    rows = three_classes(4000, 3, bias=0.6)
    order = [2, 0, 1]
    turned = rows.log_ratios[:, order] - rows.log_ratios[:, order[:1]]
    other = Holdout.of(turned, np.argsort(order)[rows.labels])
    first, second = (QUICK.judge(holdout).figures for holdout in (rows, other))
    for name in first:
        assert second[name].value == pytest.approx(first[name].value, abs=1e-4)


def test_a_judgement_repeats_changes_nothing_and_is_plain_json() -> None:
    rows = held_out(1000, 0.1, 5)
    before = rows.log_ratios.copy()
    verdict = QUICK.judge(rows)
    assert verdict.to_json() == QUICK.judge(diagnose(rows)).to_json()
    np.testing.assert_array_equal(rows.log_ratios, before)
    assert json.loads(json.dumps(verdict.to_json(), allow_nan=False))["decision"] == verdict.decision


def test_weighted_rows_count_for_what_they_say() -> None:
    rows = with_counts(2000, 60, 1)
    weights = np.ones(2060)
    weights[-60:-5] = 1e-3  # five positives carry nearly all the weight
    assert QUICK.judge(Holdout.of(rows.log_ratios, rows.labels, weights)).decision == "too few"


def test_twenty_thousand_rows_are_judged_within_two_seconds() -> None:
    rows = held_out(20_000, 0.05, 0)
    start = time.perf_counter()
    Gate().judge(rows)
    assert time.perf_counter() - start < 2.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_offset": 0.0}, "max_offset must be positive and finite, got 0.0"),
        ({"refuse_factor": 0.5}, "refuse_factor must lie in"),
        ({"alpha": 0.9}, "alpha must lie in"),
        ({"n_simulations": 3}, "n_simulations must lie in"),
    ],
)
def test_a_setting_outside_its_range_is_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Gate(**settings)
