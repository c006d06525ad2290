"""The interval of a tracker that labels reach: no wider for a label that agrees, valid under label shift."""

import numpy as np
import pytest

from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.datasets.prior_paths import constant, ramp, step
from obil.trackers import SafeTracker
from obil.trackers.label_summary import counted_interval, labelled_interval

CLASSES = GaussianClasses.pair(2.5)


def width(tracker: SafeTracker) -> float:
    low, high = tracker.interval()[1]
    return float(high - low)


def quiet_tracker() -> SafeTracker:
    tracker = SafeTracker(0.05)
    tracker.update_many(CLASSES.draw(constant(2_200, 0.05), random_state=0).log_ratios)
    return tracker


@pytest.mark.parametrize(("label", "log_ratio"), [(0, -3.0), (1, 4.0)])
def test_one_label_makes_the_prior_no_less_sure(label: int, log_ratio: float) -> None:
    tracker = quiet_tracker()
    before = width(tracker)
    tracker.feedback([0.0, log_ratio], label)
    assert width(tracker) < (1.3 if label else 1.05) * before  # the prior itself moves with a rare label


def test_the_first_alerts_of_an_audit_make_the_prior_no_less_sure() -> None:
    # all of them are checked, and until a row of the others is, they look as if all rows were like them
    tracker = quiet_tracker()
    before = width(tracker)
    for _ in range(2):
        tracker.feedback([0.0, 4.0], 1)
    assert width(tracker) < 2.0 * before


@pytest.mark.parametrize(("rate", "delay"), [(0.05, 300), (0.3, 0), (0.3, 300)])
def test_under_label_shift_it_covers_the_prior_and_is_no_wider_than_without_labels(rate: float, delay: int) -> None:
    # 20 streams of each path, seeds 0 ... 19, looked at twice each: 120 intervals of 90 %; at least .85 cover
    covered, wider = [], []
    for seed in range(20):
        for path in (constant(3_000, 0.05), step(3_000, 0.05, 0.2, at=1_000), ramp(3_000, 0.05, 0.2)):
            rng = np.random.default_rng(seed)
            stream = CLASSES.draw(path, random_state=rng)
            tracker, without = SafeTracker(0.05), SafeTracker(0.05)
            done = 0
            asked = np.flatnonzero(rng.random(3_000) < rate)
            for end in (1_500, 3_000):
                for row in asked[(asked + delay >= done) & (asked + delay < end)].tolist():
                    tracker.update_many(stream.log_ratios[done : row + delay + 1])
                    done = row + delay + 1
                    tracker.feedback(stream.log_ratios[row], int(stream.labels[row]), propensity=rate, row=row)
                tracker.update_many(stream.log_ratios[done:end])
                without.update_many(stream.log_ratios[end - 1_500 : end])
                done = end
                low, high = tracker.interval()[1]
                covered.append(low <= path[end - 1] <= high)
                wider.append(width(tracker) / width(without))
    assert np.mean(covered) > 0.85
    assert np.median(wider) < 1.05
    assert np.quantile(wider, 0.9) < 1.3


def test_labels_that_contradict_the_banks_are_reached_for_and_in_the_end_believed() -> None:
    banks, labels = np.array([[0.01, 0.03]]), np.array([[[0.3, 0.5]]])
    assert labelled_interval(banks, banks, labels, bank_weight=0.3).tolist() == [[0.01, 0.5]]
    assert labelled_interval(banks, banks, labels, bank_weight=0.01).tolist() == [[0.3, 0.5]]

    rows = CLASSES.draw(constant(3_000, 0.02), random_state=1).log_ratios
    tracker = SafeTracker(0.05)
    tracker.update_many(rows)
    for n, row in enumerate(rows[:1_500]):  # the rows look negative, and their labels are positive by halves
        tracker.update(row)
        tracker.feedback(row, n % 2)
    low, high = tracker.interval()[1]
    assert 0.3 < low < tracker.prior[1] < high < 0.6


def test_a_longer_memory_that_a_shorter_one_contradicts_does_not_narrow() -> None:
    banks, fast = np.array([[0.1, 0.5]]), np.array([[0.3, 0.5]])
    short, long = np.array([[0.35, 0.6]]), np.array([[0.2, 0.24]])

    def known(*counted: FloatArray) -> list[float]:
        return labelled_interval(banks, fast, np.array(counted), bank_weight=1.0)[0].tolist()

    assert known(short) == [0.3, 0.6]  # narrower than the banks
    assert known(short, np.array([[0.4, 0.45]])) == [0.3, 0.5]
    assert known(short, long) == known(short)
    assert known(long) == [0.1, 0.5]  # it agrees with the slow bank alone


def test_the_interval_of_counts_covers_as_often_as_it_says() -> None:
    # 2,000 binomial counts of 200 at .1, seed 0: three standard errors of a coverage of .9 are .02
    guarded = np.array([0.9, 0.1])
    drawn = np.random.default_rng(0).binomial(200, 0.1, size=2_000)
    ends = np.array([counted_interval(np.array([200.0 - n, n]), guarded, 0.9)[1] for n in drawn])
    covers = (ends[:, 0] <= 0.1) & (ends[:, 1] >= 0.1)
    assert 0.88 < covers.mean() < 0.97


def test_all_classes_have_an_interval_around_their_prior() -> None:
    tracker = SafeTracker([0.5, 0.3, 0.2])
    rng = np.random.default_rng(2)
    for row in np.column_stack([np.zeros(300), rng.normal(size=(300, 2))]):
        tracker.update(row)
        tracker.feedback(row, int(rng.integers(3)))
    ends = tracker.interval()
    assert ends.shape == (3, 2)
    assert (ends[:, 0] > 0.0).all()
    assert (ends[:, 0] <= tracker.prior).all()
    assert (tracker.prior <= ends[:, 1]).all()
    assert (ends[:, 1] < 1.0).all()
