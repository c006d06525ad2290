"""What the experiment on keyed streams measures is what its page says, on cases that can be done by hand."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
from experiments import keyed_streams
from experiments.keyed_streams import LateLabels, decide
from experiments.wild_streams import Deployed
from obil.estimators.ratio_classifier import RatioClassifier
from obil.online.online_classifier import OnlineClassifier
from obil.online.online_fleet import OnlineFleet

N_ROWS = 600


@pytest.fixture(scope="module")
def stream() -> Deployed:
    rng = np.random.default_rng(0)
    labels = (rng.random(N_ROWS) < 0.3).astype(np.int64)
    scores = 2.0 * (rng.normal(size=N_ROWS) + 2.0 * labels) - 2.0
    classifier = RatioClassifier.from_scores(scores, labels, kind="margin")
    log_ratios = classifier.log_ratios(scores)
    return Deployed(classifier, log_ratios, log_ratios[:, None], scores[:, None], labels, scores, labels)


def test_each_key_gets_its_own_labels_when_they_are_due(stream: Deployed) -> None:
    keys = np.arange(N_ROWS) % 3
    rows = np.array([3, 30, 34, 300, 590])
    labels = LateLabels(rows, rows + 101, 0.5)
    found = decide(OnlineFleet(stream.classifier), stream, keys, labels)
    alone = OnlineClassifier(stream.classifier)
    own = np.flatnonzero(keys == 0)
    expected = []
    for row in own:
        for labelled in (3, 30, 300):  # those of this key
            if labelled + 101 in (row, row - 1, row - 2):
                alone.feedback(labelled, stream.classifier.classes_[stream.labels[labelled]], propensity=0.5)
        expected.append(alone.decide_log_ratios(stream.log_ratios[[row]], ids=[int(row)]).posteriors[0, 1])
    assert alone.label_counts.labelled == 3
    assert found[own].tolist() == expected


def test_labels_of_a_part_come_before_the_same_row_as_in_the_whole() -> None:
    labels = LateLabels(np.array([1, 4, 8]), np.array([4, 7, 11]), 0.1)
    part = labels.among(np.array([4, 6, 8, 9]))
    assert part.rows.tolist() == [0, 2]
    assert part.before.tolist() == [2, 4]  # before row 8, and after the last


def test_levels_are_updated_every_so_many_rows(stream: Deployed) -> None:
    rows = np.arange(0, N_ROWS, 2)
    fleet = OnlineFleet(stream.classifier, common_level=True)
    decide(fleet, stream, np.arange(N_ROWS) % 3, LateLabels(rows, rows + 1, 1.0), update=200)
    first, second = fleet.common_levels
    assert first.n_rows == 100
    assert 180 < second.n_rows <= 200  # recent labels: earlier ones count a little less
    assert abs(second.prior[1] - stream.labels[rows[:200]].mean()) < 0.03


def test_new_keys_start_at_the_level_of_the_others(stream: Deployed) -> None:
    keys, rows = np.arange(N_ROWS) % 3, np.arange(N_ROWS // 2)
    moved = stream._replace(labels=np.where(keys == 2, 1, np.arange(N_ROWS) % 20 == 0).astype(np.int64))
    decided = keyed_streams._new_keys(moved, keys, LateLabels(rows, rows + 1, 1.0))
    half = slice(N_ROWS // 2, None)
    log_odds = np.log(decided / (1.0 - decided)) - stream.log_ratios[half, 1]  # of the prior each was decided with
    starts = [1.0 / (1.0 + np.exp(-log_odds[keys[half] == key])) for key in range(3)]
    assert all(np.ptp(start) < 1e-9 for start in starts)  # there are neither views nor labels in the second half
    assert starts[2][0] < 0.15  # the others are of .05
    assert min(starts[0][0], starts[1][0]) > 0.4  # one of the others is of 1
    assert max(starts[0][0], starts[1][0]) < 0.7


def test_figures_are_relative_to_the_training_prior_and_to_the_others() -> None:
    losses = {"static": 0.5, "common": 0.4, "separate": 0.45, "fleet": 0.42}
    losses |= {"new_static": 0.6, "new_common": 0.5, "new_separate": 0.55, "new_fleet": 0.66}
    result: dict[str, Any] = {"losses": losses, "keys": 2, "rows": 100, "levels": 1}
    figures = keyed_streams.figures([({"set": "one", "by": "two"}, result)], {})
    assert figures["one.two.fleet"] == pytest.approx(0.84)
    assert figures["one.two.new_fleet"] == pytest.approx(1.1)
    assert figures["fleet.against_common.worst"] == pytest.approx(1.05)
    assert figures["fleet.against_separate.mean"] == pytest.approx(0.42 / 0.45)
    assert figures["new_fleet.against_separate.worst"] == pytest.approx(1.2)


def test_a_new_key_counts_as_one_of_them_however_many_rows_it_has() -> None:
    posteriors, labels, keys = np.array([0.5, 0.5, 0.5, 0.9]), np.array([1, 1, 0, 1]), np.array([0, 0, 0, 1])
    assert keyed_streams._mean_of_keys(posteriors, labels, keys) == pytest.approx((np.log(2.0) - np.log(0.9)) / 2.0)
