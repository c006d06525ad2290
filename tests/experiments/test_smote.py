"""SMOTE is allowed, and how far it bends the ratio is measured where the ratio is known."""

import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from experiments.smote import ratio_distortion, smote_problem
from obil.arrays import FloatArray, IntArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.errors import InvalidInputError

needs_imblearn = pytest.mark.usefixtures("imblearn")


@pytest.fixture
def imblearn() -> None:
    pytest.importorskip("imblearn", reason="needs the experiments extra")


def logistic_fit(features: FloatArray, labels: IntArray, weights: FloatArray):
    return LogisticRegression(C=1.0, max_iter=1_000).fit(features, labels, sample_weight=weights).predict_proba


@needs_imblearn
def test_smote_bends_the_ratio_more_than_thinning_and_weights_do() -> None:
    """Ten features, 100 positives at 40 : 1, 20 training sets, a logistic regression (which can hold the truth).

    Measured (seed 0), slope / offset / RMS error: SMOTE 1.21 / -.26 / .90; undersampling 1.00 / -.07 / .68;
    oversampling and weights 1.04 / -.12 / .59. Seeds 1 and 2: SMOTE 1.18 and 1.27, the others .98 to 1.08.
    """
    found = ratio_distortion(
        logistic_fit, GaussianClasses.spread(2.0, n_features=10), counts=[4_000, 100], random_state=0
    )
    assert found["smote"].slope > 1.15
    for method in ("undersample", "oversample", "weight"):
        assert abs(found[method].slope - 1.0) < 0.12
        assert abs(found["smote"].slope - 1.0) > 1.5 * abs(found[method].slope - 1.0) + 0.05
        assert found["smote"].rms > found[method].rms + 0.15
        assert abs(found["smote"].offset) > abs(found[method].offset) + 0.04


@needs_imblearn
def test_with_many_rows_the_bend_of_smote_stays_and_that_of_the_others_goes() -> None:
    """Sampling noise fades, the other density fades slower: 1,000 positives in ten features, 5 training sets.

    Measured (seed 0), slope / RMS error: SMOTE 1.11 / .35; the others .99 / .16 to .21.
    """
    found = ratio_distortion(
        logistic_fit, GaussianClasses.spread(2.0, n_features=10), counts=[40_000, 1_000], n_repeats=5, random_state=0
    )
    for method in ("undersample", "oversample", "weight"):
        assert abs(found[method].slope - 1.0) < 0.04
        assert found[method].rms < 0.25
    assert found["smote"].slope > 1.07
    assert found["smote"].rms > 0.3


def test_a_fit_that_knows_the_truth_shows_no_distortion() -> None:
    classes = GaussianClasses(np.array([[0.0], [2.0], [4.0]]), np.eye(1))

    def truth(features: FloatArray, labels: IntArray, weights: FloatArray):
        log_prior = np.log(np.bincount(labels, weights=weights))

        def posteriors(fresh: FloatArray) -> FloatArray:
            joint = np.exp(classes.log_ratios(fresh) + log_prior)
            return joint / joint.sum(axis=1, keepdims=True)

        return posteriors

    found = ratio_distortion(
        truth,
        classes,
        counts=[300, 90, 20],
        methods=("undersample", "oversample", "weight", "none"),
        n_repeats=2,
        random_state=0,
    )
    for offset, slope, rms in found.values():
        assert (offset, slope, rms) == pytest.approx((0.0, 1.0, 0.0), abs=1e-9)


@needs_imblearn
def test_keeps_the_rows_and_adds_what_lies_between_them() -> None:
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(130, 3)), np.repeat([0, 1, 2], [100, 20, 10])
    problem = smote_problem(features, labels, ratio=2, random_state=0)
    np.testing.assert_array_equal(problem.features[:130], features)
    assert np.bincount(problem.labels).tolist() == [100, 50, 50]
    assert problem.training_prior.tolist() == [0.5, 0.25, 0.25]
    for k in (1, 2):
        own = features[labels == k]
        made = problem.features[130:][problem.labels[130:] == k]
        assert (made >= own.min(axis=0)).all()
        assert (made <= own.max(axis=0)).all()
    again = smote_problem(features, labels, ratio=2, random_state=0)
    assert again.features.tobytes() == problem.features.tobytes()
    same = smote_problem(features, labels, ratio=10.0, random_state=0)
    assert len(same.features) == 130


@needs_imblearn
def test_what_smote_cannot_make_is_refused() -> None:
    features, labels = np.zeros((24, 2)), np.repeat([0, 1], [20, 4])
    with pytest.raises(InvalidInputError, match="k_neighbors"):
        smote_problem(features, labels, ratio=1)
    for ratio in (0.5, 6.0, np.nan):
        with pytest.raises(InvalidInputError, match="ratio must lie in"):
            smote_problem(features, labels, ratio=ratio, k_neighbors=2)
    with pytest.raises(InvalidInputError, match="finite numbers"):
        smote_problem(np.full((24, 2), np.nan), labels, ratio=1, k_neighbors=2)
    with pytest.raises(InvalidInputError, match="equally long"):
        smote_problem(features[:5], labels, ratio=1, k_neighbors=2)
    with pytest.raises(InvalidInputError, match="every class"):
        smote_problem(features, np.zeros(24, dtype=np.int64), ratio=1, k_neighbors=2)
    with pytest.raises(InvalidInputError, match="class numbers"):
        smote_problem(features, np.where(labels == 1, "yes", "no"), ratio=1, k_neighbors=2)


def test_without_imbalanced_learn_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imblearn.over_sampling", None)
    with pytest.raises(InvalidInputError, match=r"obil\[experiments\]"):
        smote_problem(np.zeros((4, 1)), [0, 0, 0, 1], ratio=1)


def test_a_measurement_that_makes_no_sense_is_refused() -> None:
    pair = GaussianClasses.pair(2.0)
    with pytest.raises(InvalidInputError, match="methods must be among"):
        ratio_distortion(logistic_fit, pair, counts=[10, 10], methods=("magic",))
    for counts in ([10], [10, 0], [10, 10, 10]):
        with pytest.raises(InvalidInputError, match="counts"):
            ratio_distortion(logistic_fit, pair, counts=counts)
