"""A plan says what streams then show."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import beta
from sklearn.linear_model import LogisticRegression

import obil
from obil.datasets.gaussian_stream import GaussianClasses
from obil.errors import InvalidInputError
from obil.evaluation.monitor_delays import MOST_MONITORED, monitor_delays
from obil.evaluation.scored_rows import ScoredRows, first_rows
from obil.monitor import LabelShiftMonitor
from obil.serving.holdout import Holdout
from obil.trackers.evidence import BinaryEvidence

COSTS = obil.Costs(false_positive=1.0, false_negative=9.0)


def pair_rows(separation: float, prior: float, n_rows: int, *, seed: int) -> Any:
    return GaussianClasses.pair(separation).draw(np.full(n_rows, prior), random_state=seed)


@pytest.fixture(scope="module")
def model() -> obil.RatioModel:
    drawn = pair_rows(2.0, 0.2, 4_000, seed=0)
    return obil.RatioClassifier.from_scores(drawn.log_ratios[:, 1], drawn.labels).model_


@pytest.fixture(scope="module")
def found(model: obil.RatioModel) -> obil.Plan:
    return obil.plan(model, priors=[0.4, 0.02], costs=COSTS, n_labels=100)


def test_the_width_of_a_prior_is_that_of_fresh_streams(model: obil.RatioModel) -> None:
    held_out = ScoredRows.of(model.evidence_holdout, model.prior_, 1, soft=True)
    for prior, n_rows in ((0.02, 4_000), (0.3, 300)):
        drawn = [pair_rows(2.0, prior, n_rows, seed=seed).log_ratios for seed in range(60)]
        widths = [np.ptp(BinaryEvidence.of(rows).estimate(level=0.9).interval[1]) for rows in drawn]
        assert np.ptp(held_out.interval(prior, n_rows, 0.9)) == pytest.approx(np.mean(widths), rel=0.15)


def test_the_rows_that_are_named_give_an_interval_within_20_percent(model: obil.RatioModel, found: obil.Plan) -> None:
    held_out = ScoredRows.of(model.evidence_holdout, model.prior_, 1, soft=True)
    for one in found.priors:
        assert one.rows_to_know is not None
        assert np.ptp(held_out.interval(one.prior, one.rows_to_know, 0.9)) <= 0.4 * one.prior
        assert np.ptp(held_out.interval(one.prior, int(0.97 * one.rows_to_know), 0.9)) > 0.4 * one.prior


def test_the_saving_is_that_of_fresh_streams_at_the_threshold_of_their_prior(found: obil.Plan) -> None:
    for one in found.priors:
        drawn = pair_rows(2.0, one.prior, 400_000, seed=1)
        static, best = (
            (drawn.log_ratios[:, 1] > np.log((1.0 - prior) / prior / 9.0)).astype(int) for prior in (0.2, one.prior)
        )
        costs = (COSTS.matrix[static, drawn.labels] - COSTS.matrix[best, drawn.labels]).mean()
        assert one.saving == pytest.approx(1_000.0 * costs, rel=0.25)
        alerts, positive = best == 1, drawn.labels == 1
        assert one.recall == pytest.approx((alerts & positive).sum() / positive.sum(), abs=0.04)
        assert one.precision == pytest.approx((alerts & positive).sum() / alerts.sum(), abs=0.06)
        assert one.alert_rate == pytest.approx(alerts.mean(), rel=0.15)


def test_an_estimate_from_the_rows_that_are_named_saves_most(model: obil.RatioModel, found: obil.Plan) -> None:
    rare = found.priors[0]
    assert rare.rows_to_save is not None
    cost = ScoredRows.of(model.holdout_, model.prior_, 1, soft=True).cost_at(rare.prior, COSTS)

    def fraction(n_rows: int) -> float:
        saved = []
        for seed in range(200):
            estimate = BinaryEvidence.of(pair_rows(2.0, rare.prior, n_rows, seed=seed).log_ratios).estimate().prior[1]
            used = np.array([0.2, rare.prior, max(estimate, 1e-6)])
            static, best, own = cost(np.log((1.0 - used) / used / 9.0))
            saved.append((static - own) / (static - best))
        return float(np.mean(saved))

    assert fraction(rare.rows_to_save) == pytest.approx(0.8, abs=0.12)
    assert fraction(max(rare.rows_to_save // 10, 1)) < 0.7


def test_widths_of_labels_are_those_of_jeffreys_intervals(found: obil.Plan) -> None:
    one, rng = found.priors[1], np.random.default_rng(5)
    assert one.precision is not None
    widths = []
    for _ in range(4_000):
        n = rng.binomial(100, one.alert_rate)
        hits = rng.binomial(n, one.precision)
        widths.append(np.ptp(beta.ppf([0.05, 0.95], hits + 0.5, n - hits + 0.5)))
    assert one.precision_width == pytest.approx(np.mean(widths), rel=0.03)
    assert one.precision_width_of_alerts is not None
    assert one.precision_width_of_alerts < np.mean(widths)


def test_nothing_is_saved_at_the_training_prior_nor_by_a_model_that_tells_nothing() -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random(3_000) < 0.2).astype(int)
    blind = obil.RatioClassifier.from_scores(rng.normal(size=3_000), labels).model_
    own = float(blind.prior_[1])
    at_training, elsewhere = obil.plan(blind, priors=[own, 0.5], n_labels=10).priors
    assert (at_training.saving, at_training.rows_to_save) == (0.0, None)
    assert elsewhere.rows_to_know is None or elsewhere.rows_to_know > 10_000


def test_the_monitor_needs_longer_for_less_and_says_never(model: obil.RatioModel) -> None:
    delays = monitor_delays(model, n_streams=5)
    strong, weak = (delays[f"noise of {much} standard deviation is added"] for much in ("one", "half a"))
    assert strong is not None
    assert weak is None or strong < weak < MOST_MONITORED
    same = obil.RatioClassifier.from_scores([-1.0, 1.0] * 50, [0, 1, 1, 0] * 25).model_  # one score for either class
    assert set(monitor_delays(same, n_streams=1)) == set(delays)


def test_fresh_rows_may_be_given_to_the_monitor(model: obil.RatioModel) -> None:
    drawn = pair_rows(2.0, 0.3, 20_000, seed=3)
    delays = monitor_delays(model, rows=Holdout.of(drawn.log_ratios, drawn.labels), n_streams=5)
    assert delays["noise of one standard deviation is added"] is not None


def test_one_of_three_classes_is_planned_for_against_the_rest() -> None:
    rng = np.random.default_rng(0)
    labels = rng.choice(3, size=3_000, p=[0.7, 0.2, 0.1])
    rows = rng.normal(size=(3_000, 2)) + np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])[labels]
    model = obil.RatioClassifier(LogisticRegression(), random_state=0).fit(rows, np.array(["a", "b", "c"])[labels])
    found = obil.plan(model, priors=[0.3], positive="c")
    assert found.positive == "c"
    assert found.priors[0].saving > 0.0
    with pytest.raises(InvalidInputError, match="positive"):
        obil.plan(model)


def test_rules_are_those_of_a_stream(model: obil.RatioModel) -> None:
    named = obil.Costs.from_matrix(COSTS.matrix[::-1, ::-1], classes=[1, 0])  # the same costs
    assert obil.plan(model, priors=[0.1], costs=named) == obil.plan(model, priors=[0.1], costs=COSTS)
    by_name = obil.plan(model, priors=[0.1], policy="f1")
    assert by_name == obil.plan(model, priors=[0.1], policy=obil.policies.FBetaPolicy())


def test_the_least_auc_is_that_of_a_pair_which_needs_the_rows_of_the_plan(
    model: obil.RatioModel, found: obil.Plan
) -> None:
    """The scores of the model are those of a Gaussian pair: with as many rows as it needs, its own AUC is the least."""
    rare = found.priors[0]
    assert rare.rows_to_save is not None
    enough, more = (
        obil.plan(model, priors=[rare.prior], costs=COSTS, n_rows=factor * rare.rows_to_save).priors[0].least_auc
        for factor in (1, 3)
    )
    assert enough == pytest.approx(found.auc, abs=0.02)
    assert more is not None
    assert more < found.auc - 0.05


def test_raw_scores_change_by_their_standard_deviation_within_the_classes(model: obil.RatioModel) -> None:
    delays, rng = [], np.random.default_rng(0)
    for seed in range(15):
        raw = pair_rows(2.0, 0.2, 4_000, seed=seed).log_ratios[:, 1:]  # standard deviation 2
        monitor = LabelShiftMonitor.for_model(model)
        monitor.update_many(model.score(raw + rng.normal(0.0, 2.0, raw.shape)).evidence_from(0)[:, 0])
        delays.append(monitor.alarm_row or 4_000)
    planned = monitor_delays(model, n_streams=15)["noise of one standard deviation is added"]
    assert planned == pytest.approx(np.median(delays), rel=0.5)


def test_no_alerts_have_no_precision() -> None:
    blind = obil.RatioClassifier.from_scores([-1.0, 1.0] * 500, [0, 0, 1, 0] * 250).model_
    rare = obil.plan(blind, priors=[0.001]).priors[0]
    assert (rare.alert_rate, rare.precision, rare.precision_width, rare.precision_width_of_alerts) == (
        0.0,
        None,
        None,
        None,
    )
    assert "0 %" in str(obil.plan(blind, priors=[0.001]))


def test_rows_are_searched_for_by_halving() -> None:
    assert first_rows(lambda n: n >= 1) <= 3  # type: ignore[operator]
    assert first_rows(lambda n: n >= 12_345) == pytest.approx(12_345, rel=0.011)
    assert first_rows(lambda _n: False) is None


def test_a_gaussian_pair_has_its_auc() -> None:
    pair = ScoredRows.gaussian(1.5)
    assert pair.auc == pytest.approx(0.8556, abs=0.001)  # Phi(1.5 / sqrt(2))
    assert pair.rates_at(0.5, 0.0)[2] == pytest.approx(0.7734, abs=0.001)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"priors": [0.0]}, "prior must lie in"),
        ({"priors": []}, "priors must be a list of one prior or more"),
        ({"priors": 0.1}, "priors must be a list of one prior or more, got 0.1"),
        ({"priors": ["a"]}, "priors must be numbers"),
        ({"policy": "f2"}, "a policy must be one of"),
        ({"policy": 1}, "policy must be one of obil.policies or its name"),
        ({"random_state": -1}, "random_state must be an integer"),
        ({"n_labels": 0}, "n_labels must be an integer"),
        ({"n_rows": -1}, "n_rows must be an integer"),
        ({"level": 1.5}, "level must lie in"),
        ({"costs": COSTS, "policy": obil.policies.FBetaPolicy()}, "costs or a policy, not both"),
        ({"positive": "no such"}, "positive must be"),
    ],
)
def test_bad_input_is_named(model: obil.RatioModel, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        obil.plan(model, **wrong)


def test_a_plan_is_text_html_and_json(found: obil.Plan) -> None:
    assert "saves per 1,000 rows" in str(found)
    assert found._repr_html_().count("<table>") == 3
    record = found.to_json()
    assert [one["prior"] for one in record["priors"]] == [0.02, 0.4]
    assert record["costs"] == [1.0, 9.0]
