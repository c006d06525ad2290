"""BBSE inverts the frequencies of predicted classes by the confusion matrix."""

import numpy as np
import pytest

from experiments.gaussian_pair import GaussianPair
from obil.arrays import FloatArray
from obil.bayes.posterior import posterior
from obil.datasets.gaussian_stream import GaussianClasses
from obil.errors import InvalidInputError
from obil.trackers import BBSE
from obil.trackers.bbse import confusion_of_predictions, inverse_of_confusion
from tests.trackers.cases import start_prior, stream


def predictions_of(rows: FloatArray, prior: FloatArray, soft: bool) -> FloatArray:
    at_prior = posterior(rows, prior)
    return at_prior if soft else np.eye(rows.shape[1])[at_prior.argmax(axis=1)]


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_the_estimate_solves_the_confusion_equations_of_the_window(n_classes: int, soft: bool) -> None:
    rng = np.random.default_rng(n_classes)
    holdout = stream(3_000, n_classes, seed=1)
    joint = posterior(holdout, np.full(n_classes, 1.0 / n_classes))
    labels = np.array([rng.choice(n_classes, p=p) for p in joint])
    training = start_prior(n_classes)
    tracker = BBSE.from_holdout(holdout, labels, prior=training, soft=soft, window=30)
    columns = [predictions_of(holdout[labels == j], training, soft).mean(axis=0) for j in range(n_classes)]
    confusion = np.stack(columns, axis=1)
    np.testing.assert_allclose(
        confusion_of_predictions(holdout, labels, prior=training, soft=soft), confusion, atol=1e-12
    )
    rows = stream(150, n_classes, seed=2)
    priors = np.vstack([tracker.update_many(rows), tracker.prior])
    for t in range(len(rows)):
        frequency = predictions_of(rows[max(0, t - 29) : t + 1], training, soft).mean(axis=0)
        solved = np.maximum(np.linalg.solve(confusion, frequency), 1e-6)
        np.testing.assert_allclose(priors[t + 1], solved / solved.sum(), atol=1e-9)


@pytest.mark.parametrize("prior", [0.05, 0.2, 0.6])
def test_the_inverted_frequency_of_predictions_is_the_prior_itself(prior: float) -> None:
    # h(P) = FPR + P (TPR - FPR) is inverted exactly: unbiased, whatever the confusion
    true_rate, false_rate = (float(rate) for rate in GaussianPair(1.5).rates(0.0))
    inverse = inverse_of_confusion([[1.0 - false_rate, 1.0 - true_rate], [false_rate, true_rate]], n_classes=2)
    frequency = false_rate + prior * (true_rate - false_rate)
    np.testing.assert_allclose(inverse @ [1.0 - frequency, frequency], [1.0 - prior, prior], atol=1e-12)
    # seed 3: 50,000 rows in one window; the estimate's sd is sqrt(h(1-h)/n)/(TPR-FPR) < .005, tolerance 4 sd
    rows = GaussianClasses.pair(1.5).draw(np.full(50_000, prior), random_state=3).log_ratios
    tracker = BBSE(0.5, confusion=[[1.0 - false_rate, 1.0 - true_rate], [false_rate, true_rate]], window=50_000)
    tracker.update_many(rows)
    assert tracker.prior[1] == pytest.approx(prior, abs=4.0 * 0.5 / np.sqrt(50_000) / (true_rate - false_rate))


def test_rows_are_predicted_at_the_training_prior_and_not_at_the_estimate() -> None:
    confusion = np.eye(2)
    tracker = BBSE(0.01, confusion=confusion, training_prior=0.5, window=4)
    tracker.update_many([[0.0, 1.0]] * 4)
    assert tracker.prior[1] == pytest.approx(1.0, abs=1e-5)
    at_start = BBSE(0.01, confusion=confusion, window=4)  # without one, the start prior is the training prior
    at_start.update_many([[0.0, 1.0]] * 4)
    assert at_start.prior[1] == pytest.approx(0.0, abs=1e-5)


def test_a_running_sum_of_soft_predictions_does_not_accumulate_rounding() -> None:
    rows = stream(50_017, 3, seed=4)
    tracker = BBSE(start_prior(3), confusion=np.eye(3), soft=True, window=100)
    tracker.update_many(rows)
    expected = predictions_of(rows[-100:], start_prior(3), soft=True).mean(axis=0)
    np.testing.assert_allclose(tracker.prior, np.maximum(expected, 1e-6), atol=1e-12)


def test_without_a_prior_the_class_with_the_largest_ratio_is_predicted() -> None:
    rows, labels = [[0.0, 0.5], [0.0, -0.5], [0.0, 2.0], [0.0, -2.0]], [0, 0, 1, 1]
    assert confusion_of_predictions(rows, labels).tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert confusion_of_predictions(rows, labels, prior=0.2).tolist() == [[1.0, 0.5], [0.0, 0.5]]


@pytest.mark.parametrize(
    "confusion",
    [
        [[0.5, 0.5], [0.5, 0.5]],
        [[0.9, 0.2], [0.2, 0.8]],
        [[1.1, 0.0], [-0.1, 1.0]],
        [[np.nan, 0.0], [0.0, 1.0]],
        np.eye(3),
        [1.0, 0.0],
    ],
)
def test_a_confusion_that_cannot_be_inverted_or_is_none_is_refused(confusion: object) -> None:
    with pytest.raises(InvalidInputError, match="confusion"):
        inverse_of_confusion(confusion, n_classes=2)
    with pytest.raises(InvalidInputError, match="confusion"):
        BBSE(0.5, confusion=confusion)


def test_a_class_without_held_out_rows_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="every class needs a held-out row"):
        confusion_of_predictions([[0.0, 1.0], [0.0, 2.0]], [1, 1])
    with pytest.raises(InvalidInputError, match="equally long"):
        confusion_of_predictions([[0.0, 1.0], [0.0, 2.0]], [1])


def test_a_training_prior_for_other_classes_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="classes"):
        BBSE(0.5, confusion=np.eye(2), training_prior=[0.2, 0.3, 0.5])
