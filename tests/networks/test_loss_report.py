"""The checker accepts what is Bregman, names the minimiser of what is not, and crashes on nothing."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs the torch extra")

from obil.errors import InvalidInputError
from obil.networks.loss_report import check_loss
from obil.networks.losses import (
    CategoricalLoss,
    bregman_loss,
    cost_weighted,
    cost_weighted_squared_error,
    cross_entropy,
    exponential,
    logistic,
    named_loss,
    printed_logistic,
    squared_error,
)


def found_at(report, probability: float) -> float:
    (found,) = [row.found for row in report.table if row.probability == probability]
    return found


@pytest.mark.parametrize("build", [squared_error, logistic, exponential, cross_entropy])
def test_accepts_the_corrected_losses(build) -> None:
    report = check_loss(build())
    assert report.accepted, report.reason
    assert report.minimiser == "2P-1"
    assert report.largest_violation < 1e-9
    assert (report.curvature > 0.0).all()
    np.testing.assert_allclose(report.curvature[:, 0], build().curvature(torch.tensor(report.outputs)), rtol=1e-9)
    for row in report.table:
        assert row.wanted == pytest.approx(2 * row.probability - 1)
        assert row.found == pytest.approx(row.wanted, abs=1e-4)


def test_rejects_the_printed_logistic_loss_and_names_its_minimiser() -> None:
    """The paper: Bregman with g = 1/(1-o^2). At P = .9 its minimiser is .976, not .8; with 2 artanh(o) it is right."""
    report = check_loss(printed_logistic())
    assert not report.accepted
    assert report.minimiser == "tanh(logit P)"
    assert found_at(report, 0.9) == pytest.approx(0.976, abs=5e-4)
    corrected = check_loss(lambda o, t: torch.log(1 + torch.exp(-2 * t * torch.atanh(o))))
    assert corrected.accepted
    np.testing.assert_allclose(corrected.curvature[:, 1], 1 / (1 - corrected.outputs**2), rtol=1e-6)


def test_rejects_the_printed_exponential_loss_and_names_its_minimiser() -> None:
    """The paper: exp(-to), g = 1/cosh(artanh o). It is least at artanh(2P-1), at the edge for P outside [.12, .88]."""
    report = check_loss(lambda o, t: torch.exp(-t * o))
    assert not report.accepted
    assert report.minimiser == "artanh(2P-1), clipped to [-1, 1]"
    assert found_at(report, 0.9) == pytest.approx(1.0, abs=1e-9)
    assert found_at(report, 0.1) == pytest.approx(-1.0, abs=1e-9)
    assert found_at(report, 0.75) == pytest.approx(math.atanh(0.5), abs=1e-4)
    corrected = check_loss(lambda o, t: torch.exp(-t * torch.atanh(o)))
    assert corrected.accepted
    np.testing.assert_allclose(corrected.curvature[:, 0], (1 - corrected.outputs**2) ** -1.5, rtol=1e-6)


def test_rejects_hinge_and_names_its_minimiser() -> None:
    report = check_loss(lambda o, t: torch.clamp(1 - t * o, min=0))
    assert not report.accepted
    assert report.minimiser == "sign(2P-1)"
    assert math.isnan(found_at(report, 0.5))  # flat: any output is as good


@pytest.mark.parametrize("weight", [0.2, 4.0, 42.0])
def test_holds_a_cost_weighted_loss_against_the_prior_it_estimates(weight: float) -> None:
    for loss in (cost_weighted_squared_error(weight), cost_weighted(exponential(), weight)):
        report = check_loss(loss)
        assert report.accepted, report.reason
        assert f"{weight:g} times the negatives" in report.minimiser
        assert f"{weight:g} times the negatives" in report.reason
        for row in report.table:
            rebalanced = row.probability / (row.probability + weight * (1 - row.probability))
            assert row.found == pytest.approx(2 * rebalanced - 1, abs=1e-4)


def test_finds_a_weight_that_was_not_stated_or_was_stated_wrongly() -> None:
    report = check_loss(lambda o, t: torch.where(t > 0, 1.0, 3.0) * (t - o) ** 2)
    assert not report.accepted
    assert "negative_weight=3" in report.reason
    assert report.minimiser == "2P-1, P the posterior at 3 times the negatives"
    wrong = check_loss(replace(cost_weighted_squared_error(3.0), negative_weight=5.0))
    assert not wrong.accepted
    assert "states 5" in wrong.reason


def test_a_temperature_in_the_loss_is_rejected_and_its_minimiser_named() -> None:
    report = check_loss(cross_entropy(3.0))
    assert not report.accepted
    assert report.minimiser == "tanh(1.5 logit P)"


@pytest.mark.parametrize(
    "loss",
    [
        lambda o, t: (t - o) ** 2,
        lambda o, t: np.square(np.asarray(t) - np.asarray(o)),
        lambda o, t: float((t - o) ** 2),
        lambda o, t: math.log(2 / (1 + t * o)),
        lambda o, t: -np.log1p(t * o) if isinstance(o, np.ndarray) else 1 / 0,
        lambda o, t: (t - o) ** 2 if abs(o) < 1 else 1 / 0,
        lambda o, t: ((t - o) ** 2).detach(),
        lambda o, t: ((t - o) ** 2).float(),
        lambda o, t: np.float32((t - o) ** 2),
        lambda o, t: 1e-9 * (t - o) ** 2,
        lambda o, t: (t - o) ** 2 + 7.0,
        lambda o, t: torch.where(o > 0, 2.0, 1.0) * ((t - o) ** 2 - t**2),  # a kink at 0, and still proper
        torch.nn.MSELoss(reduction="none"),
    ],
    ids=range(13),
)
def test_accepts_a_right_loss_however_it_is_written(loss) -> None:
    report = check_loss(loss)
    assert report.accepted, str(report)


@pytest.mark.parametrize(
    ("loss", "minimiser"),
    [
        (lambda o, t: math.exp(-t * o), "artanh(2P-1), clipped to [-1, 1]"),
        (lambda o, t: max(0.0, 1 - t * o), "sign(2P-1)"),
        (lambda o, t: np.log1p(np.exp(-t * np.arctanh(o))), "tanh(logit P)"),
        (lambda o, t: abs(t - o), "sign(2P-1)"),
        (lambda o, t: torch.relu(-t * o), "0, whatever P is"),
        (lambda o, t: abs(t - o) ** 3, "tanh(0.25 logit P)"),
    ],
)
def test_names_the_minimiser_of_losses_of_numbers_and_arrays(loss, minimiser: str) -> None:
    report = check_loss(loss)
    assert not report.accepted
    assert report.minimiser == minimiser
    assert report.largest_violation > 0.1


def test_gives_the_figures_where_no_closed_form_is_known() -> None:
    report = check_loss(lambda o, t: (t - 2 * o) ** 2)
    assert not report.accepted
    assert report.minimiser.startswith("no closed form known")
    assert "0.9 -> 0.4" in report.minimiser


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        (lambda o, t: o * float("nan"), "is nan at"),
        (lambda o, t: torch.where(o > 0.5, torch.nan, (t - o) ** 2), "is nan at o = 0.5"),
        (lambda o, t: torch.log(o), "is nan at"),
        (lambda o, t: 1 / 0, "is nan at"),
        (lambda o, t: torch.ones_like(o), "does not depend on o"),
        (lambda o, t: 0 * o + 3, "does not depend on o"),
        (lambda o, t: -((t - o) ** 2), "g must be positive"),
        (lambda o, t: (t - o).detach() ** 2 * (1 + 0 * o), "detached"),
        (lambda o, t: torch.log(1 - t * o), "no single lowest point"),
        (lambda o, t: torch.abs(o - 0.3 * t), "fails"),
    ],
)
def test_rejects_what_cannot_be_trained_with_and_says_why(loss, reason: str) -> None:
    report = check_loss(loss)
    assert not report.accepted
    assert reason in report.reason


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (3, "callable"),
        ("hinge", "callable"),
        (lambda o, t: ((t - o) ** 2).mean(), "one value per element"),
        (lambda o, t: torch.stack([o, t]), "one value per element"),
        (lambda o, t: 1.0, "one value per element"),
        (lambda o, t: None, "one value per element"),
        (lambda o: o, "raised TypeError"),
        (lambda o, t: o["x"], "raised"),
        (lambda o, t: torch.softmax(o, 0), "must not depend on other rows"),
    ],
)
def test_says_what_is_wrong_with_what_is_no_loss(loss, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        check_loss(loss)


def test_a_loss_that_fails_only_at_the_edges_is_not_called_there_in_vain() -> None:
    def strict(o, t):
        if (abs(o) >= 1).any():
            raise ValueError("outputs lie inside (-1, 1)")
        return (t - o) ** 2

    assert check_loss(strict).accepted


def test_a_binary_loss_that_contradicts_itself_is_rejected() -> None:
    report = check_loss(replace(squared_error(), of_logit=logistic().of_logit))
    assert not report.accepted
    assert "of_logit" in report.reason
    report = check_loss(replace(squared_error(), curvature=logistic().curvature))
    assert not report.accepted
    assert "curvature" in report.reason


@settings(max_examples=15)
@given(st.floats(0.05, 3.0), st.floats(0.0, 3.0), st.floats(-2.0, 2.0))
def test_every_strictly_convex_generator_is_accepted(square: float, quartic: float, steep: float) -> None:
    report = check_loss(bregman_loss(lambda o: square * o**2 + quartic * o**4 + torch.exp(steep * o)), n_points=50)
    assert report.accepted, str(report)


def test_a_generator_infinite_at_the_edges_is_accepted() -> None:
    assert check_loss(bregman_loss(lambda o: -torch.log(1 - o**2))).accepted


@pytest.mark.parametrize("name", ["categorical_cross_entropy", "brier"])
def test_accepts_proper_losses_of_three_classes(name: str) -> None:
    report = check_loss(named_loss(name))
    assert report.accepted
    assert report.minimiser == "p"
    assert report.largest_violation < 1e-3


@pytest.mark.parametrize(
    ("of_logits", "minimiser"),
    [
        (lambda z, y: 1 - torch.softmax(z, -1).gather(-1, y[..., None])[..., 0], "all on the likeliest class"),
        (lambda z, y: named_loss("categorical_cross_entropy").of_logits(z / 2, y), "no closed form known"),
        (lambda z, y: 0 * z[..., 0], "none: the expected loss has no single lowest point"),
        (lambda z, y: torch.nan * z[..., 0], "none: the expected loss has no single lowest point"),
    ],
)
def test_rejects_improper_losses_of_three_classes(of_logits, minimiser: str) -> None:
    report = check_loss(CategoricalLoss("mine", of_logits))
    assert not report.accepted
    assert report.minimiser == minimiser


def test_a_categorical_loss_must_be_one_of_the_softmax_and_return_one_value_a_row() -> None:
    one_against_rest = CategoricalLoss("rest", lambda z, y: torch.nn.functional.softplus(-z).sum(-1))
    assert "adding 3" in check_loss(one_against_rest).reason
    with pytest.raises(InvalidInputError, match="one loss per row"):
        check_loss(CategoricalLoss("mean", lambda z, y: z.mean()))
    with pytest.raises(InvalidInputError, match="raised"):
        check_loss(CategoricalLoss("broken", lambda z, y: z @ y))


def test_the_report_reads_as_a_table() -> None:
    text = str(check_loss(printed_logistic()))
    assert text.startswith("printed_logistic: rejected: dC/do = -g(o)(t - o) fails")
    assert "minimiser: tanh(logit P)" in text
    assert "0.9756" in text
    with pytest.raises(InvalidInputError, match="n_points"):
        check_loss(squared_error(), n_points=3)
