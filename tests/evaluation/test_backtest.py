"""The past is replayed as it would have been served, and the advice follows from what is beyond noise."""

import json
from dataclasses import FrozenInstanceError
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from obil.arrays import FloatArray, IntArray
from obil.bayes.costs import Costs
from obil.bayes.local_prior import local_priors
from obil.datasets import prior_paths
from obil.datasets.gaussian_stream import GaussianClasses
from obil.errors import InvalidInputError, ModelFileError
from obil.estimators.obil_classifier import OBILClassifier
from obil.estimators.ratio_classifier import RatioClassifier
from obil.evaluation.backtest import N_DRAWS, backtest
from obil.evaluation.backtest_advice import TITLES, choose_lead, difference, difference_of_draws, weights_from_replays
from obil.evaluation.backtest_result import LABEL_DRAWS, Backtest
from obil.evaluation.prior_plots import CURVES, draw_backtest
from obil.evaluation.table_backtest import backtest_table
from obil.online.online_classifier import OnlineClassifier
from obil.serving.files import load, save
from obil.serving.tracker_advice import TrackerAdvice
from obil.trackers import BayesBank, SafeTracker
from obil.trackers.label_experts import start_weights
from tests.serving.cases import MODELS

N = 5_000  # rows, half of them to fit on
GOLDEN = Path(__file__).parents[1] / "serving" / "golden" / "format_1"


def classifier(**settings: Any) -> RatioClassifier:
    return RatioClassifier(LogisticRegression(), cv=2, random_state=0, **settings)


def shifted(later: FloatArray, *, seed: int = 0) -> tuple[FloatArray, IntArray]:
    """Rows whose prior is .1 while the model is fitted, then another; p(x | class) never moves."""
    path = np.concatenate([prior_paths.constant(N - len(later), 0.1), later])
    stream = GaussianClasses.spread(2.0, n_features=4, correlation=0.2).draw(path, random_state=seed)
    return stream.features, stream.labels


def drifting(*, seed: int = 1) -> tuple[FloatArray, IntArray]:
    """Rows whose prior never moves, and whose negatives come to look like positives."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(N) < 0.2).astype(np.int64)
    drift = np.clip((np.arange(N) - N / 2) / (N / 8), 0.0, 1.0)[:, None]
    return rng.normal(size=(N, 4)) + 1.0 * labels[:, None] + 0.9 * drift * (1 - labels[:, None]), labels


@lru_cache
def found(case: str) -> Backtest:
    half = N // 2
    if case == "drift":
        X, y = drifting()
    elif case == "step":
        X, y = shifted(prior_paths.step(half, 0.1, 0.45, at=200))
    elif case == "square":
        X, y = shifted(prior_paths.square(half, 0.02, 0.5, half_period=250))
    else:
        X, y = shifted(prior_paths.constant(half, 0.1))
    return backtest(classifier(), X, y, time=np.arange(N))


def test_under_label_shift_adapting_beats_not_adapting_and_the_sentence_says_so() -> None:
    result = found("step")
    for method in ("bank", "safe", "safe_fast", "safe_labels"):
        assert result[method].log_loss_ratio < 0.95, method
        assert result[method].cost_ratio < 0.95, method
        assert result[method].excess.sign == -1, method
        assert result[method].prior_error < result["static"].prior_error
    assert result["oracle"].log_loss_ratio < result["bank"].log_loss_ratio + 0.01
    advised = result.recommendation
    assert advised.lead in ("auto", "fast")
    assert "% less than not adapting (log loss" in advised.sentence
    assert "lower, beyond noise)" in advised.sentence
    assert "With 5 % of the labels, 500 rows late, it would have cost" in advised.sentence


def test_where_the_classes_themselves_drift_the_advice_is_to_wait_for_labels() -> None:
    result = found("drift")
    assert result["bank"].log_loss_ratio > 1.3
    assert result["bank"].excess.sign == 1
    assert result.recommendation.lead == "training"
    assert "would have done harm" in result.recommendation.sentence
    assert "start from the training prior and wait for labels" in result.recommendation.sentence


def test_a_quiet_past_leaves_the_default() -> None:
    result = found("quiet")
    assert result.recommendation.lead == "auto"
    assert "no sure difference" in result.recommendation.sentence
    assert result["safe"].log_loss_ratio == pytest.approx(1.0, abs=0.005)


def test_a_prior_that_turns_fast_is_followed_fast() -> None:
    result = found("square")
    assert result.recommendation.lead == "fast"
    assert "fast memories should lead from the first row on" in result.recommendation.sentence


def test_start_weights_are_of_the_experts_and_leave_none_out() -> None:
    n_experts = len(SafeTracker(0.1, n_inputs=1).expert_weights)
    for case in ("step", "drift", "quiet"):
        weights = found(case).recommendation.start_weights
        assert len(weights) == n_experts
        assert sum(weights) == pytest.approx(1.0, abs=1e-12)
        assert (np.array(weights) >= start_weights(sees_inputs=True) / 2.0 - 1e-12).all()


def test_labels_move_the_start_weights_to_the_experts_that_did_well() -> None:
    """Against the default ones: half of a weight is the default's, so that an expert that lost all keeps half."""
    names, default = list(SafeTracker(0.1, n_inputs=1).expert_weights), start_weights(sees_inputs=True)
    weights = {case: np.array(found(case).recommendation.start_weights) for case in ("drift", "step")}
    drifted, stepped = (dict(zip(names, weights[case] / default, strict=True)) for case in ("drift", "step"))
    recalibrating = [name.startswith("recalibration") for name in names]
    assert drifted["fast bank"] < 0.6  # it follows what is no move of the prior
    # they have nearly all that is earned
    assert weights["drift"][recalibrating].sum() > 6.0 * default[recalibrating].sum()
    assert stepped["fast bank"] > 5.0  # and here the prior does move


