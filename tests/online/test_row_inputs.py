"""A stream whose labels teach what inputs of rows tell: every route through it gives the same bits."""

import pickle
from datetime import UTC, datetime
from functools import lru_cache

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import obil
from obil.arrays import FloatArray, IntArray
from obil.errors import InvalidInputError, InvalidStateError
from obil.estimators.ratio_classifier import RatioClassifier
from obil.online.online_classifier import OnlineClassifier
from obil.trackers import BayesBank, SafeTracker
from tests.online.state.damaged import pending_of, with_pending

N_ROWS = 300


@lru_cache(maxsize=1)
def case() -> tuple[RatioClassifier, FloatArray, IntArray, FloatArray]:
    """Return a fitted classifier, and a stream of rows with labels and times whose prior follows the hour."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_500 + N_ROWS, 5))
    at: FloatArray = 1e9 + 3_600.0 * np.arange(len(X), dtype=np.float64)
    chances = expit(X[:, 0] + np.sin(2.0 * np.pi * at / 86_400.0) - 1.0)
    y: IntArray = (rng.random(len(X)) < chances).astype(np.int64)
    fitted = RatioClassifier(LogisticRegression(), random_state=0).fit(X[:1_500], y[:1_500])
    return fitted, X[1_500:], y[1_500:], at[1_500:]


def fed(online: OnlineClassifier, end: int) -> None:
    """Give the labels of every second row of the last fifty."""
    labels = case()[2]
    for row in range(max(end - 50, 0), end, 2):
        online.feedback(row, int(labels[row]), propensity=0.5)


def test_one_at_a_time_many_at_once_replayed_restored_and_pickled_streams_agree_bit_for_bit() -> None:
    fitted, X, _, at = case()
    many, single, replayed, restored = (OnlineClassifier(fitted) for _ in range(4))
    for first in range(0, N_ROWS, 50):
        part = slice(first, first + 50)
        decided = many.decide_many(X[part], at=at[part])
        singly = [single.decide(x, at=float(time)) for x, time in zip(X[part], at[part], strict=True)]
        again = replayed.decide_log_ratios(decided.log_ratios, evidence=decided.evidence)
        scored = restored.decide_scores(fitted.model_.score(X[part], at=at[part]))
        for other in (again, scored):
            np.testing.assert_array_equal(other.effective_priors, decided.effective_priors)
        np.testing.assert_array_equal([one.effective_prior for one in singly], decided.effective_priors)
        np.testing.assert_array_equal([one.evidence for one in singly], decided.evidence)
        restored = pickle.loads(pickle.dumps(restored))  # our own
        for online in (many, single, replayed, restored):
            fed(online, first + 50)
        states = [online.state() for online in (many, single, replayed, restored)]
        assert len(set(states)) == 1
        restored = OnlineClassifier.from_state(fitted, states[0])
    tracker = many.tracker
    assert isinstance(tracker, SafeTracker)
    assert abs(tracker._memory.labels.input_map[2:]).max() > 0.05


def test_the_season_and_the_features_of_a_row_move_its_posterior_once_labels_taught_them() -> None:
    fitted, X, _, at = case()
    online = OnlineClassifier(fitted)
    online.decide_many(X[:200], at=at[:200])
    asked = X[:1]
    noon, midnight = (datetime(2001, 9, 9, hour, tzinfo=UTC) for hour in (6, 18))
    assert online.predict_proba(asked, at=noon)[0, 1] == online.predict_proba(asked, at=midnight)[0, 1]
    for row in range(200):
        online.feedback(row, int(case()[2][row]))
    assert online.predict_proba(asked, at=noon)[0, 1] > online.predict_proba(asked, at=midnight)[0, 1]
    state = online.state()
    decided = pickle.loads(pickle.dumps(online)).decide(asked[0], at=noon)  # our own
    np.testing.assert_array_equal(online.predict_proba(asked, at=noon)[0], decided.posterior)
    assert online.state() == state  # it was only asked


def test_evidence_holds_the_own_ratio_the_views_then_the_inputs() -> None:
    fitted, X, _, at = case()
    model = fitted.model_
    assert model.inputs is not None
    decision = OnlineClassifier(fitted).decide(X[0], at=at[0])
    assert decision.evidence.shape == (1 + model.n_views + model.n_inputs, 2)
    assert not decision.evidence[:, 0].any()
    assert np.abs(decision.evidence[1 + model.n_views :, 1]).max() <= 3.0


def test_erased_rows_keep_no_inputs() -> None:
    fitted, X, _, at = case()
    online = OnlineClassifier(fitted)
    online.decide_many(X[:3], at=at[:3])
    assert online._ledger._inputs[:3].any(axis=1).all()
    assert online.forget(1)
    assert not online._ledger._inputs[1].any()


def test_rows_of_a_replaced_model_are_learned_without_their_inputs() -> None:
    fitted, X, y, _ = case()
    other = RatioClassifier(LogisticRegression(), views=False, random_state=1).fit(X, y)
    online = OnlineClassifier(fitted)
    online.decide_many(X[:20])
    online.model = other
    assert online.feedback(3, 1)
    online.decide_many(X[20:40])
    assert online.feedback(25, 0)
    restored = OnlineClassifier.from_state(other, online.state())
    np.testing.assert_array_equal(restored.decide(X[50]).effective_prior, online.decide(X[50]).effective_prior)


def test_a_tracker_of_another_model_or_a_state_with_other_inputs_is_refused() -> None:
    fitted = case()[0]
    for n_inputs in (1, 13 + 1):
        with pytest.raises(InvalidInputError, match="inputs"):
            OnlineClassifier(fitted, tracker=SafeTracker.for_model(fitted.model_, n_inputs=n_inputs))
    online = OnlineClassifier(fitted)
    online.decide(case()[1][0])
    for width in (0, 3):
        other = with_pending(
            fitted.model_, online.state(), lambda one, n=width: one._replace(inputs=np.zeros((1, n), dtype=np.float32))
        )
        with pytest.raises(InvalidStateError, match=f"labels keep {width} inputs"):
            OnlineClassifier.from_state(fitted, other)
    before = online.state()
    for n_sources in (2, 4, 6, 40):
        with pytest.raises(InvalidInputError, match="views and"):
            online.decide_log_ratios([[0.0, 1.0]], evidence=np.zeros((1, n_sources, 2)))
    with pytest.raises(InvalidInputError, match="at must"):
        online.decide(case()[1][0], at="yesterday")
    assert online.state() == before


def test_other_trackers_and_models_without_inputs_take_the_time_and_ignore_it() -> None:
    fitted, X, y, at = case()
    plain = OnlineClassifier(fitted, tracker=BayesBank())
    decided = plain.decide_many(X[:50], at=at[:50])
    np.testing.assert_array_equal(
        decided.effective_priors, OnlineClassifier(fitted, tracker=BayesBank()).decide_many(X[:50]).effective_priors
    )
    assert pending_of(fitted.model_, plain.state()).inputs.size == 0
    scored = obil.RatioClassifier.from_scores(X[:, 0], y)
    with pytest.warns(UserWarning, match="start prior"):
        OnlineClassifier(scored).decide([0.5], at=0.0)
