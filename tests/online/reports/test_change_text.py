"""What a stream says of itself, and of what it refuses, tells a reader what to do next."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from obil.bayes.costs import Costs
from obil.errors import InvalidInputError, InvalidStateError
from obil.monitor import LabelShiftMonitor
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
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


@pytest.mark.parametrize("state", ["today.state", None, {"kind": "online_classifier"}, [], 3, np.zeros(9, np.uint8)])
def test_what_is_no_bytes_is_told_what_a_state_is(state: Any) -> None:
    with pytest.raises(InvalidStateError, match=r"the bytes that online.state\(\) returned, got "):
        OnlineClassifier.from_state(PAIR, state)


def test_a_checkpoint_of_the_command_is_told_what_to_give(tmp_path: Path) -> None:
    online = OnlineClassifier(PAIR)
    write_checkpoint(tmp_path / "today.state", Checkpoint("", [], 0, [0, 0], "", 0, 0, "", online.state()))
    with pytest.raises(InvalidStateError, match=r"give what online.state\(\) returned"):
        OnlineClassifier.from_state(PAIR, (tmp_path / "today.state").read_bytes())
    saved = read_checkpoint(tmp_path / "today.state")
    assert OnlineClassifier.from_state(PAIR, saved.online).state() == online.state()


def test_a_stream_without_rows_has_no_figures_over_them() -> None:
    report = OnlineClassifier(PAIR, costs=Costs(false_positive=1, false_negative=5)).performance()
    assert report.window.describe() == "No rows yet."
    assert report.describe() == f"{report.now.describe()} No rows yet."
    assert report.now.describe().startswith("Now: precision ")
