"""A state is small, brings any stream back bit for bit, and is refused where it is damaged or belongs elsewhere."""

import gc
import pickle
import weakref
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from obil.errors import InvalidStateError
from obil.estimators.ratio_classifier import RatioClassifier
from obil.monitor import LabelShiftMonitor
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.stream_state import HEAD, MAGIC, VERSION, read_state
from obil.policies import AlertBudget, FBetaPolicy
from obil.serving.ratio_model import RatioModel
from obil.trackers import BayesBank, SafeTracker
from tests.online.bits import lies_in
from tests.online.cases import pair_model, pair_scores, triangle_model
from tests.online.state.streams import VIEWED, Rows, go_on, model_of, rows_of, stream_of
from tests.trackers.cases import CASES

PAIR = pair_model()
STREAMS = [(VIEWED, 2), *((name, size) for name, size in CASES if size <= 3)]


@pytest.mark.parametrize("settings", [{}, {"monitor": False, "horizon": 0}, {"unlabeled_as": 0}], ids=str)
@pytest.mark.parametrize(("tracker", "n_classes"), STREAMS)
def test_a_stream_goes_on_bit_for_bit_from_a_state_of_any_row(
    tracker: str, n_classes: int, settings: dict[str, Any]
) -> None:
    rows, rng = rows_of(tracker, n_classes), np.random.default_rng(0)
    if "unlabeled_as" in settings:
        settings = {"unlabeled_as": model_of(tracker, n_classes).classes_[settings["unlabeled_as"]]}
    unbroken, resumed = (stream_of(tracker, n_classes, **settings) for _ in range(2))
    first = 0
    for number, n_rows in enumerate([0, 1, 2, *rng.integers(1, 250, size=6).tolist()]):
        part = rows.part(first, first + n_rows)
        if n_rows:
            priors = [go_on(one, part, seed=number) for one in (unbroken, resumed)]
            assert priors[0].tobytes() == priors[1].tobytes()
        first += n_rows
        state = resumed.state()
        assert state == unbroken.state()
        resumed = OnlineClassifier.from_state(model_of(tracker, n_classes), state)
        assert resumed.state() == state
    assert resumed.n_rows == first
    assert repr(resumed) == repr(unbroken)
    assert resumed.explain() == unbroken.explain()
    assert resumed.label_counts == unbroken.label_counts
    assert resumed.labels_since_alarm == unbroken.labels_since_alarm
    assert resumed.policy.to_json() == unbroken.policy.to_json()
    assert (resumed.horizon, resumed.unlabeled_as) == (unbroken.horizon, unbroken.unlabeled_as)


def test_an_alarm_restarts_and_a_new_model_are_in_the_state() -> None:
    online = stream_of("SafeTracker", 2, monitor=LabelShiftMonitor.for_model(PAIR, tolerance=0.0))
    online.decide_many(0.3 * pair_scores(2_000, 0.2, seed=4) + 3.0)
    assert not online.trusted
    online.feedback(online.n_rows - 1, "fraud")
    assert online.labels_since_alarm == (0, 1)
    for change in (lambda: None, online.restart_monitor, lambda: setattr(online, "model", pair_model(seed=1))):
        change()
        again = OnlineClassifier.from_state(online.model, online.state())
        assert again.monitoring_runs == online.monitoring_runs
        assert again.labels_since_alarm == online.labels_since_alarm
        assert again.trusted == online.trusted
        for one in (online, again):
            one.decide_many(pair_scores(30, 0.2, seed=5))
            one.feedback(one.n_rows - 40, "fine")  # of a row before the change, too
        assert again.state() == online.state()


@pytest.mark.parametrize("prior", [0.02, [0.7, 0.3]])
def test_the_start_prior_of_a_stream_is_in_its_state(prior: Any) -> None:
    online = OnlineClassifier(PAIR, prior=prior, tracker=SafeTracker())
    again = OnlineClassifier.from_state(PAIR, online.state())
    rows = pair_scores(600, 0.2, seed=7)
    assert again.decide_many(rows).effective_priors.tobytes() == online.decide_many(rows).effective_priors.tobytes()
    for one in (online, again):
        one.feedback(5, "fraud")
        one.decide_many(rows)
    assert isinstance(again.tracker, SafeTracker)
    assert again.tracker.start_prior.tolist() == online.tracker.start_prior.tolist()  # type: ignore[attr-defined]
    assert again.state() == online.state()


def test_a_model_that_no_stream_has_any_more_is_let_go() -> None:
    model = pair_model(seed=2)
    online = OnlineClassifier.from_state(model, OnlineClassifier(model).state())
    online.decide(1.0)
    known = weakref.ref(model)
    del model, online
    gc.collect()
    assert known() is None


