import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator

import obil
from obil import trackers
from obil.errors import InvalidInputError
from obil.flat_record import arrays_of
from obil.monitor import LabelShiftMonitor
from obil.monitor.reference import monitor_reference
from obil.serving.ratio_model import RatioModel, Scores
from obil.trackers.tracker import CompiledTracker
from tests.online.cases import pair_model, pair_scores

N_FEATURES = 4


def rows_of(n: int, prevalence: float, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < prevalence).astype(int)
    rows = rng.normal(size=(n, N_FEATURES)) + 1.2 * labels[:, None]
    rows[rng.random(rows.shape) < 0.05] = np.nan
    return rows, labels


@pytest.fixture(scope="module")
def model() -> RatioModel:
    rows, labels = rows_of(2_000, 0.3, seed=0)
    return obil.RatioClassifier(HistGradientBoostingClassifier(max_iter=30, random_state=0)).fit(rows, labels).model_


@pytest.fixture(scope="module")
def with_empty() -> tuple[np.ndarray, np.ndarray]:
    """Return rows of a stream of which a third have no feature, and which those are."""
    rows, _ = rows_of(1_500, 0.1, seed=1)
    rng = np.random.default_rng(2)
    empty = rng.random(len(rows)) < 0.3
    empty[[0, -1]] = True
    rows[np.isnan(rows).all(axis=1), 0] = 0.0
    rows[empty] = np.nan
    return rows, empty


TRACKERS: list[CompiledTracker] = [
    trackers.BayesBank(0.2),
    trackers.GridFilter(0.2),
    trackers.FixedPrior(0.2),
    trackers.OnlineEM(0.2),
    trackers.WindowEM(0.2, window=50),
    trackers.SafeTracker(0.2),
    trackers.Algorithm2(0.2),
    trackers.BBSE(0.2, confusion=[[0.9, 0.2], [0.1, 0.8]], window=50),
]


def marked_scores(n: int, *, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    scores = pair_model().score(pair_scores(n, 0.4, seed)[:, None])
    marked = np.random.default_rng(seed).random(n) < 0.3
    marked[[0, -1]] = True
    evidence = scores.evidence_from(0).copy()
    evidence[marked, 0, 1:] = np.nan
    return scores.log_ratios, evidence, marked


@pytest.mark.parametrize("tracker", [None, trackers.BayesBank(0.3)], ids=["default", "bank"])
def test_the_prior_is_that_of_the_rows_with_features(
    model: RatioModel, with_empty: tuple[np.ndarray, np.ndarray], tracker: CompiledTracker | None
) -> None:
    rows, empty = with_empty
    # one fold each, as the fold of a row follows from its number in the stream
    ratios, evidence = model.score(rows).log_ratios, model.score(rows).evidence[:, 0]
    assert (np.isnan(evidence[:, 0, 1]) == empty).all()

    all_rows, others = (obil.OnlineClassifier(model, tracker=tracker) for _ in range(2))
    decisions = all_rows.decide_log_ratios(ratios, evidence=evidence)
    expected = others.decide_log_ratios(ratios[~empty], evidence=evidence[~empty])

    assert all_rows.n_rows == len(rows)
    np.testing.assert_array_equal(all_rows.prior, others.prior)
    np.testing.assert_array_equal(all_rows.interval(), others.interval())
    learned, known = (arrays_of(one.tracker.memory) for one in (all_rows, others))
    for name in (one for one in known if not one.startswith("labels.")):  # which goes by the numbers of all rows
        np.testing.assert_array_equal(learned[name], known[name], err_msg=name)
    np.testing.assert_array_equal(decisions.effective_priors[~empty], expected.effective_priors)


def test_an_empty_row_is_decided_by_the_scores_at_the_current_prior(model: RatioModel) -> None:
    online = obil.OnlineClassifier(model)
    online.decide_many(rows_of(500, 0.1, seed=3)[0])
    nothing = np.full(N_FEATURES, np.nan)
    before, alarm = online.prior, online.monitor.log_evidence  # type: ignore[union-attr]
    decision = online.decide(nothing)
    assert np.isfinite(decision.log_ratios).all()
    np.testing.assert_array_equal(decision.log_ratios, model.log_ratios(nothing[None])[0])
    np.testing.assert_array_equal(online.prior, before)
    assert online.monitor.log_evidence == pytest.approx(alarm, abs=1e-12)  # type: ignore[union-attr]


@pytest.mark.parametrize("at_a_time", [1, 7, 64])
def test_batches_of_any_size_agree_bit_for_bit_where_rows_are_empty(
    model: RatioModel, with_empty: tuple[np.ndarray, np.ndarray], at_a_time: int
) -> None:
    rows, _ = with_empty
    whole, parts = obil.OnlineClassifier(model, horizon=2_000), obil.OnlineClassifier(model, horizon=2_000)
    scores = model.score(rows)
    for first in range(0, 900, at_a_time):
        parts.decide_scores(Scores(*(values[first : min(first + at_a_time, 900)] for values in scores)))
    whole.decide_scores(Scores(*(values[:900] for values in scores)))
    for row in range(0, 900, 3):
        assert whole.feedback(row, row % 2) == parts.feedback(row, row % 2)
    for first in range(900, len(rows), at_a_time):
        parts.decide_scores(Scores(*(values[first : first + at_a_time] for values in scores)))
    whole.decide_scores(Scores(*(values[900:] for values in scores)))
    assert whole.state() == parts.state()
    resumed = obil.OnlineClassifier.from_state(model, parts.state())
    assert resumed.state() == whole.state()


def test_a_replay_of_decisions_repeats_them(model: RatioModel, with_empty: tuple[np.ndarray, np.ndarray]) -> None:
    first, again = obil.OnlineClassifier(model), obil.OnlineClassifier(model)
    decisions = first.decide_many(with_empty[0])
    again.decide_log_ratios(decisions.log_ratios, evidence=decisions.evidence)
    assert first.state() == again.state()


def test_a_fleet_decides_them_as_streams_of_their_own(
    model: RatioModel, with_empty: tuple[np.ndarray, np.ndarray]
) -> None:
    rows, _ = with_empty
    keys = [f"k{row % 40}" for row in range(len(rows))]  # so many keys are decided in passes over their records
    fleet = obil.OnlineFleet(model, common_level=True)
    fleet.decide_many(rows, keys=keys)
    for key in ("k0", "k17"):
        alone = obil.OnlineClassifier(model)
        alone.decide_many(rows[[own == key for own in keys]])
        assert fleet[key].state() == alone.state()
    estimate = fleet.estimate_priors().common.prior
    assert np.isfinite(estimate).all()


def test_an_estimate_of_a_batch_does_not_see_empty_rows(
    model: RatioModel, with_empty: tuple[np.ndarray, np.ndarray]
) -> None:
    rows, empty = with_empty
    found, expected = obil.estimate_prior(model, rows), obil.estimate_prior(model, rows[~empty])
    np.testing.assert_allclose(found.prior, expected.prior, atol=1e-6)
    np.testing.assert_allclose(found.interval, expected.interval, atol=1e-6)


def test_a_table_with_strings_has_empty_rows_too() -> None:
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 2, 600)
    table = pd.DataFrame({"amount": rng.normal(size=600) + labels, "ward": rng.choice(["a", "b"], 600)})
    table = table.astype({"ward": "category"})
    fitted = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype").fit(
        table[:300], labels[:300]
    )
    model = obil.RatioClassifier(FrozenEstimator(fitted)).fit(table[300:], labels[300:]).model_
    stream = table[:3].copy()
    stream.loc[1, ["amount", "ward"]] = np.nan
    stream.loc[2, "amount"] = np.nan
    evidence = model.score(stream).evidence
    assert np.isnan(evidence[:, 0, 0, 1]).tolist() == [False, True, False]


