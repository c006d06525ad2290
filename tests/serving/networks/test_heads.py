"""A head's scores are the log ratios of the posterior that the head stands for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit, log_softmax

from obil.errors import InvalidInputError
from obil.serving.networks.heads import scores_of_outputs

RNG = np.random.default_rng(0)


def scores_of(posterior: np.ndarray, training_prior: np.ndarray) -> np.ndarray:
    """The definition, in plain probabilities."""
    ratios = posterior / training_prior
    return np.log(ratios / ratios[:, :1])


@pytest.mark.parametrize("shape", [(50,), (50, 1)])
def test_a_tanh_head_means_the_posterior_of_its_tanh(shape: tuple[int, ...]) -> None:
    outputs, training_prior = RNG.normal(size=shape), np.array([0.8, 0.2])
    positive = (1.0 + np.tanh(outputs.ravel())) / 2.0
    expected = scores_of(np.stack([1.0 - positive, positive], axis=1), training_prior)
    np.testing.assert_allclose(
        scores_of_outputs(outputs, head="tanh", training_prior=training_prior), expected, rtol=1e-9
    )


def test_a_softmax_head_means_the_softmax_of_its_outputs() -> None:
    outputs, training_prior = RNG.normal(size=(50, 4)), np.array([0.4, 0.3, 0.2, 0.1])
    expected = scores_of(np.exp(log_softmax(outputs, axis=1)), training_prior)
    np.testing.assert_allclose(
        scores_of_outputs(outputs, head="softmax", training_prior=training_prior), expected, atol=1e-12
    )


def test_one_against_the_rest_is_rebased_to_a_joint_posterior() -> None:
    outputs, training_prior = RNG.normal(size=(50, 3)), np.array([0.5, 0.3, 0.2])
    alone = expit(2.0 * outputs)
    expected = scores_of(alone / alone.sum(axis=1, keepdims=True), training_prior)
    np.testing.assert_allclose(
        scores_of_outputs(outputs, head="one_vs_rest", training_prior=training_prior), expected, atol=1e-12
    )


def test_only_the_proportions_of_the_prior_count() -> None:
    outputs = RNG.normal(size=(5, 3))
    prior, counts = (
        scores_of_outputs(outputs, head="softmax", training_prior=b) for b in ([0.5, 0.3, 0.2], [50, 30, 20])
    )
    np.testing.assert_allclose(prior, counts, atol=1e-12)


@given(arrays(np.float64, (3, 3), elements=st.floats(-1e300, 1e300)), st.sampled_from(["softmax", "one_vs_rest"]))
def test_outputs_of_any_size_give_finite_scores_relative_to_class_0(outputs: np.ndarray, head: str) -> None:
    scores = scores_of_outputs(outputs, head=head, training_prior=[0.9, 0.05, 0.05])
    assert np.isfinite(scores).all()
    assert not scores[:, 0].any()


def test_an_extreme_output_keeps_its_digits() -> None:
    scores = scores_of_outputs([[-400.0, 400.0]], head="one_vs_rest", training_prior=[0.5, 0.5])
    assert scores[0, 1] == pytest.approx(800.0, rel=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1.7e308])
@pytest.mark.parametrize("head", ["tanh", "softmax", "one_vs_rest"])
def test_outputs_that_are_no_numbers_are_refused(bad: float, head: str) -> None:
    outputs = np.zeros(4) if head == "tanh" else np.zeros((4, 2))
    outputs[2] = [bad, -bad] if head != "tanh" else bad
    with pytest.raises(InvalidInputError, match="outputs must be"):
        scores_of_outputs(outputs, head=head, training_prior=[0.5, 0.5])


@pytest.mark.parametrize(
    ("outputs", "head", "training_prior"),
    [
        (np.zeros((3, 2)), "tanh", [0.5, 0.5]),
        (np.zeros(3), "softmax", [0.5, 0.5]),
        (np.zeros((3, 2)), "softmax", [0.5, 0.3, 0.2]),
        (np.zeros(3), "tanh", [0.5, 0.3, 0.2]),
        (np.zeros(3), "tanh", [1.0, 0.0]),
        (np.zeros(3), "tanh", [0.5, np.nan]),
        (np.zeros(3), "tanh", 0.5),
        (np.zeros(3), "sigmoid", [0.5, 0.5]),
        (["a"], "tanh", [0.5, 0.5]),
    ],
)
def test_what_does_not_fit_the_head_is_refused(outputs: object, head: str, training_prior: object) -> None:
    with pytest.raises(InvalidInputError):
        scores_of_outputs(outputs, head=head, training_prior=training_prior)


def test_no_rows_give_no_scores() -> None:
    assert scores_of_outputs(np.zeros((0, 3)), head="softmax", training_prior=[0.5, 0.3, 0.2]).shape == (0, 3)
