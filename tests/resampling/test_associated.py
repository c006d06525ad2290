"""Associated problems have the ratio asked for, rows drawn evenly, and know their training prior."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from obil.arrays import FloatArray, IntArray
from obil.errors import InvalidInputError
from obil.resampling.associated import (
    METHODS,
    AssociatedProblem,
    associated_problem,
    class_ratio,
    target_ratios,
)


def classes(*counts: int) -> IntArray:
    """Class numbers in a mixed order."""
    return np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))


def sizes(problem: AssociatedProblem, labels: IntArray) -> FloatArray:
    return np.bincount(labels[problem.rows], weights=problem.weights, minlength=int(labels.max()) + 1)


@pytest.mark.parametrize(
    ("n_members", "original", "wanted"),
    [
        (1, 42.0, (1.0,)),
        (2, 42.0, (1.0, 2.0)),
        (3, 42.0, (1.0, 5.0, 42.0)),
        (5, 42.0, (1.0, 2.0, 5.0, 10.0, 42.0)),
        (7, 42.0, (1.0, 2.0, 5.0, 10.0, 42.0, 1.0, 2.0)),
        (10, 42.0, (1.0, 2.0, 5.0, 10.0, 42.0) * 2),
        (5, 9.8, (1.0, 2.0, 5.0, 9.8, 9.8)),
        (5, 3.0, (1.0, 2.0, 3.0, 3.0, 3.0)),
        (3, 3.0, (1.0, 3.0, 3.0)),
        (5, 1.0, (1.0,) * 5),
    ],
)
def test_targets_are_the_papers_and_never_above_the_original(
    n_members: int, original: float, wanted: tuple[float, ...]
) -> None:
    assert target_ratios(n_members, original) == wanted


@pytest.mark.parametrize(("n_members", "original"), [(0, 5.0), (2.5, 5.0), (3, 0.5), (3, np.nan), (3, np.inf)])
def test_targets_of_nothing_are_refused(n_members: int, original: float) -> None:
    with pytest.raises(InvalidInputError):
        target_ratios(n_members, original)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ratio", [1.0, 2.0, 5.0, 20.0, 50.0, 200.0])
def test_has_the_ratio_asked_for(method: str, ratio: float) -> None:
    labels = classes(4_000, 200)  # 20 : 1
    problem = associated_problem(labels, ratio=ratio, n_classes=2, method=method, random_state=0)
    size = sizes(problem, labels)
    assert size[0] / size[1] == pytest.approx(ratio, rel=1e-9)
    np.testing.assert_allclose(problem.training_prior, [ratio / (1 + ratio), 1 / (1 + ratio)], rtol=1e-9)


def test_each_method_changes_what_it_says_it_changes() -> None:
    labels = classes(400, 20)
    easier = {m: associated_problem(labels, ratio=5, n_classes=2, method=m, random_state=0) for m in METHODS}
    assert sizes(easier["undersample"], labels).tolist() == [100, 20]
    assert sizes(easier["oversample"], labels).tolist() == [400, 80]
    assert len(set(easier["undersample"].rows.tolist())) == 120  # no row twice
    assert set(easier["oversample"].rows.tolist()) == set(range(420))  # every row at least once
    assert easier["weight"].rows.tolist() == list(range(420))
    assert easier["weight"].weights.sum() == pytest.approx(420)
    assert (easier["undersample"].weights == 1.0).all()


@pytest.mark.parametrize("method", ["undersample", "oversample"])
def test_above_the_original_the_papers_branch_would_lower_the_ratio_and_ours_raises_it(method: str) -> None:
    """Algorithm 1 repeats the rarest class when the target is at or above the original ratio."""
    labels, target = classes(400, 20), 40.0
    size = sizes(associated_problem(labels, ratio=target, n_classes=2, method=method, random_state=0), labels)
    assert size.tolist() == ([400, 10] if method == "undersample" else [800, 20])
    for repeated in range(21, 400):  # however often the rarest is repeated
        assert 400 / repeated < 20.0
    same = associated_problem(labels, ratio=20.0, n_classes=2, method=method, random_state=0)
    assert same.rows.tolist() == list(range(420))  # at equality nothing is done


@pytest.mark.parametrize("method", METHODS)
def test_with_more_classes_each_is_capped_at_the_ratio_to_the_rarest(method: str) -> None:
    labels = classes(1_000, 100, 300, 10)
    size = sizes(associated_problem(labels, ratio=5, n_classes=4, method=method, random_state=0), labels)
    assert size.max() / size.min() == pytest.approx(5.0)
    if method == "oversample":
        assert size.tolist() == [1_000, 200, 300, 200]
    else:
        np.testing.assert_allclose(size / size.min(), [5, 5, 5, 1])
    harder = sizes(associated_problem(labels, ratio=200, n_classes=4, method=method, random_state=0), labels)
    assert harder.max() / harder.min() == pytest.approx(200.0)
    if method == "undersample":
        assert harder.tolist() == [1_000, 100, 300, 5]


def test_of_equal_classes_the_last_becomes_the_rarest() -> None:
    labels = classes(100, 100)
    thinned = associated_problem(labels, ratio=4, n_classes=2, random_state=0)
    repeated = associated_problem(labels, ratio=4, n_classes=2, method="oversample", random_state=0)
    assert sizes(thinned, labels).tolist() == [100, 25]
    assert sizes(repeated, labels).tolist() == [400, 100]


def test_rows_are_drawn_evenly() -> None:
    """Each of 40 common rows is kept with probability 1/4: over 2,000 draws within 5 standard deviations, .05."""
    labels = classes(40, 10)
    common = np.flatnonzero(labels == 0)
    kept = np.zeros(50)
    for seed in range(2_000):
        kept[associated_problem(labels, ratio=1, n_classes=2, random_state=seed).rows] += 1
    np.testing.assert_allclose(kept[common] / 2_000, 0.25, atol=0.05)
    assert (kept[labels == 1] == 2_000).all()


def test_the_training_prior_is_that_of_its_own_rows_to_the_last_row() -> None:
    labels = classes(17, 5)
    for method in METHODS:
        problem = associated_problem(labels, ratio=1.5, n_classes=2, method=method, random_state=0)
        size = sizes(problem, labels)
        np.testing.assert_allclose(problem.training_prior, size / size.sum(), rtol=1e-12)
    thinned = associated_problem(labels, ratio=1.5, n_classes=2, random_state=0)
    assert thinned.training_prior.tolist() == [8 / 13, 5 / 13]  # 7.5 rows cannot be drawn


def test_a_cost_weight_of_the_loss_moves_the_training_prior() -> None:
    problem = associated_problem(classes(40, 10), ratio=4, n_classes=2)
    np.testing.assert_allclose(problem.training_prior_at(1.0), [0.8, 0.2])
    np.testing.assert_allclose(problem.training_prior_at(3.0), [12 / 13, 1 / 13])
    for weight in (0.0, -1.0, np.nan):
        with pytest.raises(InvalidInputError, match="negative_weight must be positive"):
            problem.training_prior_at(weight)


@pytest.mark.parametrize("method", METHODS)
def test_population_weights_multiply_and_rows_without_weight_are_left_out(method: str) -> None:
    labels = classes(600, 60)
    weights = np.where(labels == 0, 2.0, 0.5)
    weights[:100] = 0.0
    problem = associated_problem(labels, ratio=3, n_classes=2, method=method, random_state=0, sample_weight=weights)
    assert problem.rows.min() >= 100
    size = sizes(problem, labels)
    assert size[0] / size[1] == pytest.approx(3.0, rel=0.05)  # whole rows
    np.testing.assert_allclose(problem.training_prior, size / size.sum())
    if method != "weight":
        assert (problem.weights == weights[problem.rows]).all()
    assert class_ratio(labels, n_classes=2, sample_weight=weights) > class_ratio(labels, n_classes=2)


def test_a_seed_decides_the_draw() -> None:
    labels = classes(400, 20)
    one, again, other = (associated_problem(labels, ratio=1, n_classes=2, random_state=seed) for seed in (7, 7, 8))
    assert one.rows.tobytes() == again.rows.tobytes()
    assert one.rows.tobytes() != other.rows.tobytes()


@given(
    st.lists(st.integers(1, 60), min_size=2, max_size=5),
    st.floats(1.0, 1e6),
    st.sampled_from(["undersample", "weight"]),
    st.integers(0, 2**32 - 1),
)
def test_every_class_keeps_a_row_and_the_training_prior_is_a_distribution(
    counts: list[int], ratio: float, method: str, seed: int
) -> None:
    labels = classes(*counts)
    problem = associated_problem(labels, ratio=ratio, n_classes=len(counts), method=method, random_state=seed)
    assert set(labels[problem.rows].tolist()) == set(range(len(counts)))
    assert problem.training_prior.sum() == pytest.approx(1.0)
    assert (problem.training_prior > 0.0).all()
    assert (np.diff(problem.rows) >= 0).all()


@pytest.mark.parametrize("ratio", [0.0, -1.0, 0.5, np.nan, np.inf, "five", [1.0, 2.0]])
def test_a_ratio_is_a_finite_number_of_at_least_1(ratio: float) -> None:
    with pytest.raises(InvalidInputError, match="ratio must be"):
        associated_problem([0, 0, 1], ratio=ratio, n_classes=2)


def test_what_makes_no_problem_is_refused() -> None:
    for labels, n_classes in (([0, 0, 0], 2), ([0, 1, 3], 4), ([], 2), ([0, 0], 1)):
        with pytest.raises(InvalidInputError, match="every class"):
            associated_problem(np.array(labels, dtype=np.int64), ratio=1, n_classes=n_classes)
    with pytest.raises(InvalidInputError, match="undersample, oversample, weight"):
        associated_problem([0, 1], ratio=1, n_classes=2, method="smote")
    with pytest.raises(InvalidInputError, match="equally long"):
        associated_problem([0, 1], ratio=1, n_classes=2, sample_weight=[1.0])
    for weights in ([1.0, np.nan], [1.0, -1.0]):
        with pytest.raises(InvalidInputError, match="sample_weight"):
            associated_problem([0, 1], ratio=1, n_classes=2, sample_weight=weights)
    with pytest.raises(InvalidInputError, match="every class"):
        associated_problem([0, 1], ratio=1, n_classes=2, sample_weight=[1.0, 0.0])
    with pytest.raises(InvalidInputError, match="class numbers"):
        associated_problem(["a", "b"], ratio=1, n_classes=2)