def test_streams_of_one_state_are_independent() -> None:
    online = stream_of("SafeTracker", 2)
    go_on(online, rows_of("SafeTracker", 2).part(0, 300), seed=0)
    state = online.state()
    one, other = (OnlineClassifier.from_state(online.model, state) for _ in range(2))
    go_on(one, rows_of("SafeTracker", 2).part(300, 600), seed=1)
    one.policy = FBetaPolicy()
    assert online.state() == other.state() == state != one.state()


def test_a_state_of_numpys_or_a_buffers_bytes_is_read_too() -> None:
    online = OnlineClassifier(PAIR)
    online.decide_many(pair_scores(20, 0.2, seed=1))
    state = online.state()
    for same in (bytearray(state), memoryview(state), np.frombuffer(state, np.uint8).tobytes()):
        assert OnlineClassifier.from_state(PAIR, same).state() == state
    assert pickle.loads(pickle.dumps(online)).state() == state


def test_a_stream_takes_16_kilobytes_in_memory_and_little_in_a_store() -> None:
    model = model_with_four_views()
    assert model.n_views == 4
    online, rng = OnlineClassifier(model, horizon=0), np.random.default_rng(1)
    assert len(online.state()) < 5_500  # bytes: 5,106
    online.decide_many(rng.normal(size=(200, 4)))
    assert len(online.state()) < 8_000  # 7,388
    online.decide_many(rng.normal(size=(4_800, 4)))
    assert len(online.state()) < 11_500  # 10,308
    assert len(zlib.compress(online.state())) < 8_000
    assert online._flat.nbytes < 16_000


def model_with_four_views() -> RatioModel:
    rng = np.random.default_rng(0)
    labels = (rng.random(2_000) < 0.1).astype(int)
    rows = rng.normal(size=(2_000, 4)) + labels[:, None] * np.array([2.0, 0.6, 0.4, 0.3])
    return RatioClassifier(LogisticRegression(), views=True, random_state=0).fit(rows, labels).model_


def test_a_policy_and_a_horizon_can_be_replaced() -> None:
    online = stream_of("SafeTracker", 2)
    go_on(online, rows_of("SafeTracker", 2).part(0, 300), seed=0)
    other = OnlineClassifier.from_state(PAIR, online.state(), policy=AlertBudget(0.05), horizon=20)
    assert (other.horizon, other.policy.to_json()) == (20, AlertBudget(0.05).to_json())
    assert (online.horizon, online.n_rows) == (60, other.n_rows)
    assert other.prior.tobytes() == online.prior.tobytes()
    assert not other.feedback(online.n_rows - 21, "fine")
    assert other.feedback(online.n_rows - 1, "fine")
    again = OnlineClassifier.from_state(PAIR, other.state())
    assert (again.horizon, again.policy.to_json()) == (20, AlertBudget(0.05).to_json())
    assert again.state() == other.state()
    same = OnlineClassifier.from_state(PAIR, online.state(), policy=online.policy, horizon=60)
    assert same.state() == online.state()
    longer = OnlineClassifier.from_state(PAIR, online.state(), horizon=10_000)
    rows = rows_of("SafeTracker", 2).part(300, 500)
    longer.decide_log_ratios(rows.log_ratios, evidence=rows.evidence)
    assert longer.feedback(online.n_rows - 60, "fine")
    assert not longer.feedback(online.n_rows - 61, "fine")  # forgotten before


def test_a_record_of_a_stream_is_continued_in_place() -> None:
    online, rows = stream_of("SafeTracker", 2), rows_of("SafeTracker", 2)
    go_on(online, rows.part(0, 300), seed=0)
    with_labels = read_state(online.model, online.state())
    assert np.array_equal(with_labels.record_in(online._layout), online._flat)
    for part in (online._tracker.memory, online.monitor.memory, online._record.tally.memory):  # type: ignore[union-attr]
        for values in part:
            if isinstance(values, np.ndarray):
                assert lies_in(values, online._flat)


def resealed(state: bytes, **head: Any) -> bytes:
    """Return a state with other values in its head, and the checksum of what follows."""
    names = ("magic", "version", "model", "layout", "checksum", "settings", "record", "pending")
    values = dict(zip(names, HEAD.unpack_from(state), strict=True)) | {"checksum": zlib.crc32(state[HEAD.size :])}
    return HEAD.pack(*(values | head).values()) + state[HEAD.size :]


def moved(state: bytes, settings: int, record: int, pending: int) -> bytes:
    """Return a state whose parts are said to be longer by so many bytes."""
    sizes = HEAD.unpack_from(state)[5:]
    longer = dict(zip(("settings", "record", "pending"), np.add(sizes, (settings, record, pending)), strict=True))
    return resealed(state, **longer)


