"""Every prior path is what its name says, and the random ones replay by seed."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from obil.datasets import prior_paths
from obil.errors import InvalidInputError


def test_a_constant_path_never_moves() -> None:
    assert prior_paths.constant(5, 0.3).tolist() == [0.3] * 5


def test_a_step_changes_once_at_its_row() -> None:
    assert prior_paths.step(5, 0.1, 0.4, at=3).tolist() == [0.1, 0.1, 0.1, 0.4, 0.4]


def test_a_ramp_moves_evenly_from_first_to_last() -> None:
    path = prior_paths.ramp(101, 0.6, 0.1)
    assert (path[0], path[-1]) == (0.6, 0.1)
    np.testing.assert_allclose(np.diff(path), -0.005, rtol=1e-9)


def test_a_sine_is_the_one_of_the_six_scenarios() -> None:
    path = prior_paths.sine(5_000, middle=0.1, amplitude=0.09, period=2_000)
    for t in (0, 1, 500, 777, 1_500, 4_999):
        assert path[t] == pytest.approx(0.1 + 0.09 * math.sin(2.0 * math.pi * t / 2_000.0), abs=1e-12)
    assert path[500] == pytest.approx(0.19)
    assert path[1_500] == pytest.approx(0.01)


def test_a_square_starts_low_and_changes_every_half_period() -> None:
    path = prior_paths.square(4_500, 0.02, 0.2, half_period=1_000)
    for t in (0, 999, 1_000, 1_999, 2_000, 3_999, 4_000, 4_499):
        assert path[t] == (0.02 if (t // 1_000) % 2 == 0 else 0.2)


def test_a_jump_decays_after_its_row_and_is_flat_before() -> None:
    path = prior_paths.jump_and_decay(3_000, base=0.03, height=0.09, at=500, decay=1_000.0)
    assert set(path[:500].tolist()) == {0.03}
    for t in (500, 501, 1_500, 2_999):
        assert path[t] == pytest.approx(0.03 + 0.09 * math.exp(-(t - 500) / 1_000.0), abs=1e-12)


def drift(n_rows: int) -> np.ndarray:
    return prior_paths.bounded_walk(
        n_rows, start=0.1, step_size=0.002, flip_probability=0.005, low=0.02, high=0.5, random_state=5
    )


def test_the_drift_of_the_six_scenarios_is_replayed_exactly_by_seed() -> None:
    uniforms = np.random.default_rng(5).random(20_000)  # one uniform per row
    level, direction, expected = 0.1, 1.0, []
    for uniform in uniforms:
        expected.append(level)
        if uniform < 0.005:
            direction = -direction
        level += 0.002 * direction
        if level <= 0.02:
            level, direction = 0.02, 1.0
        if level >= 0.5:
            level, direction = 0.5, -1.0
    path = drift(20_000)
    np.testing.assert_array_equal(path, expected)
    np.testing.assert_array_equal(path, drift(20_000))
    # seed 5: it reaches both ends and turns at random in between
    assert path.min() == 0.02
    assert path.max() == 0.5
    inside = (path[1:-1] > 0.03) & (path[1:-1] < 0.49)
    turns = np.diff(np.sign(np.diff(path))) != 0
    assert 50 < (turns & inside).sum() < 150  # 20,000 rows at .005: about 100


def test_a_walk_moves_by_its_step_or_less_and_stays_inside() -> None:
    for seed in range(5):
        path = prior_paths.bounded_walk(
            2_000, start=0.4, step_size=0.03, flip_probability=0.2, low=0.3, high=0.5, random_state=seed
        )
        assert path[0] == 0.4
        assert path.min() >= 0.3
        assert path.max() <= 0.5
        assert abs(np.diff(path)).max() <= 0.03 + 1e-12


def test_two_regimes_start_low_and_switch_at_the_stated_rate() -> None:
    path = prior_paths.two_regimes(100_000, 0.02, 0.2, switch_probability=0.01, random_state=0)
    assert path[0] == 0.02
    assert set(path.tolist()) == {0.02, 0.2}
    # seed 0: binomial(99,999, .01) has sd 31.5; tolerance 4 sd, false-failure rate 6e-5
    assert (np.diff(path) != 0.0).sum() == pytest.approx(1_000, abs=126)
    again = prior_paths.two_regimes(100_000, 0.02, 0.2, switch_probability=0.01, random_state=0)
    np.testing.assert_array_equal(path, again)


def test_a_generator_in_place_of_a_seed_gives_the_same_path() -> None:
    options = {"start": 0.1, "step_size": 0.01, "flip_probability": 0.1, "low": 0.05, "high": 0.5}
    by_seed = prior_paths.bounded_walk(50, **options, random_state=3)
    by_generator = prior_paths.bounded_walk(50, **options, random_state=np.random.default_rng(3))
    np.testing.assert_array_equal(by_seed, by_generator)


@pytest.mark.parametrize("n_rows", [0, 1])
def test_a_path_may_be_as_short_as_none(n_rows: int) -> None:
    walk = prior_paths.bounded_walk(
        n_rows, start=0.1, step_size=0.01, flip_probability=0.1, low=0.05, high=0.5, random_state=0
    )
    regimes = prior_paths.two_regimes(n_rows, 0.1, 0.2, switch_probability=0.1, random_state=0)
    for path in (walk, regimes, prior_paths.constant(n_rows, 0.1), prior_paths.ramp(n_rows, 0.1, 0.2)):
        assert path.shape == (n_rows,)
        assert path.dtype == np.float64


WALK = {"start": 0.1, "step_size": 0.01, "flip_probability": 0.1, "low": 0.05, "high": 0.5, "random_state": 0}


@pytest.mark.parametrize(
    ("path", "arguments", "options"),
    [
        (prior_paths.constant, (3, 0.0), {}),
        (prior_paths.constant, (3, 1.0), {}),
        (prior_paths.constant, (3, np.nan), {}),
        (prior_paths.step, (3, 0.1, 1.2), {"at": 1}),
        (prior_paths.step, (3, -0.1, 0.2), {"at": 1}),
        (prior_paths.ramp, (3, 0.1, 1.0), {}),
        (prior_paths.ramp, (3, np.nan, 0.5), {}),
        (prior_paths.sine, (3,), {"middle": 0.1, "amplitude": 0.1, "period": 10}),
        (prior_paths.sine, (3,), {"middle": 0.9, "amplitude": -0.1, "period": 10}),
        (prior_paths.square, (3, 0.0, 0.5), {"half_period": 1}),
        (prior_paths.square, (3, 0.1, 1.0), {"half_period": 1}),
        (prior_paths.jump_and_decay, (3,), {"base": 0.5, "height": 0.5, "at": 1, "decay": 10.0}),
        (prior_paths.jump_and_decay, (3,), {"base": 0.0, "height": 0.5, "at": 1, "decay": 10.0}),
        (prior_paths.bounded_walk, (3,), {**WALK, "start": 0.6}),
        (prior_paths.bounded_walk, (3,), {**WALK, "low": 0.0}),
        (prior_paths.bounded_walk, (3,), {**WALK, "high": 1.0}),
        (prior_paths.two_regimes, (3, 0.1, 1.0), {"switch_probability": 0.1, "random_state": 0}),
        (prior_paths.two_regimes, (3, 0.0, 0.5), {"switch_probability": 0.1, "random_state": 0}),
    ],
)
def test_a_level_outside_the_open_interval_is_refused(
    path: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInputError):
        path(*arguments, **options)


@pytest.mark.parametrize(
    ("path", "arguments", "options"),
    [
        (prior_paths.sine, (3,), {"middle": 0.1, "amplitude": 0.05, "period": 0}),
        (prior_paths.square, (3, 0.1, 0.5), {"half_period": 0}),
        (prior_paths.jump_and_decay, (3,), {"base": 0.1, "height": 0.1, "at": 1, "decay": 0.0}),
        (prior_paths.jump_and_decay, (3,), {"base": 0.1, "height": 0.1, "at": 1, "decay": -1.0}),
        (prior_paths.bounded_walk, (3,), {**WALK, "flip_probability": 1.5}),
        (prior_paths.bounded_walk, (3,), {**WALK, "flip_probability": np.nan}),
        (prior_paths.bounded_walk, (3,), {**WALK, "step_size": np.nan}),
        (prior_paths.two_regimes, (3, 0.1, 0.5), {"switch_probability": -0.1, "random_state": 0}),
    ],
)
def test_a_speed_that_makes_no_sense_is_refused(
    path: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInputError):
        path(*arguments, **options)
