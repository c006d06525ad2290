"""How much of what is decided labels account for."""

import numpy as np
import pytest

from obil.datasets.gaussian_stream import GaussianClasses
from obil.trackers import SafeTracker
from obil.trackers.label_experts import N_EXPERTS
from obil.trackers.label_summary import label_weight_text, weight_of_labels


def test_one_label_says_little_and_many_decide() -> None:
    drawn = GaussianClasses.pair(2.0).draw(np.full(600, 0.5), random_state=3)
    tracker = SafeTracker(0.1)
    assert tracker.label_weight == 0.0
    says = []
    for row, label in zip(drawn.log_ratios, drawn.labels.tolist(), strict=True):
        tracker.update(row)
        tracker.feedback(row, label)
        says.append(tracker.label_weight)
    assert 0.0 < says[0] < 0.05
    assert says[0] < says[50] < says[-1]
    assert says[-1] > 0.5  # the fast bank has found the prior, too
    assert tracker.status == label_weight_text(says[-1])


@pytest.mark.parametrize(("drift", "least", "most"), [(0.0, 0.01, 0.1), (-1.5, 0.5, 1.0)])
def test_labels_that_come_late_decide_where_they_tell_more_than_the_scores(
    drift: float, least: float, most: float
) -> None:
    # all labels 300 rows late: where the scores are right they have nothing to add, where the scores drift they have
    drawn = GaussianClasses.pair(2.5).draw(np.full(3_000, 0.2), random_state=4)
    rows = drawn.log_ratios + np.array([0.0, drift])
    tracker = SafeTracker(0.2)
    for n, row in enumerate(rows):
        tracker.update(row)
        if n >= 300:
            tracker.feedback(rows[n - 300], int(drawn.labels[n - 300]), row=n - 300)
    assert least < tracker.label_weight < most
    assert tracker.status == label_weight_text(tracker.label_weight)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_without_labels_there_is_no_say_and_with_endless_ones_their_experts_weight(n_classes: int) -> None:
    weights = np.arange(1.0, N_EXPERTS + 1.0) / np.arange(1.0, N_EXPERTS + 1.0).sum()
    none = weight_of_labels(weights, np.zeros((3, n_classes)))
    assert abs(none) < 1e-12
    many = weight_of_labels(weights, np.full((3, n_classes), 1e9))
    assert many == pytest.approx(weights[3:].sum(), abs=1e-6)


def test_hardly_any_say_is_said_so() -> None:
    assert label_weight_text(0.001).endswith("less than 1 %")