def test_every_prior_is_the_one_that_deployment_estimates() -> None:
    X, y = shifted(prior_paths.step(N // 2, 0.1, 0.45, at=200))
    half = N // 2
    model = classifier(views=True).fit(X[:half], y[:half], time=np.arange(half)).model_
    result = found("step")
    for method, tracker in (
        ("bank", BayesBank()),
        ("safe", None),
        ("safe_fast", SafeTracker.for_model(model, lead="fast")),
    ):
        decided = OnlineClassifier(model, tracker=tracker, monitor=False).decide_many(X[half:])
        assert decided.effective_priors.tobytes() == result.priors[method].tobytes()
        assert (decided.labels != y[half:]).mean() == result[method].cost

    online, priors = OnlineClassifier(model, monitor=False), []
    asked = np.random.default_rng(0).random(half) < 0.05
    for row in range(half):
        priors.append(online.prior)
        online.decide(X[half + row])
        if row >= 500 and asked[row - 500]:
            online.feedback(row - 500, y[half + row - 500], propensity=0.05)
    off = np.abs(np.array(priors) - result.priors["safe_labels"])[:, 1]
    assert off[0] < 1e-6
    assert off.mean() < 0.005  # it is read every 20 rows
    assert off.max() < 0.03
    assert online.label_counts.labelled == result.n_labels


def test_the_order_that_rows_are_given_in_changes_nothing() -> None:
    X, y = drifting()
    order = np.random.default_rng(3).permutation(N)
    again = backtest(classifier(), X[order], y[order], time=np.arange(N)[order])
    assert again.to_json() == found("drift").to_json()


def test_equal_times_keep_their_order_and_stay_on_one_side_of_the_cut() -> None:
    X, y = drifting()
    days = np.arange(N) // 700  # the half lies within a day
    result = backtest(classifier(), X, y, time=days)
    assert result.n_earlier == 2_800
    assert result.n_earlier + result.n_later == N
    late = local_priors(y[2_800:], n_classes=2, window=result.window)
    np.testing.assert_array_equal(result.truth, late)


@pytest.mark.parametrize("kind", ["datetime64", "text", "time zone", "dd.mm.yyyy"])
def test_dates_are_times(kind: str) -> None:
    X, y = drifting()
    days = pd.Series(pd.date_range("2020-01-01", periods=N, freq="D"))
    time: Any = {
        "datetime64": days.to_numpy(),
        "text": days.dt.strftime("%Y-%m-%d").tolist(),
        "time zone": days.dt.tz_localize("Europe/Vienna").iloc[::-1],
        "dd.mm.yyyy": days.dt.strftime("%d.%m.%Y"),
    }[kind]
    if kind == "time zone":  # an index of its own does not matter
        X, y = X[::-1], y[::-1]
    assert backtest(classifier(views=False), X, y, time=time).to_json() == _without_views()


@lru_cache
def _without_views() -> dict[str, Any]:
    X, y = drifting()
    return backtest(classifier(views=False), X, y, time=np.arange(N)).to_json()


def test_the_seed_chooses_the_labels_that_come_and_nothing_else() -> None:
    X, y = drifting()
    first = backtest(classifier(views=False), X, y, time=np.arange(N), random_state=1)
    second = backtest(classifier(views=False), X, y, time=np.arange(N), random_state=1)
    assert first.to_json() == second.to_json()
    assert first["safe_labels"] != Backtest.__getitem__(found("drift"), "safe_labels")
    same = {one["method"]: one for one in _without_views()["methods"]}
    for one in first.to_json()["methods"]:
        assert (one == same[one["method"]]) == (one["method"] != "safe_labels")


def test_the_estimator_is_left_unfitted_and_the_result_is_frozen() -> None:
    estimator = classifier(views=False)
    X, y = drifting()
    result = backtest(estimator, X, y, time=np.arange(N))
    assert not hasattr(estimator, "model_")
    with pytest.raises(FrozenInstanceError):
        result.n_later = 3
    with pytest.raises(KeyError, match=r"method must be one of .*'safe_labels'.*, got 'luck'"):
        result["luck"]


def test_costs_change_costs_and_no_log_loss() -> None:
    X, y = drifting()
    costly = backtest(
        classifier(views=False), X, y, time=np.arange(N), costs=Costs(false_positive=1, false_negative=20)
    ).to_json()
    for dear, cheap in zip(costly["methods"], _without_views()["methods"], strict=True):
        assert dear["log_loss"] == cheap["log_loss"]
        assert dear["cost"] > cheap["cost"]
    named = Costs.from_matrix([[0, 1], [20, 0]], classes=[1, 0])
    again = backtest(classifier(views=False), X, y, time=np.arange(N), costs=named).to_json()
    assert again["methods"][0]["cost"] == costly["methods"][0]["cost"]


def test_a_model_that_never_errs_has_no_cost_to_compare_with() -> None:
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 250)
    result = backtest(classifier(), 50.0 * y[:, None] + rng.normal(size=(500, 2)), y, time=np.arange(500))
    assert result["static"].cost == 0.0
    assert result["safe"].cost_ratio is None
    assert "cost nothing, as not adapting" in result.recommendation.sentence
    assert result["safe"].log_loss_ratio > 0.0
    json.dumps(result.to_json(), allow_nan=False)


def test_three_classes_categories_and_tables_are_replayed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    priors = np.repeat([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]], 1_500, axis=0)
    numbers = (rng.random(3_000)[:, None] > np.cumsum(priors, axis=1)).sum(axis=1)
    table = pd.DataFrame({"x": rng.normal(2.0 * numbers), "z": rng.normal(size=3_000), "w": rng.normal(-numbers)})
    result = backtest(classifier(), table, np.array(["a$", "b", "c"])[numbers], time=np.arange(3_000))
    assert result.classes == ("a$", "b", "c")
    assert result.truth.shape == (1_500, 3)
    np.testing.assert_allclose(result.truth.sum(axis=1), 1.0)
    assert result["bank"].cost_ratio < 0.9
    for name in ("one", "two"):
        draw_backtest(result, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert (tmp_path / "one").read_bytes().startswith(b"\x89PNG")


def test_curves_that_overlap_can_be_told_apart() -> None:
    colours, styles, widths = zip(*CURVES.values(), strict=True)
    assert len(set(colours)) == len(CURVES)
    solid = [width for style, width in zip(styles, widths, strict=True) if style == "-"]
    assert solid == sorted(solid, reverse=True)  # the narrower one is drawn on the wider one
    dashed = [style for style in styles if style != "-"]
    assert len(set(dashed)) == len(dashed)
    assert styles[-len(dashed) :] == tuple(dashed)  # a line shows through the dashes above it


def test_sparse_rows_and_the_ensemble_are_replayed() -> None:
    X, y = drifting()
    sparse = backtest(classifier(), csr_matrix(X), y, time=np.arange(N))
    assert sparse["bank"].excess.sign == 1
    ensemble = OBILClassifier(member=LogisticRegression(), n_members=2, cv=0.3, random_state=0)
    result = backtest(ensemble, X, y, time=np.arange(N))
    assert result["bank"].excess.sign == 1
    assert result.recommendation.lead == "training"


def test_a_category_that_came_up_later_is_unknown_to_the_model() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(1_000) < 0.3).astype(int)
    shop = np.where(np.arange(1_000) < 600, "old", np.where(y, "new", "newer"))  # would tell the label
    table = pd.DataFrame({"x": rng.normal(1.0 * y), "shop": shop})
    result, notes = backtest_table(table, np.array(["no", "yes"])[y], time=np.arange(1_000.0), model="logistic")
    assert result.classes == ("no", "yes")
    assert notes == ()
    assert result["static"].cost > 0.15


