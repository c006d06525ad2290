"""Losses have the minimiser they claim, agree with each other, and survive any logit."""

import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the torch extra")

from obil.errors import InvalidInputError
from obil.networks.losses import (
    LOSSES,
    BinaryLoss,
    CategoricalLoss,
    bregman_loss,
    brier,
    categorical_cross_entropy,
    cost_weighted,
    cost_weighted_squared_error,
    cross_entropy,
    divergence,
    exponential,
    logistic,
    named_loss,
    printed_logistic,
    squared_error,
)

OUTPUTS = torch.tanh(torch.linspace(-4.0, 4.0, 81, dtype=torch.float64))
LOGITS = torch.atanh(OUTPUTS)
TARGETS = (-torch.ones_like(OUTPUTS), torch.ones_like(OUTPUTS))
BREGMAN = (squared_error, logistic, exponential, cross_entropy)
BINARY = (*BREGMAN, printed_logistic, lambda: cross_entropy(3.0), lambda: cost_weighted(exponential(), 4.0))


def squared_generator(o):
    return o**2 / 2


def logistic_generator(o):
    return ((1 + o) * torch.log(1 + o) + (1 - o) * torch.log(1 - o)) / 2


def exponential_generator(o):
    return -torch.sqrt(1 - o**2)


def barrier_generator(o):
    return -torch.log(1 - o**2)  # infinite at the edges


GENERATORS = [(squared_generator, squared_error), (logistic_generator, logistic), (exponential_generator, exponential)]


def slope(function, at, t):
    x = at.clone().requires_grad_(True)
    return torch.autograd.grad(function(x, t).sum(), x)[0]


@pytest.mark.parametrize("build", BREGMAN)
def test_the_derivative_is_the_curvature_times_the_error(build) -> None:
    loss = build()
    for t in TARGETS:
        wanted = -loss.curvature(OUTPUTS) * (t - OUTPUTS)
        np.testing.assert_allclose(slope(loss.of_output, OUTPUTS, t), wanted, rtol=1e-10)