REFUSED: dict[str, tuple[Callable[[bytes], Any], str]] = {
    "nothing": (lambda state: b"", "not the state of an online classifier"),
    "no state": (lambda state: b"row,label\n" * 90, "not the state of an online classifier"),
    "foreign magic": (lambda state: b"obilstax" + state[8:], "not the state of an online classifier"),
    "something before it": (lambda state: b" " + state, "not the state of an online classifier"),
    "half a head": (lambda state: state[: HEAD.size - 1], "not the state of an online classifier"),
    "the magic alone": (lambda state: MAGIC, "not the state of an online classifier"),
    "an older version": (lambda state: resealed(state, version=VERSION - 1), f"reads state format {VERSION}, got 2"),
    "a newer version": (lambda state: resealed(state, version=VERSION + 1), f"reads state format {VERSION}, got 4"),
    "a head alone": (lambda state: state[: HEAD.size], "checksum is wrong"),
    "cut short": (lambda state: state[:-1], "checksum is wrong"),
    "trailing bytes": (lambda state: state + b"\0", "checksum is wrong"),
    "trailing bytes that are counted": (lambda state: moved(resealed(state + b"\0"), 0, 0, 1), "length is not that"),
    "a wrong checksum": (lambda state: resealed(state, checksum=1), "checksum is wrong"),
    "one bit": (lambda state: state[:200] + bytes([state[200] ^ 1]) + state[201:], "checksum is wrong"),
    "another layout": (lambda state: resealed(state, layout=b"12345678"), "another layout"),
    "another model": (lambda state: resealed(state, model=bytes(16)), "belongs to another model"),
    "parts that are too long": (lambda state: resealed(state, record=2**32 - 1), "checksum is wrong"),
    "no pending block": (lambda state: moved(state, 0, 8, -8), "damaged"),
    "a record less long": (lambda state: moved(state, 0, -8, 8), "damaged"),
    "a record of no whole number": (lambda state: moved(state, 0, -1, 1), "not whole"),
    "settings cut short": (lambda state: moved(state, -1, 1, 0), "settings are not JSON"),
    "settings with more behind them": (lambda state: moved(state, 1, -1, 0), "settings are not JSON"),
    "no settings": (lambda state: moved(state, -HEAD.unpack_from(state)[5], HEAD.unpack_from(state)[5], 0), "not JSON"),
    "JSON": (lambda state: {"kind": "online_classifier"}, "bytes that online.state"),
    "text": (lambda state: state.decode("latin-1"), "bytes that online.state"),
    "an array": (lambda state: np.frombuffer(state, np.uint8), "bytes that online.state"),
    "None": (lambda state: None, "bytes that online.state"),
}


@pytest.mark.parametrize(("damage", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_whole_state_of_this_model_is_refused(damage: Callable[[bytes], Any], message: str) -> None:
    online = stream_of("SafeTracker", 2)
    go_on(online, rows_of("SafeTracker", 2).part(0, 300), seed=0)
    state = online.state()
    assert resealed(state) == state
    with pytest.raises(InvalidStateError, match=message):
        OnlineClassifier.from_state(online.model, damage(state))


def test_a_state_that_is_cut_anywhere_is_refused() -> None:
    state = stream_of("BayesBank", 2).state()
    for cut in range(len(state)):
        with pytest.raises(InvalidStateError):
            OnlineClassifier.from_state(PAIR, state[:cut])


def test_the_models_that_a_state_does_not_belong_to_are_refused() -> None:
    state = OnlineClassifier(PAIR).state()
    others = [triangle_model(), pair_model(seed=1), pair_model(names=("fraud", "fine")), model_of(VIEWED, 2)]
    for model in others:
        with pytest.raises(InvalidStateError, match="belongs to another model"):
            OnlineClassifier.from_state(model, state)
    again = OnlineClassifier.from_state(pair_model(), state)  # of the same rows: the same model
    assert again.state() == state


def test_what_is_restored_often_is_made_once() -> None:
    """All streams of a model and settings are copies of one: no reference, hull or table is computed again."""
    state = OnlineClassifier(PAIR, tracker=BayesBank()).state()
    one, other = (OnlineClassifier.from_state(PAIR, state) for _ in range(2))
    assert isinstance(one.monitor, LabelShiftMonitor)
    assert isinstance(other.monitor, LabelShiftMonitor)
    assert one.monitor._hull is other.monitor._hull
    assert one._rule is other._rule


def test_rows_are_what_the_model_gives() -> None:
    rows: Rows = rows_of(VIEWED, 2)
    model = model_of(VIEWED, 2)
    assert rows.evidence.shape == (1_500, 1 + model.n_views + model.n_inputs, 2)
