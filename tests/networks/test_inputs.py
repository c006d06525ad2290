"""Inputs learned from a training matrix: normal scores of ranks, or standardised numbers, whatever a column holds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import ndtri
from scipy.stats import rankdata
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from obil.errors import InvalidInputError
from obil.networks.inputs import MOST_KNOTS, fit_feature_map
from obil.serving.features import FeatureMap
from tests.serving.stored import arrays_of, described, rebuilt

NUMBERS = st.floats(allow_infinity=False)
MODERATE = st.floats(-1e150, 1e150) | st.just(np.nan)  # squares of larger ones overflow
LEARNED = {"quantile": NUMBERS, "standard": MODERATE, "rich": MODERATE, "smooth": MODERATE}


KINDS = ["rich", "smooth", "quantile", "standard"]


def encoded(column: list[float], at: list[float], *, inputs: str = "quantile") -> list[float]:
    """The first input of a single column."""
    return fit_feature_map(np.array(column)[:, None], inputs=inputs).encode(np.array(at)[:, None])[:, 0].tolist()


@pytest.mark.parametrize("skew", ["normal", "lognormal", "cauchy"])
def test_ranks_are_those_of_scikit_learn_on_continuous_data(skew: str) -> None:
    """2,000 rows, 200 knots: between ranks both go straight, so the middle 96 % differ by at most .05."""
    rng = np.random.default_rng(0)
    draw = {"normal": rng.normal, "lognormal": rng.lognormal, "cauchy": rng.standard_cauchy}[skew]
    x = draw(size=(2_000, 1))
    oracle = QuantileTransformer(n_quantiles=2_000, output_distribution="normal", subsample=None).fit_transform(x)
    ours = fit_feature_map(x, inputs="quantile").encode(x)
    middle = (x > np.quantile(x, 0.02)) & (x < np.quantile(x, 0.98))
    np.testing.assert_allclose(ours[middle], oracle[middle], atol=0.05)


def test_up_to_two_hundred_values_each_get_the_exact_score_of_their_rank() -> None:
    x = np.random.default_rng(1).lognormal(size=MOST_KNOTS)
    expected = ndtri((rankdata(x) - 0.5) / len(x))
    np.testing.assert_allclose(encoded(x.tolist(), x.tolist()), expected, rtol=1e-6, atol=1e-6)


def test_ties_have_the_middle_of_their_ranks() -> None:
    x = np.array([3.0, 1.0, 1.0, 7.0, 1.0, 3.0, 9.0])
    expected = ndtri((rankdata(x, method="average") - 0.5) / len(x))
    np.testing.assert_allclose(encoded(x.tolist(), x.tolist()), expected, atol=1e-6)


def test_ties_have_the_middle_of_their_ranks_also_where_knots_are_thinned_out() -> None:
    """Half the rows are one value; the other 1,000 are distinct, five times as many as there are knots."""
    x = np.concatenate([np.zeros(1_000), np.random.default_rng(2).normal(5.0, 1.0, 1_000)])
    assert encoded(x.tolist(), [0.0])[0] == pytest.approx(ndtri(0.25), abs=1e-6)
    fitted = fit_feature_map(x[:, None], inputs="quantile")
    assert fitted.curves.shape[1] <= MOST_KNOTS
    ranks = (rankdata(x) - 0.5) / len(x)
    np.testing.assert_allclose(fitted.encode(x[ranks < 0.98][:, None])[:, 0], ndtri(ranks[ranks < 0.98]), atol=0.05)


def test_no_outlier_bends_the_ranks() -> None:
    x = np.random.default_rng(3).normal(size=200)
    with_outlier = np.append(x[1:], 1e300)
    at = [-1.0, 0.0, 1.0]
    np.testing.assert_allclose(encoded(x.tolist(), at), encoded(with_outlier.tolist(), at), atol=0.05)


def test_no_outlier_bends_the_ranks_of_the_rows_beside_it() -> None:
    """Of 2,000 rows the largest becomes 1e12: the 9 below it keep their scores within .1."""
    x = np.sort(np.random.default_rng(0).normal(size=2_000))
    with_outlier = np.append(x[:-1], 1e12)
    at = x[-10:-1].tolist()
    np.testing.assert_allclose(encoded(with_outlier.tolist(), at), encoded(x.tolist(), at), atol=0.1)


def test_standard_inputs_are_those_of_scikit_learn_also_beyond_the_training_rows() -> None:
    rng = np.random.default_rng(4)
    x, fresh = rng.normal([5.0, -1e6], [2.0, 300.0], (300, 2)), rng.normal([5.0, -1e6], [20.0, 3000.0], (300, 2))
    ours = fit_feature_map(x, inputs="standard").encode(fresh)
    np.testing.assert_allclose(ours, StandardScaler().fit(x).transform(fresh), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("inputs", KINDS)
@pytest.mark.parametrize("value", [0.0, 3.0, -1e-300, 1e200, -1e308, 1.7e308])
def test_a_constant_column_takes_no_input(inputs: str, value: float) -> None:
    alone = fit_feature_map(np.full((5, 1), value), inputs=inputs)
    assert alone.encode([[value], [0.0], [1e308], [-1e308]]).tolist() == [[0.0]] * 4  # a network needs one input
    beside = fit_feature_map(np.c_[np.full(5, value), np.arange(5.0)], inputs=inputs)
    without = fit_feature_map(np.arange(5.0)[:, None], inputs=inputs)
    assert beside.encode([[7.0, 2.0]]).tolist() == without.encode([[2.0]]).tolist()


@pytest.mark.parametrize("inputs", KINDS)
def test_one_row_is_enough_to_say_nothing(inputs: str) -> None:
    fitted = fit_feature_map(np.array([[3.0, 4.0]]), inputs=inputs)
    assert not fitted.encode([[3.0, 4.0], [-50.0, 9.0]]).any()


@pytest.mark.parametrize("inputs", KINDS)
def test_a_column_without_a_number_says_only_what_is_missing(inputs: str) -> None:
    fitted = fit_feature_map(np.array([[np.nan, 1.0], [np.nan, 2.0]]), inputs=inputs)
    assert fitted.encode([[np.nan, 1.0], [4.0, 2.0]])[:, 0].tolist() == [1.0, 0.0]
    assert fitted.n_inputs == 1 + fit_feature_map(np.array([[1.0], [2.0]]), inputs=inputs).n_inputs


def test_rich_inputs_are_the_number_its_rank_and_its_pieces() -> None:
    """Mean 0 and deviation 1 up to 8 of them, the normal score, and sixteen pieces that fill up one after the other."""
    x = np.random.default_rng(6).lognormal(size=(500, 1))
    inputs = fit_feature_map(x).encode(x)
    assert inputs.shape == (500, 18)
    np.testing.assert_allclose(inputs[:, 0], np.minimum(StandardScaler().fit_transform(x)[:, 0], 8.0), atol=1e-5)
    by_rank = fit_feature_map(x, inputs="quantile").encode(x)[:, 0]
    assert inputs[:, 1].tobytes() == by_rank.tobytes()
    edges = np.quantile(x, np.linspace(0.0, 1.0, 17))
    pieces = np.clip((x - edges[:-1]) / np.diff(edges), 0.0, 1.0)
    np.testing.assert_allclose(inputs[:, 2:], pieces, atol=1e-5)
    assert fit_feature_map(x, inputs="smooth").encode(x).tobytes() == inputs[:, :2].tobytes()
    assert (np.diff(inputs[:, 2:], axis=1) <= 0.0).all()  # a piece fills only when the one before it is full


def test_a_column_of_two_values_takes_one_input_that_is_large_for_a_rare_one_and_never_huge() -> None:
    even = fit_feature_map(np.array([[0.0], [1.0]] * 50))
    assert even.encode([[0.0], [1.0], [0.5], [9.0]]).ravel().tolist() == [-1.0, 1.0, 0.0, 1.0]
    rare = fit_feature_map(np.array([[0.0]] * 99_999 + [[1.0]]))
    assert rare.n_inputs == 1
    np.testing.assert_allclose(rare.encode([[0.0], [1.0]]).ravel(), [-1e-4, 10.0], atol=1e-3)


@pytest.mark.parametrize("inputs", ["standard", "smooth", "rich"])
def test_a_column_of_huge_numbers_is_learned_without_overflow(inputs: str) -> None:
    """Squares of 1e200 are beyond float64; the column is as good as any on another scale."""
    x = np.random.default_rng(7).normal(size=(50, 1))
    huge = fit_feature_map(1e200 * x, inputs=inputs)
    rebuilt(FeatureMap, described(huge), arrays_of(huge))
    np.testing.assert_allclose(
        huge.encode(1e200 * x), fit_feature_map(x, inputs=inputs).encode(x), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("inputs", KINDS)
def test_missing_values_do_not_move_the_other_rows(inputs: str) -> None:
    x = np.random.default_rng(5).normal(size=50)
    without = fit_feature_map(x[:, None], inputs=inputs).encode(x[:, None])
    with_missing = fit_feature_map(np.append(x, [np.nan] * 30)[:, None], inputs=inputs).encode(x[:, None])
    assert with_missing[:, :-1].tobytes() == without.tobytes()
    assert not with_missing[:, -1].any()


def test_a_category_gets_one_input_for_each_code_that_was_seen() -> None:
    fitted = fit_feature_map(np.array([[2.0, 5.0], [0.0, 6.0], [2.0, np.nan]]), categories=[0, 1])
    assert fitted.n_inputs == 2 + 2 + 1
    assert fitted.encode([[0.0, 6.0], [2.0, np.nan], [1.0, 7.0]]).tolist() == [
        [1, 0, 0, 1, 0],
        [0, 1, 0, 0, 1],
        [0, 0, 0, 0, 0],
    ]


def test_a_category_that_was_never_filled_keeps_only_its_missing_input() -> None:
    fitted = fit_feature_map(np.full((3, 1), np.nan), categories=[0])
    assert fitted.encode([[np.nan], [1.0]]).tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize("inputs", ["rank", "", None, 3])
def test_inputs_of_an_unknown_name_are_refused(inputs: object) -> None:
    with pytest.raises(InvalidInputError, match="inputs must be one of rich, "):
        fit_feature_map(np.zeros((2, 1)), inputs=inputs)


@pytest.mark.parametrize("inputs", KINDS)
@given(data=st.data())
def test_whatever_was_learned_any_row_becomes_finite_inputs_and_the_map_can_be_saved(
    inputs: str, data: st.DataObject
) -> None:
    training = data.draw(arrays(np.float64, st.tuples(st.integers(1, 6), st.just(2)), elements=LEARNED[inputs]))
    fresh = data.draw(arrays(np.float64, (3, 2), elements=NUMBERS))
    fitted = fit_feature_map(training, inputs=inputs)
    assert np.isfinite(fitted.encode(fresh)).all()
    assert np.isfinite(fitted.encode(training)).all()
    rebuilt(FeatureMap, described(fitted), arrays_of(fitted))


@given(arrays(np.float64, st.integers(2, 30), elements=st.integers(-20, 20).map(float)))
def test_scores_of_ranks_never_fall(column: np.ndarray) -> None:
    at = np.linspace(-25.0, 25.0, 40)
    assert (np.diff(encoded(column.tolist(), at.tolist())) >= 0.0).all()
