"""An ensemble is the weighted sum of its members, however it is computed."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from obil.errors import InvalidInputError
from obil.serving.ensemble import EnsembleScorer, GatingNetwork
from obil.serving.scorers import EstimatorScorer
from tests.serving.ensembles import WIDTH, binary, feature_map, network, rows, softmax_of_three, stump_forest


def logistic(n_classes: int = 2) -> EstimatorScorer:
    X = np.nan_to_num(rows(90, seed=4))
    fitted = LogisticRegression().fit(X, np.arange(90) % n_classes)
    return EstimatorScorer(fitted, "predict_proba", np.full(n_classes, 1.0 / n_classes), 1e-12, WIDTH)


def complete(n: int, seed: int = 0) -> np.ndarray:
    """Rows without gaps, which a linear model takes too."""
    return np.nan_to_num(rows(n, seed))


@pytest.mark.parametrize("n", [1, 2, 1_025])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_fixed_weights_give_the_weighted_sum_of_the_members(n: int, n_classes: int) -> None:
    features = feature_map()
    networks = [binary(features, s) if n_classes == 2 else softmax_of_three(features, s) for s in (0, 1)]
    members = (networks[0], stump_forest(n_classes), networks[1], logistic(n_classes))
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    ensemble = EnsembleScorer(members, weights)
    assert [len(stack.rest) for stack in ensemble.stacks] == ([2] if n_classes == 2 else [])
    X = complete(n)
    expected = sum(prior * member.scores(X) for prior, member in zip(weights, members, strict=True))
    np.testing.assert_allclose(ensemble.scores(X), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        np.einsum("m,nmk->nk", weights, ensemble.member_scores(X)), ensemble.scores(X), rtol=1e-6, atol=1e-6
    )
    assert not ensemble.scores(X)[:, 0].any()


@pytest.mark.parametrize("n", [1, 2, 1_025])
@pytest.mark.parametrize("case", ["stacked", "other features", "with trees", "three classes", "deep gating network"])
def test_a_gating_network_weights_the_members_per_row(case: str, n: int) -> None:
    features = feature_map()
    n_classes = 3 if case == "three classes" else 2
    first, second = (binary(features, s) if n_classes == 2 else softmax_of_three(features, s) for s in (0, 1))
    members = (first, stump_forest() if case == "with trees" else second)
    own = feature_map(straight=True) if case == "other features" else features
    hidden = (5, 4) if case == "deep gating network" else (5,)
    gating = GatingNetwork(own, network((features.n_inputs, *hidden, 2), seed=8))
    ensemble = EnsembleScorer(members, np.full(2, 0.5), gating)
    assert len(ensemble.stacks) == (1 if case == "stacked" else 0)
    X = rows(n)
    weights = gating.weights(X)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-12)
    expected = weights[:, :1] * members[0].scores(X) + weights[:, 1:] * members[1].scores(X)
    np.testing.assert_allclose(ensemble.scores(X), expected, rtol=2e-6, atol=2e-6)


def test_with_a_gating_network_the_fixed_weights_do_not_count() -> None:
    features = feature_map()
    members = (binary(features, 0), binary(features, 1))
    gating = GatingNetwork(features, network((features.n_inputs, 5, 2), seed=8))
    for n in (1, 5):
        one, other = (EnsembleScorer(members, np.array(s), gating).scores(rows(n)) for s in ([0.5, 0.5], [1.0, 0.0]))
        assert one.tobytes() == other.tobytes()


def test_a_member_of_weight_0_is_never_asked() -> None:
    class Explodes:
        n_features, n_classes = WIDTH, 2

        def scores(self, X: Any) -> Any:
            raise AssertionError("asked")

    ensemble = EnsembleScorer((binary(feature_map(), 0), Explodes()), np.array([1.0, 0.0]))
    np.testing.assert_allclose(ensemble.scores(rows(5)), binary(feature_map(), 0).scores(rows(5)), atol=2e-6)


def test_networks_are_stacked_with_those_of_the_same_features() -> None:
    members = (binary(feature_map(), 0), binary(feature_map(), 1))
    ensemble = EnsembleScorer(members, np.array([0.25, 0.75]))
    assert [len(stack.rest) for stack in ensemble.stacks] == [1, 1]
    for n in (1, 9):
        expected = 0.25 * members[0].scores(rows(n)) + 0.75 * members[1].scores(rows(n))
        np.testing.assert_allclose(ensemble.scores(rows(n)), expected, rtol=2e-6, atol=2e-6)


def test_networks_of_two_shapes_run_as_two_stacks() -> None:
    features = feature_map()
    members = tuple(binary(features, seed, hidden=((6, 5), (4,))[seed % 2]) for seed in range(5))
    weights = np.array([0.1, 0.2, 0.0, 0.3, 0.4])
    ensemble = EnsembleScorer(members, weights)
    assert sorted(len(stack.rest) for stack in ensemble.stacks) == [2, 2]  # one has no weight
    assert ensemble.others == ()
    for n in (1, 30):
        np.testing.assert_allclose(
            ensemble.scores(rows(n)), np.einsum("m,nmk->nk", weights, ensemble.member_scores(rows(n))), atol=2e-6
        )


def test_only_members_of_weight_0_are_no_ensemble() -> None:
    with pytest.raises(InvalidInputError, match="not all 0"):
        EnsembleScorer((stump_forest(), stump_forest(seed=1)), np.zeros(2))


@pytest.mark.parametrize("weights", [[0.5], [0.5, 0.3, 0.2], [], [-0.1, 1.1], [np.nan, 1.0], [np.inf, 1.0]])
def test_weights_that_fit_no_members_are_refused(weights: list[float]) -> None:
    with pytest.raises(InvalidInputError, match="weight"):
        EnsembleScorer((stump_forest(), binary(feature_map(), 0)), np.array(weights))


def test_weights_as_a_table_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="weight"):
        EnsembleScorer((stump_forest(), stump_forest()), np.full((2, 1), 0.5))


def test_no_members_are_no_ensemble() -> None:
    with pytest.raises(InvalidInputError, match="member"):
        EnsembleScorer((), np.array([]))


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_a_gating_network_of_another_number_of_members_is_refused(n_outputs: int) -> None:
    features = feature_map()
    gating = GatingNetwork(features, network((features.n_inputs, 5, n_outputs)))
    with pytest.raises(InvalidInputError, match="another number of outputs"):
        EnsembleScorer((binary(features, 0), binary(features, 1)), np.full(2, 0.5), gating)


def test_what_a_kernel_would_read_past_its_end_is_refused() -> None:
    """A network or gating network of fewer inputs than its features give would be written past its end."""
    features = feature_map()
    with pytest.raises(InvalidInputError, match="fit"):
        GatingNetwork(features, network((3, 5, 2)))
    narrow = network((3, 6, 5, 1))
    first = binary(features, 0)
    with pytest.raises(InvalidInputError, match="fit"):
        type(first)(features, narrow, "tanh", first.training_prior)
