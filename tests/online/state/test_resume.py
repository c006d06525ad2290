"""A stream resumes from a state of the same settings; its horizon may change, its policy where that is said."""

from typing import Any

import pytest

from obil.errors import InvalidStateError
from obil.monitor import LabelShiftMonitor
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.resume import resumed, settings_in
from obil.policies import FBetaPolicy
from obil.trackers import BayesBank, FixedPrior, SafeTracker
from tests.online.bits import lies_in
from tests.online.cases import pair_model, pair_scores
from tests.online.state.damaged import with_field, with_settings

PAIR = pair_model()
NAME = "today.state"


def stream(**settings: Any) -> OnlineClassifier:
    return OnlineClassifier(PAIR, **{"tracker": SafeTracker(), "horizon": 50} | settings)


def begun(**settings: Any) -> OnlineClassifier:
    online, rows = stream(**settings), pair_scores(200, 0.3, seed=1)
    online.decide_many(rows)
    for row in range(160, 200, 5):
        online.feedback(row, "fraud" if rows[row] > 2.0 else "fine", propensity=0.5)
    return online


def test_a_stream_of_the_same_settings_goes_on_bit_for_bit() -> None:
    online = begun(prior=0.3, unlabeled_as="negative")
    again = resumed(stream(prior=0.3, unlabeled_as="negative"), online.state(), name=NAME, change_policy=False)
    assert again.state() == online.state()
    rows = pair_scores(100, 0.3, seed=2)
    assert again.decide_many(rows).effective_priors.tobytes() == online.decide_many(rows).effective_priors.tobytes()
    assert again.state() == online.state()


@pytest.mark.parametrize("horizon", [0, 7, 49, 51, 10_000])
def test_another_horizon_changes_what_is_remembered_and_no_decision(horizon: int) -> None:
    online = begun()
    again = resumed(stream(horizon=horizon), online.state(), name=NAME, change_policy=False)
    assert again.horizon == horizon
    rows = pair_scores(300, 0.3, seed=2)
    assert again.decide_many(rows).effective_priors.tobytes() == online.decide_many(rows).effective_priors.tobytes()
    known = [row for row in range(again.n_rows) if again.row_of(row) is not None]
    oldest = max(500 - horizon, 150)
    assert known == list(range(oldest, 500))
    once_more = resumed(stream(horizon=horizon), again.state(), name=NAME, change_policy=False)
    assert once_more.state() == again.state()
    back = resumed(stream(horizon=60), again.state(), name=NAME, change_policy=False)
    back.decide_many(rows[:10])
    assert [row for row in range(510) if back.row_of(row) is not None] == list(range(max(oldest, 450), 510))


def test_with_unlabeled_as_rows_that_a_shorter_horizon_forgets_are_not_learned_from() -> None:
    online = begun(unlabeled_as="negative")
    again = resumed(stream(unlabeled_as="negative", horizon=10), online.state(), name=NAME, change_policy=False)
    assert again.label_counts.unlabeled == online.label_counts.unlabeled
    again.decide_many(pair_scores(10, 0.3, seed=2))
    assert again.label_counts.unlabeled == online.label_counts.unlabeled + 8  # rows 190 and 195 have labels


def test_another_policy_is_taken_only_where_that_is_said() -> None:
    online, fresh = begun(), stream(policy=FBetaPolicy())
    with pytest.raises(InvalidStateError, match=r"today\.state was made with other costs .* --change-policy"):
        resumed(fresh, online.state(), name=NAME, change_policy=False)
    again = resumed(fresh, online.state(), name=NAME, change_policy=True)
    assert again.policy.to_json() == FBetaPolicy().to_json()
    assert again.prior.tobytes() == online.prior.tobytes()
    same = resumed(stream(), online.state(), name=NAME, change_policy=True)
    assert same.state() == online.state()


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "positive": ({"positive": "fine"}, "another positive class: 'fraud', not 'fine'"),
    "tracker": ({"tracker": BayesBank()}, "another tracker: 'SafeTracker'"),
    "start prior": ({"prior": 0.25}, r"another start prior: \[0.794, 0.206\], not \[0.75, 0.25\]"),
    "the tracker's settings": ({"tracker": SafeTracker(lead="fast")}, "another tracker"),
    "no monitor": ({"monitor": False}, "another monitor"),
    "another monitor": ({"monitor": LabelShiftMonitor.for_model(PAIR, alpha=0.05)}, "another monitor"),
    "unlabeled_as": ({"unlabeled_as": "negative"}, "another unlabeled_as: None, not 0"),
}


@pytest.mark.parametrize(("other", "message"), OTHERS.values(), ids=OTHERS.keys())
def test_other_settings_are_refused_by_name(other: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidStateError, match=f"today.state belongs to .*{message}"):
        resumed(stream(**other), begun().state(), name=NAME, change_policy=True)


def test_settings_that_only_a_hostile_hand_writes_are_refused() -> None:
    state = begun().state()
    for change in (
        {"tracker": ["FixedPrior", {"prior": [0.794, 0.206]}]},
        {"tracker": ["SafeTracker", {}]},
        {"tracker": None},
        {"positive": 7},
        {"monitor": {"tolerance": 9.0}},
    ):
        hostile = with_settings(PAIR, state, lambda given, change=change: given.update(change))
        with pytest.raises(InvalidStateError, match=r"today\.state "):
            resumed(stream(), hostile, name=NAME, change_policy=True)
    assert settings_in(PAIR, state)["horizon"] == 50


def test_a_damaged_state_is_refused_by_its_name() -> None:
    state = begun().state()
    damaged = [state[:-1], b"", with_field(PAIR, state, "tracker.fast.seen", 1, 10**6)]
    damaged.append(OnlineClassifier(pair_model(seed=1), tracker=FixedPrior()).state())
    for one in damaged:
        with pytest.raises(InvalidStateError, match=r"today\.state is damaged: "):
            resumed(stream(), one, name=NAME, change_policy=False)


def test_what_was_learned_is_all_that_is_taken_over() -> None:
    online, fresh = begun(), stream()
    again = resumed(fresh, online.state(), name=NAME, change_policy=False)
    assert fresh.n_rows == 0
    assert not lies_in(again._flat, fresh._flat)
    assert again.model is fresh.model