@pytest.mark.parametrize("build", BINARY)
def test_of_logit_is_of_output_at_the_tanh(build) -> None:
    loss = build()
    for t in TARGETS:
        np.testing.assert_allclose(loss.of_logit(LOGITS, t), loss.of_output(OUTPUTS, t), rtol=1e-9, atol=1e-13)
        chain = slope(loss.of_output, OUTPUTS, t) * (1 - OUTPUTS**2)
        np.testing.assert_allclose(slope(loss.of_logit, LOGITS, t), chain, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("build", [*BINARY, *(lambda g=g: bregman_loss(g) for g, _ in GENERATORS)])
def test_any_logit_has_a_finite_loss_and_gradient_that_pulls_in_the_right_direction(build, dtype) -> None:
    loss = build()
    z = torch.tensor([[-1e4, -100.0, -30.0], [30.0, 100.0, 1e4]], dtype=dtype)  # any shape
    for sign in (-1.0, 1.0):
        t = torch.full_like(z, sign)
        values, pulls = loss.of_logit(z, t), slope(loss.of_logit, z, t)
        assert values.dtype == dtype
        assert values.shape == z.shape
        assert torch.isfinite(values).all()
        assert torch.isfinite(pulls).all()
        assert (pulls * sign <= 0.0).all()


@pytest.mark.parametrize("build", [logistic, exponential, printed_logistic, lambda: bregman_loss(logistic_generator)])
def test_a_row_that_is_surely_wrong_still_has_a_gradient(build) -> None:
    assert slope(build().of_logit, torch.tensor([-1e3]), torch.ones(1)) < -0.9


@pytest.mark.parametrize(("generator", "build"), GENERATORS)
def test_a_generator_gives_back_the_named_loss_up_to_a_constant(generator, build) -> None:
    made, named = bregman_loss(generator, name="made"), build()
    np.testing.assert_allclose(made.curvature(OUTPUTS), named.curvature(OUTPUTS), rtol=1e-8)
    for t in TARGETS:
        assert np.ptp((made.of_output(OUTPUTS, t) - named.of_output(OUTPUTS, t)).numpy()) < 1e-9
        assert np.ptp((made.of_logit(LOGITS, t) - named.of_logit(LOGITS, t)).numpy()) < 1e-9
        np.testing.assert_allclose(
            slope(made.of_output, OUTPUTS, t), -named.curvature(OUTPUTS) * (t - OUTPUTS), rtol=1e-7
        )


def test_a_generator_undefined_at_the_edge_takes_its_limit_and_an_infinite_one_is_left_out() -> None:
    ones = torch.ones_like(OUTPUTS)
    made = bregman_loss(logistic_generator)  # 0 log 0 at the edge
    np.testing.assert_allclose(made.of_output(OUTPUTS, ones), logistic().of_output(OUTPUTS, ones), atol=1e-12)
    barrier = bregman_loss(barrier_generator)
    for t in TARGETS:
        wanted = torch.log(1 - OUTPUTS**2) - 2 * OUTPUTS / (1 - OUTPUTS**2) * (t - OUTPUTS)  # without phi(t)
        np.testing.assert_allclose(barrier.of_output(OUTPUTS, t), wanted, rtol=1e-8)
        assert torch.isfinite(barrier.of_logit(torch.tensor([-50.0, 50.0]), t[:2])).all()
        wanted = -2 * (1 + OUTPUTS**2) / (1 - OUTPUTS**2) ** 2 * (t - OUTPUTS)
        np.testing.assert_allclose(slope(barrier.of_output, OUTPUTS, t), wanted, rtol=1e-8)


def test_the_divergence_is_positive_zero_at_itself_and_exact_for_squares() -> None:
    p, q = torch.meshgrid(OUTPUTS, OUTPUTS, indexing="ij")
    np.testing.assert_allclose(divergence(squared_generator, p, q), (p - q) ** 2 / 2, atol=1e-15)
    for generator, _ in GENERATORS:
        values = divergence(generator, p, q)
        assert (values[p != q] > 0.0).all()
        assert values.diagonal().abs().max() < 1e-12


def test_what_is_not_strictly_convex_or_not_a_torch_function_is_refused() -> None:
    for generator in (lambda o: -(o**2), lambda o: 3 * o, lambda o: o**3):
        with pytest.raises(InvalidInputError, match="strictly convex"):
            bregman_loss(generator)
    for generator in (lambda o: np.cos(float(o)), lambda o: 1.0, lambda: 0.0):
        with pytest.raises(InvalidInputError, match="torch function"):
            bregman_loss(generator)


def test_cross_entropy_is_the_logistic_loss_and_torchs_own() -> None:
    """The paper: "does not exactly satisfy the Bregman form". With log odds 2 artanh(o) it does, g = 1/(1-o^2)."""

    def own(log_odds, t):
        return torch.nn.functional.binary_cross_entropy_with_logits(log_odds, (1 + t) / 2, reduction="none")

    for t in TARGETS:
        np.testing.assert_allclose(cross_entropy().of_logit(LOGITS, t), logistic().of_logit(LOGITS, t))
        np.testing.assert_allclose(cross_entropy().of_logit(LOGITS, t), own(2 * LOGITS, t), rtol=1e-10)
        derivative = slope(lambda o, t: own(2 * torch.atanh(o), t), OUTPUTS, t)
        np.testing.assert_allclose(derivative, -(t - OUTPUTS) / (1 - OUTPUTS**2), rtol=1e-9)


def test_the_printed_logistic_loss_is_a_cross_entropy_at_temperature_2() -> None:
    for t in TARGETS:
        printed = torch.log(1 + torch.exp(-t * torch.atanh(OUTPUTS)))
        np.testing.assert_allclose(printed_logistic().of_output(OUTPUTS, t), printed, rtol=1e-10)
        np.testing.assert_allclose(cross_entropy(2.0).of_output(OUTPUTS, t), printed, rtol=1e-10)
    assert printed_logistic().curvature is None


@pytest.mark.parametrize("build", BINARY[:-1])
def test_log_odds_at_the_minimiser_are_those_of_the_posterior(build) -> None:
    """The best of a fine grid of logits, read by `log_odds`, is logit P; for Bregman losses that is sigmoid(2z)."""
    loss, grid = build(), torch.linspace(-8.0, 8.0, 160_001, dtype=torch.float64)
    ones = torch.ones_like(grid)
    for probability in (0.1, 0.5, 0.97):
        risk = probability * loss.of_logit(grid, ones) + (1 - probability) * loss.of_logit(grid, -ones)
        best = grid[risk.argmin()]
        assert float(loss.log_odds(best)) == pytest.approx(np.log(probability / (1 - probability)), abs=1e-3)


def test_a_cost_weight_is_that_of_a_prior_with_so_many_times_the_negatives() -> None:
    weight, probability = 4.0, 0.6
    rebalanced = probability / (probability + weight * (1 - probability))
    for loss in (cost_weighted_squared_error(weight), cost_weighted(logistic(), weight)):
        assert loss.negative_weight == weight
        at = torch.tensor([2 * rebalanced - 1], dtype=torch.float64)
        ones = torch.ones_like(at)
        total = probability * slope(loss.of_output, at, ones) + (1 - probability) * slope(loss.of_output, at, -ones)
        assert abs(float(total)) < 1e-12
    assert cost_weighted(cost_weighted(logistic(), 2.0), 3.0).negative_weight == 6.0


def test_for_two_classes_brier_is_squared_error_and_cross_entropy_is_logistic() -> None:
    logits = torch.stack([-LOGITS, LOGITS], dim=-1)  # their difference is 2z
    for t in TARGETS:
        labels = (t > 0).long()
        np.testing.assert_allclose(brier().of_logits(logits, labels), squared_error().of_output(OUTPUTS, t), atol=1e-12)
        ours = categorical_cross_entropy().of_logits(logits, labels)
        np.testing.assert_allclose(ours, logistic().of_output(OUTPUTS, t), atol=1e-12)


def test_categorical_losses_take_any_leading_shape_and_agree_with_torch() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(3, 5, 4), torch.randint(4, (3, 5))
    ours = categorical_cross_entropy().of_logits(logits, labels)
    torchs = torch.nn.functional.cross_entropy(logits.reshape(15, 4), labels.reshape(15), reduction="none")
    np.testing.assert_allclose(ours.reshape(15), torchs, rtol=1e-6)
    assert brier().of_logits(logits, labels).shape == (3, 5)
    assert torch.isfinite(categorical_cross_entropy().of_logits(1e4 * logits, labels)).all()


def test_losses_are_found_by_name() -> None:
    for name in LOSSES:
        loss = named_loss(name)
        assert loss.name == name
        assert isinstance(loss, BinaryLoss | CategoricalLoss)
    with pytest.raises(InvalidInputError, match=r"squared_error.*brier"):
        named_loss("hinge")


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf"), "two", [1.0, 2.0]])
def test_weights_and_temperatures_must_be_positive_numbers(bad) -> None:
    for build in (cost_weighted_squared_error, cross_entropy, lambda weight: cost_weighted(logistic(), weight)):
        with pytest.raises(InvalidInputError, match="must be"):
            build(bad)


def test_losses_survive_a_pickle() -> None:
    for loss in (
        *(named_loss(name) for name in LOSSES),
        cost_weighted(logistic(), 2.0),
        bregman_loss(squared_generator),
    ):
        again = pickle.loads(pickle.dumps(loss))
        assert again.name == loss.name
        if isinstance(loss, BinaryLoss):
            assert torch.equal(again.of_logit(LOGITS, TARGETS[0]), loss.of_logit(LOGITS, TARGETS[0]))
