"""The mean of the folds decides, and which fold is a row's evidence is told by its number alone."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.ensemble import HistGradientBoostingClassifier

from obil.calibration.freezing.freeze import freeze
from obil.errors import InvalidInputError, ModelFileError
from obil.serving.files import load, save
from obil.serving.folds import FoldScorer, fold_of_row, fold_scores, folds_of, folds_of_rows, mean_of_folds
from obil.serving.scorers import ColumnScorer, EstimatorScorer
from obil.serving.trees import TreeScorer
from tests.calibration.freezing.rows import labelled
from tests.serving.cases import MODELS
from tests.serving.ensembles import WIDTH, as_model, rows, stump_forest
from tests.serving.test_records import tampered

N_ROWS = 100_000


def forests(n_folds: int = 3, n_classes: int = 2) -> FoldScorer:
    return FoldScorer(tuple(stump_forest(n_classes, seed=seed) for seed in range(n_folds)))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_score_is_the_mean_of_the_scores_of_the_folds(n_classes: int) -> None:
    scorer, X = forests(3, n_classes), rows(60)
    single = np.stack([fold.scores(X) for fold in scorer.folds])
    np.testing.assert_allclose(scorer.scores(X), single.mean(axis=0), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(scorer.fold_scores(X), single.transpose(1, 0, 2), rtol=1e-14, atol=1e-14)
    assert (scorer.n_features, scorer.n_classes) == (WIDTH, n_classes)


def one_tree(trees: TreeScorer) -> TreeScorer:
    return replace(trees, roots=trees.roots[:1], outputs=trees.outputs[:1])


OTHERS: dict[str, Callable[[TreeScorer], TreeScorer]] = {
    "another training prior": lambda trees: replace(trees, training_prior=np.array([0.9, 0.1])),
    "another floor": lambda trees: replace(trees, floor=0.2),
    "fewer trees": one_tree,
    "wider sets of categories": lambda trees: replace(trees, category_sets=np.array([[0b101, 0]], dtype=np.uint8)),
    "trees alone": lambda trees: trees,
}


@pytest.mark.parametrize("other", OTHERS)
def test_trees_of_folds_that_differ_score_as_each_of_them_does(other: str) -> None:
    scorer, X = FoldScorer((stump_forest(), OTHERS[other](stump_forest(seed=1)), stump_forest(seed=2))), rows(200)
    single = np.stack([fold.scores(X) for fold in scorer.folds], axis=1)
    np.testing.assert_allclose(scorer.fold_scores(X), single, rtol=1e-14, atol=1e-14)


def with_categories(seed: int, set_of_left: int) -> TreeScorer:
    """Return a forest whose second tree splits by category: the codes in this set of bits go to the left."""
    trees = stump_forest(seed=seed)
    nodes = trees.nodes.copy()
    nodes["feature"][3], nodes["category_set"][3] = 2, 0
    return replace(trees, nodes=nodes, category_sets=np.array([[set_of_left]], dtype=np.uint8))


def test_folds_keep_the_sets_of_categories_of_their_own() -> None:
    scorer, X = FoldScorer(tuple(with_categories(seed, bits) for seed, bits in enumerate((1, 2, 6)))), rows(200)
    assert scorer.trees is not None
    single = np.stack([fold.scores(X) for fold in scorer.folds], axis=1)
    np.testing.assert_allclose(scorer.fold_scores(X), single, rtol=1e-14, atol=1e-14)
    alike = FoldScorer(tuple(with_categories(seed, 1) for seed in range(3))).fold_scores(X)
    assert not np.allclose(alike[:, 1:], single[:, 1:])


def test_no_rows_have_no_scores() -> None:
    assert FoldScorer((stump_forest(), stump_forest(seed=1))).fold_scores(rows(5)[:0]).shape == (0, 2, 2)


def boosters(n_classes: int) -> FoldScorer:
    """Return two fitted boosters of trees, frozen."""
    X, y = labelled(300, n_classes, missing=True)
    wrapped = [
        EstimatorScorer(
            HistGradientBoostingClassifier(max_iter=5).fit(X[part::2], y[part::2]),
            "predict_proba",
            np.full(n_classes, 1.0 / n_classes),
            1e-9,
            6,
        )
        for part in (0, 1)
    ]
    frozen = tuple(freeze(one, X) for one in wrapped)
    assert all(isinstance(fold, TreeScorer) for fold in frozen)
    return FoldScorer(frozen)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_boosters_of_folds_have_the_same_bits_in_one_pass_as_one_after_the_other(n_classes: int) -> None:
    scorer, (X, _) = boosters(n_classes), labelled(300, n_classes, missing=True)
    assert scorer.trees is not None
    single = np.stack([fold.scores(X) for fold in scorer.folds], axis=1)
    assert scorer.fold_scores(X).tobytes() == single.tobytes()


def test_a_row_has_the_same_bits_alone_and_among_others() -> None:
    scorer, X = forests(7), rows(60)
    assert scorer.batch_invariant
    alone = np.concatenate([scorer.scores(X[[i]]) for i in range(len(X))])
    assert alone.tobytes() == scorer.scores(X).tobytes()


def test_folds_are_batch_invariant_only_where_all_of_them_are() -> None:
    class Foreign:
        n_features, n_classes = WIDTH, 2

        def scores(self, X: Any) -> Any:
            return np.zeros((len(X), 2))

    assert not FoldScorer((stump_forest(), Foreign())).batch_invariant


def test_the_mean_leaves_the_scores_of_the_folds_as_they_are() -> None:
    scores = np.random.default_rng(0).normal(size=(5, 3, 2))
    before = scores.copy()
    mean_of_folds(scores)
    np.testing.assert_array_equal(scores, before)


def test_a_scorer_without_folds_is_its_only_fold() -> None:
    scorer, X = stump_forest(), rows(20)
    assert folds_of(scorer) == (scorer,)
    np.testing.assert_array_equal(fold_scores(scorer, X)[:, 0], scorer.scores(X))
    np.testing.assert_array_equal(fold_scores(FoldScorer((scorer,)), X), fold_scores(scorer, X))


def test_the_hash_is_splitmix64() -> None:
    """The first outputs of the published generator for the seed 0, of which the lower half is seen here."""
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
    lower = [value % 2**32 for value in published]
    assert folds_of_rows(0, 4, 2**32).tolist() == lower
    assert [fold_of_row(row, 2**32) for row in range(4)] == lower


@pytest.mark.parametrize("n_folds", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("first", [0, 1, 12_345, 2**31 - 3, 2**40, 2**62])
def test_a_row_has_one_fold_however_a_stream_is_cut(first: int, n_folds: int) -> None:
    whole = folds_of_rows(first, 200, n_folds)
    assert [fold_of_row(first + i, n_folds) for i in range(200)] == whole.tolist()
    cuts = [0, 1, 1, 50, 199, 200]
    parts = [folds_of_rows(first + a, b - a, n_folds) for a, b in pairwise(cuts)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert whole.dtype == np.int64
    assert set(whole.tolist()) <= set(range(n_folds))


def test_no_rows_have_no_folds() -> None:
    assert folds_of_rows(7, 0, 5).tolist() == []
    assert folds_of_rows(7, 0, 1).tolist() == []


def chi_square(counts: np.ndarray) -> float:
    expected = counts.sum() / counts.size
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("n_folds", [2, 3, 4, 5, 7, 10])
@pytest.mark.parametrize("every", [1, 2, 7, 24, 60, 128])
def test_folds_are_equally_frequent_also_among_every_so_manieth_row(every: int, n_folds: int) -> None:
    """A stream has its hours and its batches. The hash is fixed: a bound at 1 - 1e-4 of chi-square, not a chance."""
    folds = folds_of_rows(0, N_ROWS, n_folds)[::every]
    assert chi_square(np.bincount(folds, minlength=n_folds)) < chi2.ppf(1.0 - 1e-4, n_folds - 1)


@pytest.mark.parametrize("n_folds", [2, 3, 5, 10])
@pytest.mark.parametrize("apart", [1, 2, 3, 5, 10, 64])
def test_the_fold_of_a_row_says_nothing_about_that_of_a_later_one(apart: int, n_folds: int) -> None:
    """Pairs of folds are equally frequent: chi-square at 1 - 1e-4, over pairs that do not overlap."""
    folds = folds_of_rows(0, N_ROWS, n_folds)
    starts = np.flatnonzero(np.arange(N_ROWS - apart) // apart % 2 == 0)
    pairs = folds[starts] * n_folds + folds[starts + apart]
    assert chi_square(np.bincount(pairs, minlength=n_folds**2)) < chi2.ppf(1.0 - 1e-4, n_folds**2 - 1)


def test_a_model_has_at_least_one_fold_and_at_most_a_thousand() -> None:
    with pytest.raises(InvalidInputError, match="1 to 1,000 folds, got 0"):
        FoldScorer(())
    with pytest.raises(InvalidInputError, match="got 1,001"):
        FoldScorer((stump_forest(),) * 1_001)
    assert len(FoldScorer((stump_forest(),) * 1_000).folds) == 1_000


def test_folds_of_other_classes_or_other_rows_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="same classes and features"):
        FoldScorer((stump_forest(2), stump_forest(3)))
    with pytest.raises(InvalidInputError, match="same classes and features"):
        FoldScorer((stump_forest(), replace(stump_forest(), n_features=WIDTH + 1)))
    with pytest.raises(InvalidInputError, match="same classes and features"):
        FoldScorer((stump_forest(), ColumnScorer("margin", np.array([0.5, 0.5]))))  # takes rows of any width


def test_folds_come_back_from_a_folder_to_the_last_bit(tmp_path: Path) -> None:
    model, X = as_model(forests(4)), rows(60)
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.n_folds == 4
    for part in ("log_ratios", "evidence"):
        assert getattr(loaded.score(X), part).tobytes() == getattr(model.score(X), part).tobytes()


def without(path: list[Any]) -> Any:
    """Return a change that drops the last fold of the scorer at this path of a manifest."""

    def change(told: Any) -> None:
        for key in path:
            told = told[key]
        told["folds"].pop()

    return change


COLUMN = {"kind": "column", "link": "margin", "training_prior": [0.3, 0.3, 0.4], "floor": 0.0}
HOSTILE = {
    "no folds": lambda told: told["scorer"].update(folds=[]),
    "folds that are a string": lambda told: told["scorer"].update(folds="abc"),
    "folds that are missing": lambda told: told["scorer"].pop("folds"),
    "a fold that is nothing": lambda told: told["scorer"]["folds"].__setitem__(0, None),
    "a fold that is a calibrator": lambda told: told["scorer"]["folds"].__setitem__(0, told["calibrator"]),
    "a fold of three classes": lambda told: told["scorer"]["folds"].__setitem__(0, COLUMN),
    "ten thousand folds": lambda told: told["scorer"].update(folds=[told["scorer"]["folds"][0]] * 10_000),
    "a view with a fold too few": without(["view_members", 0, "scorer"]),
}


@pytest.mark.parametrize("change", HOSTILE)
def test_a_folder_whose_folds_do_not_fit_is_refused(change: str, tmp_path: Path) -> None:
    save(MODELS["with views"](), tmp_path / "model")
    tampered(tmp_path / "model", manifest=HOSTILE[change])
    with pytest.raises(ModelFileError):
        load(tmp_path / "model")


def test_columns_of_scores_can_be_folds_too() -> None:
    """They take rows of any width."""
    folds = FoldScorer(tuple(ColumnScorer("margin", np.array([1.0 - p, p])) for p in (0.5, 0.2)))
    assert folds.n_features is None
    values = np.array([[-1.0], [2.0]])
    expected = np.mean([fold.scores(values) for fold in folds.folds], axis=0)
    np.testing.assert_allclose(folds.scores(values), expected, rtol=1e-15)
    np.testing.assert_array_equal(folds.scores(values)[:, 0], 0.0)