@pytest.mark.parametrize("tracker", TRACKERS, ids=lambda one: type(one).__name__)
def test_every_tracker_leaves_the_prior_as_it_is(tracker: CompiledTracker) -> None:
    ratios, evidence, marked = marked_scores(400, seed=5)
    state = tracker.state()
    whole, single, others = (type(tracker).from_state(state) for _ in range(3))
    priors = whole.update_many(ratios, evidence=evidence)
    one_by_one = [single.update(row, evidence=own) for row, own in zip(ratios, evidence, strict=True)]
    np.testing.assert_array_equal(priors, one_by_one)
    assert whole.state() == single.state()
    expected = others.update_many(ratios[~marked], evidence=evidence[~marked])
    np.testing.assert_array_equal(priors[~marked], expected)
    np.testing.assert_array_equal(whole.prior, others.prior)


def test_a_monitor_bets_nothing_on_them() -> None:
    model = pair_model()
    _, evidence, _ = marked_scores(3_000, seed=6)
    evidence = evidence - [0.0, 1.5]  # no label shift
    for block in (1, 4):
        whole, single = (LabelShiftMonitor.for_model(model, block=block) for _ in range(2))
        whole.update_many_checked(evidence[:, 0])
        for row in evidence[:, 0]:
            single.update_checked(row)
        assert whole.state() == single.state()
        assert not whole.trusted
        again = LabelShiftMonitor.from_state(monitor_reference(model), whole.state())
        assert again.n_rows == len(evidence)
        quiet = LabelShiftMonitor.for_model(model, block=block)
        quiet.update_many_checked(np.full((5_000, 2), [0.0, np.nan]))
        assert quiet.log_evidence == pytest.approx(0.0, abs=1e-9)
        assert not quiet.memory.fresh.any()


def test_other_evidence_that_is_not_finite_is_refused() -> None:
    model = pair_model()
    online = obil.OnlineClassifier(model)
    for wrong in ([[np.nan, np.nan]], [[0.0, np.inf]], [[0.0, 1.0], [0.0, np.nan]]):
        with pytest.raises(InvalidInputError, match="finite"):
            online.decide_log_ratios([[0.0, 1.0]], evidence=[wrong])
    assert online.n_rows == 0
