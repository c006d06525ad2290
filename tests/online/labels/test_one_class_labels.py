"""Labels of which all are of one class, though the scores expect others, are reported."""

import math
from typing import Any

import pytest

from obil.errors import InvalidStateError
from obil.online.labels.one_class_labels import CLASS, N_LABELS, N_ROWS, NEXT
from obil.online.online_classifier import OnlineClassifier
from tests.online.cases import pair_model, pair_stream
from tests.online.state.damaged import with_field

PAIR = pair_model()


def reporting(classes: tuple[int, ...], n: int = 1_500, **settings: Any) -> OnlineClassifier:
    """Return a stream at a prior of .2 of which only labels of these classes are reported."""
    online = OnlineClassifier(PAIR, **settings)
    stream = pair_stream(n, 0.2, 9)
    ratios = PAIR.log_ratios(2.0 * stream.log_ratios[:, 1] + 1.0)
    for first in range(0, n, 50):
        online.decide_log_ratios(ratios[first : first + 50])
        for row in range(first, first + 50):
            if stream.labels[row] in classes:
                online.feedback(row, PAIR.classes_[stream.labels[row]])
    return online


def test_labels_of_one_class_only_are_objected_to() -> None:
    online = reporting((1,))
    found = online.one_class_labels
    assert found is not None
    assert found.label == 1
    assert found.n_labels == online.label_counts.labelled
    assert found.expected_others > 5.0
    report = online.explain()
    assert report.one_class_labels
    assert report.action == "get labels"
    assert f"All {found.n_labels} labels are of 'fraud', although by the scores about" in report.paragraph
    assert "unlabeled_as=" in report.paragraph
    shown = online.performance()
    assert shown.now.one_class_labels
    assert shown.window.one_class_labels
    assert "all labels are of one class" in shown.window.describe()
    again = OnlineClassifier.from_state(PAIR, online.state())
    assert again.one_class_labels == found
    assert again.state() == online.state()
    online.feedback(online.decide(1.0).id, "fine")  # the first of another class
    assert online.one_class_labels is None
    assert not online.performance().window.one_class_labels


@pytest.mark.parametrize(
    ("classes", "settings"),
    [((0, 1), {}), ((1,), {"unlabeled_as": "negative", "horizon": 100}), ((), {})],
    ids=["both", "unlabeled_as means one", "none"],
)
def test_other_labels_are_not_objected_to(classes: tuple[int, ...], settings: dict[str, Any]) -> None:
    online = reporting(classes, **settings)
    assert online.one_class_labels is None
    assert not online.explain().one_class_labels


def test_few_labels_and_rows_that_leave_no_doubt_are_not_objected_to() -> None:
    few = OnlineClassifier(PAIR)
    for _ in range(19):
        few.feedback(few.decide(1.0).id, "fraud")
    assert few.one_class_labels is None
    clear = OnlineClassifier(PAIR)
    for _ in range(60):
        clear.feedback(clear.decide(40.0).id, "fraud")
    assert clear.one_class_labels is None


@pytest.mark.parametrize(
    ("field", "place", "value"),
    [
        ("counts", CLASS, 2),  # of two classes
        ("counts", CLASS, -3),
        ("counts", N_LABELS, 3),  # fewer than the rows that are kept of them
        ("counts", N_ROWS, -1),
        ("counts", N_ROWS, 65),
        ("counts", NEXT, -1),
        ("counts", NEXT, 64),
        ("log_ratios", (0, 1), math.nan),
        ("log_ratios", (63, 0), math.inf),
    ],
)
def test_a_damaged_memory_is_refused(field: str, place: Any, value: float) -> None:
    online = reporting((1,), n=600)
    assert online.one_class_labels is not None
    state = with_field(PAIR, online.state(), f"one_class.{field}", place, value)
    with pytest.raises(InvalidStateError, match="labels of one class"):
        OnlineClassifier.from_state(PAIR, state)