def few(y: IntArray, number: int, where: slice) -> IntArray:
    changed = y.copy()
    changed[where] = 0
    changed[where][:number] = 1
    return changed


HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "no estimator of ours": ({"estimator": LogisticRegression()}, "got LogisticRegression"),
    "a class, not an instance": ({"estimator": RatioClassifier}, "estimator must be a RatioClassifier"),
    "a missing time": ({"time": np.where(np.arange(600) == 3, np.nan, np.arange(600))}, "every row must have a time"),
    "a missing date": ({"time": np.full(600, np.datetime64("NaT", "D"))}, "got none in 600 of 600"),
    "an endless time": ({"time": np.where(np.arange(600) == 3, np.inf, np.arange(600.0))}, "finite, got inf"),
    "times of text": ({"time": ["soon"] * 600}, "times must be numbers or dates"),
    "times too few": ({"time": np.arange(599)}, r"one value per row \(600\), got 599"),
    "times in a table": ({"time": np.zeros((600, 2))}, "one number or date per row"),
    "complex times": ({"time": np.arange(600) * 1j}, "time"),
    "one time": ({"time": np.zeros(600)}, "two different values, got only 0.0"),
    "two times, far apart": ({"time": np.arange(600) < 30}, "time"),
    "a cut too early": ({"time": (np.arange(600) >= 50).astype(int)}, "got 50 earlier ones of 600"),
    "labels too few": ({"y": np.zeros(10)}, "inconsistent numbers of samples"),
    "missing labels": ({"y": np.full(600, np.nan)}, "NaN"),
    "labels that are measures": ({"y": np.linspace(0.1, 0.9, 600)}, "continuous"),
    "no labels": ({"y": None}, "labels"),
    "one class": ({"y": np.zeros(600, dtype=int)}, "two classes"),
    "rows without features": ({"X": np.empty((600, 0))}, "0 feature"),
    "missing features": ({"X": np.full((600, 2), np.nan)}, "NaN"),
    "costs as numbers": ({"costs": 5.0}, "obil.Costs"),
    "costs of three": ({"costs": Costs.from_matrix(1.0 - np.eye(3))}, "3 classes"),
    "nothing to replay": ({"train_size": 1.0}, "train_size must lie in"),
    "a train size of nothing": ({"train_size": float("nan")}, "train_size must lie in"),
    "no label ever": ({"label_rate": 0.0}, "label_rate must lie in"),
    "labels before their rows": ({"label_delay": -1}, "label_delay must be an integer"),
    "half a row late": ({"label_delay": 0.5}, "label_delay must be an integer"),
    "a seed of text": ({"random_state": "luck"}, "random_state must be an integer"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_input_is_refused_with_its_reason(name: str) -> None:
    change, said = HOSTILE[name]
    rng = np.random.default_rng(0)
    y = (rng.random(600) < 0.4).astype(int)
    given: dict[str, Any] = {"estimator": classifier(), "X": rng.normal(size=(600, 2)), "y": y, "time": np.arange(600)}
    given |= change
    with pytest.raises(InvalidInputError, match=said):
        backtest(given.pop("estimator"), given.pop("X"), given.pop("y"), **given)


@pytest.mark.parametrize(
    ("rows", "number", "where", "said"),
    [
        (300, 100, slice(0, 300), "at least 400 labelled rows, got 300"),
        (600, 0, slice(0, 300), "earlier rows need at least 5 of every class, got 0 of 1"),
        (600, 4, slice(300, 600), "later rows need at least 5 of every class, got 4 of 1"),
    ],
)
def test_too_few_rows_of_a_class_in_a_part_are_refused(rows: int, number: int, where: slice, said: str) -> None:
    rng = np.random.default_rng(0)
    y = few((rng.random(rows) < 0.4).astype(np.int64), number, where)
    with pytest.raises(InvalidInputError, match=said):
        backtest(classifier(), rng.normal(size=(rows, 2)), y, time=np.arange(rows))


def test_labels_that_come_too_late_change_nothing() -> None:
    X, y = drifting()
    result = backtest(classifier(views=False), X, y, time=np.arange(N), label_delay=N)
    assert result.n_labels == 0
    assert result["safe_labels"].log_loss == pytest.approx(result["safe"].log_loss, rel=1e-12)
    assert "With 5 % of the labels" not in result.recommendation.sentence


def test_noise_that_lasts_is_not_taken_for_a_difference() -> None:
    """Differences that hold for 100 rows each: rows taken one by one would call half of them sure."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(200):
        apart = np.repeat(rng.normal(size=40), 100)
        wrong += difference(apart, np.zeros(4_000)).sign != 0
    assert wrong / 200 < 0.1  # two-sided at 2 standard errors of 10 or more blocks: .077; above .1 by chance: .09


def test_chance_in_which_labels_come_is_not_taken_for_a_difference() -> None:
    # every draw is better or worse by the same in all rows: between rows there is no noise at all
    rng = np.random.default_rng(0)
    wrong, by_rows_alone = 0, 0
    for _ in range(200):
        losses = np.repeat(rng.normal(size=(LABEL_DRAWS, 1)), 400, axis=1)
        wrong += difference_of_draws(losses, np.zeros(400)).sign != 0
        by_rows_alone += difference(losses[0], np.zeros(400)).sign != 0
    assert by_rows_alone == 200
    assert wrong == 0  # a mean of 8 draws beyond two of their standard deviations
    sure = difference_of_draws(np.array([np.full(400, 1.0), np.full(400, 1.1)]), np.zeros(400))
    assert sure.sign == 1


def test_where_nothing_changes_neither_the_oracle_nor_which_labels_came_makes_a_difference() -> None:
    # five pasts that stand still, each with labels drawn by its own seed
    oracles, errors = [], []
    for seed in range(5):
        X, y = shifted(prior_paths.constant(N // 2, 0.1), seed=seed)
        result = backtest(classifier(views=False), X, y, time=np.arange(N), random_state=seed)
        oracles.append(result["oracle"].log_loss_ratio)
        errors.append(result["static"].prior_error)
        assert result["safe_labels"].excess.sign == 0
    assert np.mean(oracles) < 1.005
    assert np.mean(errors) < 0.015  # from the class prior of 125 rows: .025


def test_few_labels_cost_next_to_nothing_where_nothing_changes() -> None:
    X, y = shifted(prior_paths.constant(N // 2, 0.1))
    result = backtest(classifier(views=False), X, y, time=np.arange(N), label_rate=0.02)
    assert result["safe_labels"].log_loss_ratio < 1.001  # 1.0002; with equal start weights 1.009


def test_the_lead_follows_from_what_is_beyond_noise() -> None:
    rng = np.random.default_rng(0)
    base = rng.random(2_000)
    noise = 0.5 * rng.normal(size=2_000)
    better, worse = base - 0.2, base + 0.2
    assert choose_lead(base, base, base) == "auto"
    assert choose_lead(base, better, better - 0.2) == "fast"
    assert choose_lead(base, better, better + 0.001 * noise) == "auto"  # fast is no better than slow
    assert choose_lead(base, worse, base - 0.2) == "fast"
    assert choose_lead(base, worse, base) == "training"
    assert choose_lead(base, worse, worse) == "training"
    assert choose_lead(base, base + noise - noise.mean(), base + noise - noise.mean()) == "auto"
    assert choose_lead(base, better, worse) == "auto"
    price = np.log(2_000) / 2_000  # of learning a prior that does not move, a row
    assert choose_lead(base, base + 0.9 * price, base) == "auto"
    assert choose_lead(base, base + 1.1 * price, base) == "training"


def test_start_weights_stay_within_log_2_of_the_replay_and_of_the_default() -> None:
    default = np.array(start_weights())
    earned = np.random.default_rng(0).dirichlet(np.full(default.size, 0.05), size=N_DRAWS)
    weights = np.array(weights_from_replays(earned, default))
    assert (weights >= earned.mean(axis=0) / 2.0 - 1e-12).all()
    assert (weights >= default / 2.0 - 1e-12).all()
    SafeTracker(0.1, start_weights=weights.tolist())


def test_advice_survives_saving_and_loading(tmp_path: Path) -> None:
    advice = found("drift").recommendation.advice
    assert advice == TrackerAdvice("training", found("drift").recommendation.start_weights)
    model = MODELS["logistic, affine"]()
    assert model.advice is None
    save(model.with_advice(advice), tmp_path / "model")
    assert load(tmp_path / "model").advice == advice
    save(load(tmp_path / "model").with_advice(TrackerAdvice("fast")), tmp_path / "model")
    assert load(tmp_path / "model").advice == TrackerAdvice("fast", None)
    tracker = SafeTracker.for_model(model.with_advice(advice)).start(0.1)
    assert tracker.status == "the start prior, until labels come"


def test_a_model_without_advice_is_saved_and_loaded_without(tmp_path: Path) -> None:
    assert load(GOLDEN).advice is None
    save(MODELS["logistic, affine"](), tmp_path / "model")
    assert load(tmp_path / "model").advice is None


@pytest.mark.parametrize(
    "advice",
    [7, "fast", [], {}, {"lead": "fast"}, {"lead": ["fast"], "start_weights": None},
     {"lead": "reckless", "start_weights": None}, {"lead": "auto", "start_weights": [0.5, 0.6]},
     {"lead": "auto", "start_weights": [1.5, -0.5]}, {"lead": "auto", "start_weights": [float("nan"), 1.0]},
     {"lead": "auto", "start_weights": ["a", "b"]}, {"lead": "auto", "start_weights": []}],
)  # fmt: skip
def test_damaged_advice_is_refused(advice: object, tmp_path: Path) -> None:
    save(MODELS["logistic, affine"](), tmp_path / "model")
    manifest = json.loads((tmp_path / "model/manifest.json").read_text())
    (tmp_path / "model/manifest.json").write_text(json.dumps(manifest | {"advice": advice}))
    with pytest.raises(ModelFileError, match="no complete model"):
        load(tmp_path / "model")


def test_the_record_is_plain_and_complete() -> None:
    record = json.loads(json.dumps(found("step").to_json(), allow_nan=False))
    assert record["rows"] == {"earlier": N // 2, "later": N // 2}
    assert [one["method"] for one in record["methods"]] == [
        "static",
        "bank",
        "safe",
        "safe_fast",
        "safe_labels",
        "oracle",
    ]
    assert record["labels"]["came"] == found("step").n_labels > 50
    assert record["recommendation"]["sentence"] == found("step").recommendation.sentence
    assert clone(classifier()).get_params()["cv"] == 2


def test_a_backtest_prints_as_a_table_of_methods_with_its_recommendation() -> None:
    lines = str(found("step")).splitlines()
    assert lines[0] == f"Backtest: fitted on {N // 2:,} rows, replayed {N // 2:,}"
    assert [line.split("  ")[0] for line in lines[2:8]] == list(TITLES.values())
    assert lines[-1] == found("step").recommendation.sentence
    assert found("step")._repr_html_().count("<tr>") == 7
