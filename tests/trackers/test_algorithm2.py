"""Algorithm 2 is what the paper prints, and it does what its documentation says of it."""

import math
from typing import Any

import numpy as np
import pytest

from experiments.gaussian_pair import GaussianPair
from experiments.paper_formulas import rate_for_drift, rate_for_drift_and_noise, rate_for_horizon
from obil.datasets.gaussian_stream import GaussianClasses
from obil.datasets.prior_paths import constant
from obil.errors import InvalidInputError
from obil.trackers import Algorithm2, BayesBank
from tests.trackers.cases import assert_in_simplex


def printed_algorithm(
    ratios: list[float], prior: float, *, alpha: float, gamma: float, beta: float, delta: float, window: int
) -> list[float]:
    """Transcribe the paper's binary algorithm line by line; return the estimate before each row and at the end."""
    estimates, above = [prior], []
    for q in ratios:
        p_lr = q / (q + (1.0 - prior) / prior)
        above.append(1.0 if q > 1.0 else 0.0)
        recent = above[-window:]  # for t < W the rows seen so far
        frequency = sum(recent) / len(recent)
        combined = beta * p_lr + (1.0 - beta) * frequency
        if abs(combined - prior) < delta:
            if combined > gamma or combined < 1.0 - gamma:
                prior = alpha * combined + (1.0 - alpha) * prior
        else:
            prior = prior + math.copysign(delta, combined - prior)
        negative, positive = max(1.0 - prior, 1e-6), max(prior, 1e-6)  # the floor of our implementation
        prior = positive / (negative + positive)
        estimates.append(prior)
    return estimates


SETTINGS = [
    {"alpha": 0.05, "gamma": 0.9, "beta": 0.6, "delta": 0.02, "window": 100},
    {"alpha": 0.3, "gamma": 0.6, "beta": 0.2, "delta": 0.15, "window": 7},
    {"alpha": 0.01, "gamma": 0.99, "beta": 0.95, "delta": 0.5, "window": 1},
    {"alpha": 1.0, "gamma": 0.7, "beta": 1.0, "delta": 0.3, "window": 50},
    {"alpha": 0.1, "gamma": 0.8, "beta": 0.0, "delta": 0.05, "window": 30},
]


@pytest.mark.parametrize("paper", SETTINGS)
@pytest.mark.parametrize("kind", ["drawn", "ties", "extreme"])
def test_it_agrees_with_a_transcription_of_the_printed_algorithm(paper: dict[str, float], kind: str) -> None:
    rng = np.random.default_rng(0)
    if kind == "drawn":
        logs = GaussianClasses.pair(1.5).draw(rng.uniform(0.0, 0.6, 600), random_state=rng).log_ratios[:, 1]
    elif kind == "ties":
        logs = rng.choice([0.0, 0.0, -0.5, 0.5, 3.0], 600)  # a ratio of exactly 1 is not above 1
    else:
        logs = rng.choice([-40.0, -40.0, -40.0, 40.0], 600)
    rename = {"alpha": "rate", "gamma": "confidence", "beta": "mixing", "delta": "clamp", "window": "window"}
    tracker = Algorithm2(0.07, **{rename[name]: value for name, value in paper.items()})
    priors = tracker.update_many(np.stack([np.zeros(600), logs], axis=1))
    expected = printed_algorithm(np.exp(logs).tolist(), 0.07, **paper)
    np.testing.assert_allclose([*priors[:, 1], tracker.prior[1]], expected, rtol=0.0, atol=1e-12)


def test_a_ratio_of_exactly_one_is_not_above_one() -> None:
    tracker = Algorithm2(0.3, mixing=0.0, clamp=1.0, rate=1.0, confidence=0.5)
    tracker.update([0.0, 0.0])
    assert tracker.prior[1] == pytest.approx(1e-6, rel=1e-3)  # the frequency is 0, at the floor
    tracker.update_many([[0.0, 1e-9]] * 2)
    assert tracker.prior[1] == pytest.approx(2.0 / 3.0)  # two of the three rows so far are above


def test_with_exact_ratios_it_is_far_off_where_the_bank_is_not() -> None:
    # seed 1: 500,000 rows at .005, separation 1.5, means over the second half. Over 20 other seeds
    # the bank stays in .0039 ... .0059 (sd .10 in the log): a factor 1.5 is 4 sd, false-failure rate 6e-5
    rows = GaussianClasses.pair(1.5).draw(constant(500_000, 0.005), random_state=1).log_ratios
    biased = Algorithm2(0.05).update_many(rows)[250_000:, 1].mean()
    sound = BayesBank(0.05).update_many(rows)[250_000:, 1].mean()
    assert biased == pytest.approx(0.13, abs=0.02)
    assert 0.005 / 1.5 < sound < 0.005 * 1.5


def test_inverting_the_frequency_helps_at_rare_priors() -> None:
    # seed 1: 20,000 rows at .005; with the exact rates of the Gaussian pair the estimate falls from .13 to .02
    true_rate, false_rate = (float(rate) for rate in GaussianPair(1.5).rates(0.0))
    confusion = [[1.0 - false_rate, 1.0 - true_rate], [false_rate, true_rate]]
    rows = GaussianClasses.pair(1.5).draw(constant(20_000, 0.005), random_state=1).log_ratios
    printed = Algorithm2(0.05).update_many(rows)[10_000:, 1].mean()
    inverted = Algorithm2(0.05, confusion=confusion).update_many(rows)[10_000:, 1].mean()
    assert abs(inverted - 0.005) < 0.3 * abs(printed - 0.005)


