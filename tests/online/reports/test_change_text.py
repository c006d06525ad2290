"""What a stream says of itself, and of what it refuses, tells a reader what to do next."""

import pytest

from obil.bayes.costs import Costs
from obil.errors import InvalidInputError, InvalidStateError
from obil.monitor import LabelShiftMonitor
from obil.online.online_classifier import OnlineClassifier
from tests.online.cases import pair_model, triangle_model

PAIR, TRIANGLE = pair_model(), triangle_model()


def test_a_monitor_for_another_number_of_classes_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"a LabelShiftMonitor of the model's 2 classes, got 'yes'"):
        OnlineClassifier(PAIR, monitor="yes")
    three = LabelShiftMonitor.for_model(TRIANGLE, tolerance=0.0)
    with pytest.raises(InvalidInputError, match=r"the model's 2 classes, got one of 3"):
        OnlineClassifier(PAIR, monitor=three)


def test_a_classifier_shows_where_it_stands() -> None:
    online = OnlineClassifier(PAIR, prior=0.25)
    assert (
        repr(online) == "OnlineClassifier(0 rows, prior {'fine': 0.75, 'fraud': 0.25}, 0 labels, SafeTracker, trusted)"
    )
    online.feedback(online.decide(1.0).id, "fraud")
    assert repr(online).startswith("OnlineClassifier(1 rows, prior {'fine': 0.")
    assert ", 1 labels, " in repr(online)


def test_performance_of_many_classes_says_where_to_name_one() -> None:
    with pytest.raises(InvalidInputError, match=r"OnlineClassifier\(model, positive=...\), one of \['a', 'b', 'c'\]"):
        OnlineClassifier(TRIANGLE).performance()


def test_a_state_in_the_wrong_wrapping_is_told_how_to_unwrap_it() -> None:
    with pytest.raises(InvalidStateError, match=r'its online classifier is state\["online"\]'):
        OnlineClassifier.from_state(PAIR, {"kind": "obil_stream", "online": {}})
    with pytest.raises(InvalidStateError, match=r"give what online.state\(\) returned"):
        OnlineClassifier.from_state(PAIR, "state.json")
    state = {name: part for name, part in OnlineClassifier(PAIR).state().items() if name != "tracker"}
    with pytest.raises(InvalidStateError, match="it has no part 'tracker'"):
        OnlineClassifier.from_state(PAIR, state)


def test_a_stream_without_rows_has_no_figures_over_them() -> None:
    report = OnlineClassifier(PAIR, costs=Costs(false_positive=1, false_negative=5)).performance()
    assert report.window.describe() == "No rows yet."
    assert report.describe() == f"{report.now.describe()} No rows yet."
    assert report.now.describe().startswith("Now: precision ")
