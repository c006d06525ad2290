"""What every policy that reads held-out rows keeps to."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obil.bayes.one_vs_rest import one_vs_rest
from obil.datasets.gaussian_stream import GaussianClasses
from obil.errors import InvalidInputError
from obil.policies import AlertBudget, FBetaPolicy, GMeanPolicy, Policy, PrecisionFloor, RecallFloor
from obil.policies.notation import policy_from_json
from obil.policies.operating_curve import OperatingCurve
from obil.serving.holdout import Holdout
from tests.policies.cases import POLICIES, TABLED, binary_rows, gaussian_holdout

MANY_PRIORS = np.concatenate([[0.0, 1.0], np.geomspace(1e-7, 0.5, 40), 1.0 - np.geomspace(1e-7, 0.4, 40)])
every_tabled = pytest.mark.parametrize("policy", TABLED, ids=repr)


@pytest.mark.parametrize("policy", [GMeanPolicy(), RecallFloor(0.9)], ids=repr)
def test_geometric_mean_and_recall_do_not_depend_on_the_prior(policy: Policy) -> None:
    thresholds = policy.bind(gaussian_holdout(2_000)).log_thresholds(MANY_PRIORS)
    assert np.isfinite(thresholds[0])
    assert (thresholds == thresholds[0]).all()


def test_a_precision_out_of_reach_alerts_nothing_and_says_so() -> None:
    bound = PrecisionFloor(0.95).bind(gaussian_holdout(2_000))
    assert bound.log_thresholds([1e-5, 0.3])[0] == np.inf
    assert bound.reachable([1e-5, 0.3]).tolist() == [False, True]


def test_two_lucky_rows_do_not_make_a_precision() -> None:
    scores = [9.0, 8.0, 0.0, -0.1, -0.2, -0.3]
    two = PrecisionFloor(0.6).bind(Holdout.of(binary_rows(scores), [1, 1, 0, 1, 0, 0]))
    three = PrecisionFloor(0.6).bind(Holdout.of(binary_rows([10.0, *scores]), [1, 1, 1, 0, 1, 0, 0]))
    assert two.reachable([0.3]).tolist() == [False]
    assert three.reachable([0.3]).tolist() == [True]


@pytest.mark.parametrize("n_rows", [4, 20, 400])
def test_a_precision_is_that_of_the_rows_above_and_two_more_at_the_prior(n_rows: int) -> None:
    """Ten rows in eleven above the threshold are positive, by posteriors as by labels."""
    scores = np.repeat([np.log(10.0), -np.log(10.0)], n_rows)
    rows = Holdout.of(binary_rows(scores), np.resize([1, 0], 2 * n_rows))
    expected = (n_rows * 10.0 / 11.0 + 2.0 * 0.5) / (n_rows + 2.0)
    assert PrecisionFloor(expected - 1e-6).bind(rows).log_thresholds([0.5])[0] == 0.0
    assert PrecisionFloor(expected + 1e-6).bind(rows).log_thresholds([0.5])[0] == np.inf


def test_a_prior_above_the_floor_alerts_everything() -> None:
    assert PrecisionFloor(0.5).bind(gaussian_holdout(500)).log_thresholds([0.6]).tolist() == [-np.inf]


def test_a_budget_below_one_held_out_row_alerts_nothing() -> None:
    bound = AlertBudget(1e-4).bind(gaussian_holdout(100, prior=0.3))
    assert bound.reachable([0.3]).tolist() == [False]


def test_scores_that_are_all_equal_reach_what_alerting_everything_reaches() -> None:
    rows = Holdout.of(binary_rows(np.zeros(10)), [0, 1] * 5)
    found = {policy.name: policy.bind(rows).log_thresholds([0.3])[0] for policy in TABLED}
    assert found == {"fbeta": -np.inf, "gmean": np.inf, "recall": -np.inf, "precision": np.inf, "budget": np.inf}


@every_tabled
def test_weights_stand_for_repeated_rows(policy: Policy) -> None:
    rows = gaussian_holdout(300, prior=0.2)
    times = np.random.default_rng(0).integers(1, 4, 300)
    repeated = Holdout.of(np.repeat(rows.log_ratios, times, axis=0), np.repeat(rows.labels, times))
    weighed = Holdout.of(rows.log_ratios, rows.labels, times.astype(float))
    priors = np.array([0.05, 0.2, 0.5])
    expected, found = (policy.bind(each).log_thresholds(priors) for each in (repeated, weighed))
    if isinstance(policy, PrecisionFloor):  # three copies of a row are three rows, one row of weight 3 is one
        assert (found >= expected).all()
        assert (found - expected < 0.5)[1:].all()
        return
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@every_tabled
def test_flipping_the_classes_flips_nothing_but_the_names(policy: Policy) -> None:
    rows = gaussian_holdout(500, prior=0.2)
    flipped = Holdout.of(binary_rows(-rows.log_ratios[:, 1]), 1 - rows.labels)
    priors = np.array([0.01, 0.2, 0.7])
    np.testing.assert_allclose(
        policy.bind(flipped, positive=0).log_thresholds(priors), policy.bind(rows).log_thresholds(priors), atol=1e-9
    )


@every_tabled
def test_one_of_three_classes_is_one_of_two_when_the_others_are_alike(policy: Policy) -> None:
    rows = gaussian_holdout(1_000, prior=0.2)
    halves = np.where(rows.labels == 1, 2, np.arange(1_000) % 2)
    three = Holdout.of(np.insert(rows.log_ratios, 1, 0.0, axis=1), halves)
    priors = np.array([0.01, 0.2, 0.7])
    np.testing.assert_allclose(
        policy.bind(three, positive=2).log_thresholds(priors), policy.bind(rows).log_thresholds(priors), atol=1e-9
    )


def test_a_positive_class_among_three_gets_the_recall_asked_for() -> None:
    # 4,000 positives on each side: the recall's standard deviation is .0072 (30 seeds); beyond .03 once in 30,000
    classes = GaussianClasses(np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.5]]), np.eye(2))
    prior = np.array([0.6, 0.2, 0.2])
    held, fresh = (classes.draw(np.tile(prior, (20_000, 1)), random_state=seed) for seed in (0, 1))
    bound = RecallFloor(0.8).bind(Holdout.of(held.log_ratios, held.labels), positive=2)
    scores = one_vs_rest(fresh.log_ratios, prior, 2)
    alerted = scores > bound.log_thresholds(np.full(20_000, 0.2))
    assert abs(alerted[fresh.labels == 2].mean() - 0.8) < 0.03
    with pytest.raises(InvalidInputError, match="positive="):
        RecallFloor(0.8).bind(Holdout.of(held.log_ratios, held.labels))


holdouts = st.integers(2, 40).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(-30.0, 30.0) | st.sampled_from([0.0, 1.0, -700.0, 1e300]), min_size=n, max_size=n),
        st.lists(st.integers(0, 1), min_size=n - 2, max_size=n - 2).map(lambda labels: [0, 1, *labels]),
        st.lists(st.floats(0.0, 50.0), min_size=n - 2, max_size=n - 2).map(lambda weights: [1.0, 1.0, *weights]),
    )
)


@settings(deadline=None, max_examples=60)
@given(holdouts)
def test_whatever_the_rows_a_threshold_is_a_number_and_reachable_means_alerts(rows: tuple) -> None:
    scores, labels, weights = rows
    holdout = Holdout.of(binary_rows(scores), labels, weights)
    for policy in TABLED:
        bound = policy.bind(holdout)
        thresholds = bound.log_thresholds(MANY_PRIORS)
        assert not np.isnan(thresholds).any()
        np.testing.assert_array_equal(bound.reachable(MANY_PRIORS), thresholds < np.inf)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(4, 200), st.floats(0.1, 4.0))
def test_a_likelier_class_is_alerted_sooner_and_a_budget_is_spent_sooner(seed: int, n_rows: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    holdout = Holdout.of(binary_rows(rng.normal(scale=spread, size=n_rows)), np.arange(n_rows) % 2)
    priors = np.sort(MANY_PRIORS)
    for policy in (FBetaPolicy(), FBetaPolicy(2.0), PrecisionFloor(0.7)):
        found = policy.bind(holdout).log_thresholds(priors)
        assert (found[1:] <= found[:-1] + 1e-9).all()
    found = AlertBudget(0.1).bind(holdout).log_thresholds(priors)
    assert (found[1:] >= found[:-1] - 1e-9).all()


def test_a_stricter_setting_moves_the_threshold_in_its_direction() -> None:
    rows, levels = gaussian_holdout(2_000), [0.1, 0.3, 0.5, 0.7, 0.9]
    recall, precision, budget, beta = (
        np.array([build(level).bind(rows).log_thresholds([0.1])[0] for level in levels])
        for build in (RecallFloor, PrecisionFloor, AlertBudget, FBetaPolicy)
    )
    assert (recall[1:] < recall[:-1]).all()
    assert (precision[1:] > precision[:-1]).all()
    assert (budget[1:] < budget[:-1]).all()
    assert (beta[1:] <= beta[:-1]).all()


@every_tabled
def test_says_that_it_needs_held_out_rows(policy: Policy) -> None:
    with pytest.raises(InvalidInputError, match="held-out rows"):
        policy.bind(None)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_a_policy_survives_json_and_compares(policy: Policy) -> None:
    restored = policy_from_json(json.loads(json.dumps(policy.to_json())))
    assert restored == policy
    assert hash(restored) == hash(policy)
    assert sum(other == policy for other in POLICIES) == 1


def test_a_recall_that_rounding_alone_would_miss_is_reached() -> None:
    # ten positives of weight 1.3: summed one by one, the first nine are less than .9 of all ten
    scores, labels = np.append(np.arange(10.0, 0.0, -1.0), -5.0), [1] * 10 + [0]
    curve = OperatingCurve.of(Holdout.of(binary_rows(scores), labels, [1.3] * 11), soft=False)
    assert curve.true_positive_rates[9] < 0.9
    for n_found in range(1, 10):
        assert RecallFloor(n_found / 10).choose(curve, np.array([0.5]))[0] == 10.5 - n_found