def test_inverting_the_frequency_harms_where_the_two_biases_offset_each_other() -> None:
    # seed 1: 20,000 rows at .1, separation 3: both too low, about .075 as printed and .052 inverted
    true_rate, false_rate = (float(rate) for rate in GaussianPair(3.0).rates(0.0))
    confusion = [[1.0 - false_rate, 1.0 - true_rate], [false_rate, true_rate]]
    rows = GaussianClasses.pair(3.0).draw(constant(20_000, 0.1), random_state=1).log_ratios
    printed = Algorithm2(0.05).update_many(rows)[10_000:, 1].mean()
    inverted = Algorithm2(0.05, confusion=confusion).update_many(rows)[10_000:, 1].mean()
    assert inverted < printed - 0.01 < 0.09


def test_the_inverted_frequency_is_the_prior_it_came_from() -> None:
    # predictions with frequency h(P) = FPR + P (TPR - FPR) at a known P; mixing 0 leaves the frequency alone
    true_rate, false_rate, prior = 0.8, 0.3, 0.4
    frequency = false_rate + prior * (true_rate - false_rate)  # one half
    assert frequency == 0.5
    rows = np.array([[0.0, 1.0], [0.0, -1.0]] * 200)
    options = {"mixing": 0.0, "rate": 1.0, "clamp": 1.0, "confidence": 0.5, "window": 100}
    inverted = Algorithm2(0.2, confusion=[[0.7, 0.2], [0.3, 0.8]], **options)
    inverted.update_many(rows)
    assert inverted.prior[1] == pytest.approx(prior, abs=1e-9)
    printed = Algorithm2(0.2, **options)
    printed.update_many(rows)
    assert printed.prior[1] == pytest.approx(frequency, abs=0.01)


def test_it_freezes_while_the_mix_is_unsure_and_within_the_clamp() -> None:
    rng = np.random.default_rng(3)
    logs = np.stack([np.zeros(500), rng.uniform(-1.0, 1.0, 500)], axis=1)
    # always within the clamp; the mix is the posterior, in .27 ... .73
    options: dict[str, Any] = {"clamp": 1.0, "mixing": 1.0}
    frozen = Algorithm2(0.5, confidence=0.9, **options)
    assert (frozen.update_many(logs) == 0.5).all()
    assert frozen.prior[1] == 0.5
    thawed = Algorithm2(0.5, confidence=0.5, **options)
    thawed.update_many(logs)
    assert thawed.prior[1] != 0.5


def test_the_clamp_bounds_the_step_and_not_the_walk() -> None:
    eta, clamp = 0.05, 0.02  # Delta < eta, which the paper takes for P staying in [eta, 1 - eta]
    falling = Algorithm2(0.1, clamp=clamp).update_many([[0.0, -20.0]] * 400)[:, 1]
    rising = Algorithm2(0.9, clamp=clamp).update_many([[0.0, 20.0]] * 400)[:, 1]
    for walk in (falling, rising):
        assert abs(np.diff(walk)).max() <= clamp + 1e-12
    assert falling.min() < eta
    assert rising.max() > 1.0 - eta


@pytest.mark.parametrize("n_classes", [3, 6])
def test_with_more_classes_it_stays_in_the_simplex_and_the_clamp_bounds_every_class(n_classes: int) -> None:
    rng = np.random.default_rng(4)
    rows = rng.normal(scale=8.0, size=(2_000, n_classes))
    rows[:, 0] = 0.0
    priors = Algorithm2(np.full(n_classes, 1.0 / n_classes), clamp=0.03).update_many(rows)
    assert_in_simplex(priors)
    largest = abs(np.diff(priors, axis=0)).max(axis=1)
    assert largest.max() <= 0.03 + n_classes * 1e-6  # the floor of 1e-6 may add to a step
    assert largest.max() > 0.03 - 1e-9  # and the clamp is reached


def test_the_schedules_of_the_paper() -> None:
    assert rate_for_horizon(10_000) == pytest.approx(math.sqrt(math.log(10_000) / 10_000))
    assert rate_for_horizon(2) == pytest.approx(math.sqrt(math.log(2) / 2))
    assert rate_for_drift(1e-4) == pytest.approx(0.01)
    assert rate_for_drift(0.0) == 0.0
    assert rate_for_drift_and_noise(0.0005, 1.0) == pytest.approx(0.01)
    assert rate_for_drift_and_noise(0.004, 0.008) == 1.0
    assert rate_for_drift_and_noise(0.5, 0.1) == 1.0  # a rate is at most 1


def test_schedules_and_settings_out_of_range_are_refused() -> None:
    for call in (
        lambda: rate_for_horizon(1),
        lambda: rate_for_drift(-0.1),
        lambda: rate_for_drift_and_noise(0.1, 0.0),
        lambda: rate_for_drift_and_noise(0.1, math.nan),
        lambda: rate_for_drift_and_noise(-0.1, 1.0),
        lambda: Algorithm2(0.1, rate=1.1),
        lambda: Algorithm2(0.1, confidence=0.4),
        lambda: Algorithm2(0.1, mixing=-0.1),
        lambda: Algorithm2(0.1, clamp=math.nan),
        lambda: Algorithm2(0.1, window=0),
        lambda: Algorithm2(0.1, confusion=[[0.5, 0.5], [0.5, 0.5]]),
        lambda: Algorithm2(0.1, confusion=np.eye(3)),
    ):
        with pytest.raises(InvalidInputError):
            call()
