"""What held-out rows say of a model and of its views: shapes, rounding, JSON, and the figures themselves."""

import itertools
import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.errors import InvalidInputError, InvalidStateError, NotStartedError
from obil.estimators.ratio_classifier import RatioClassifier
from obil.serving.ratio_model import RatioModel
from obil.serving.tracker_advice import TrackerAdvice
from obil.trackers import SafeTracker
from obil.trackers.calibration_spread import evidence_variance
from obil.trackers.view_reference import DIGITS, GRID, ViewReference
from tests.trackers.test_view_guard import arc, most_likely_arc

FIELDS = ("expected", "sensitivity", "noise", "least_information")


def three_classes() -> GaussianClasses:
    means = np.zeros((3, 4))
    means[1, :2] = 1.5
    means[2, 2:] = 1.5
    return GaussianClasses(means, np.eye(4))


@cache
def fitted(n_classes: int, separation: float = 2.5, seed: int = 1) -> RatioModel:
    """Return a logistic regression on 900 rows with its views."""
    classes = GaussianClasses.spread(separation, n_features=4) if n_classes == 2 else three_classes()
    prior = np.array([0.7, 0.3]) if n_classes == 2 else np.array([0.5, 0.3, 0.2])
    drawn = classes.draw(np.tile(prior, (900, 1)), random_state=seed)
    classifier = RatioClassifier(LogisticRegression(), views=True, random_state=0)
    return classifier.fit(drawn.features, drawn.labels).model_


@cache
def fitted_again(n_classes: int) -> RatioModel:
    """Return the same model fitted anew on the same rows."""
    return fitted.__wrapped__(n_classes)


@cache
def reference_of(n_classes: int) -> ViewReference:
    return ViewReference.of_model(fitted(n_classes))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_fitted_model_gives_tables_of_the_right_shapes(n_classes: int) -> None:
    model = fitted(n_classes)
    known = reference_of(n_classes)
    n_views, monitored = len(model.view_members), 1 if n_classes == 2 else n_classes
    assert known.n_views == n_views == 4
    assert known.expected.shape == (monitored, n_views, len(GRID))
    assert known.sensitivity.shape == (monitored, len(GRID))
    assert known.noise.shape == (n_views, monitored)
    assert known.least_information.shape == (n_views + 1, monitored)
    assert known.grid.tolist() == list(GRID)
    for field in FIELDS:
        assert np.isfinite(getattr(known, field)).all()
    assert (known.sensitivity > 0.0).all()
    assert (known.noise > 0.0).all()
    assert (known.least_information > 0.0).all()
    assert abs(known.expected).max() < 0.6
    # the model sees all features and a view half of them: it knows more of its own prior
    assert (known.least_information[0] > known.least_information[1:].mean(axis=0)).all()


def influence_of(log_ratios: FloatArray, x: float, weights: FloatArray) -> FloatArray:
    """Return how far each row moves the most likely x, (n,)."""
    ratios = np.exp(log_ratios)
    scores = np.sin(2 * x) * (ratios - 1) / (1 + np.sin(x) ** 2 * (ratios - 1))
    return np.asarray(scores / (weights @ scores**2))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_tables_are_what_a_search_over_the_held_out_rows_finds(n_classes: int) -> None:
    model = fitted(n_classes)
    known, rows = reference_of(n_classes), model.evidence_holdout
    all_ratios = [rows.log_ratios, *(view.holdout for view in model.view_members)]
    for c, k in enumerate([1] if n_classes == 2 else range(n_classes)):
        others = [j for j in range(n_classes) if j != k]
        weights_of_others = model.prior_[others] / model.prior_[others].sum()
        ratios = [o[:, k] - np.log(np.exp(o[:, others]) @ weights_of_others) for o in all_ratios]
        for g, level in ((0, 0.001), (4, 0.1), (7, 0.5), (11, 0.99)):
            prior = np.empty(n_classes)
            prior[k], prior[others] = level, (1.0 - level) * weights_of_others
            weights = (prior / np.bincount(rows.labels, weights=rows.weights))[rows.labels] * rows.weights
            np.testing.assert_allclose(weights.sum(), 1.0)
            # where the most likely prior is 0, x is the square root of the search's tolerance
            low, mid, high = (most_likely_arc(ratios[0] + drift, weights) for drift in (-0.1, 0.0, 0.1))
            own = evidence_variance(model, model.prior_)[k] * model.prior_[k] * (1.0 - model.prior_[k]) / 4.0
            expected = np.hypot(abs(high - low) / 2.0, np.sqrt(own))
            np.testing.assert_allclose(known.sensitivity[c, g], expected, rtol=0.02, atol=1e-4)
            for v, ratio in enumerate(ratios[1:]):
                x = most_likely_arc(ratio, weights)
                apart, table = x - mid, known.expected[c, v, g]
                assert abs(table) <= abs(apart) + 1e-4
                if 0.05 < level < 0.95:  # at the edges the influence of a row is not what it is inside
                    influence = influence_of(ratio, x, weights) - influence_of(ratios[0], mid, weights)
                    error = np.sqrt(((weights * influence) ** 2).sum())
                    beyond = np.sign(apart) * max(abs(apart) - 2.0 * error, 0.0)
                    np.testing.assert_allclose(table, beyond, atol=1e-4)
        weights = rows.weights_at(model.prior_)
        own = float(model.prior_[k])
        for w, ratio in enumerate(np.exp(ratios)):
            scores = np.sin(2 * arc(own)) * (ratio - 1) / (1 + own * (ratio - 1))
            np.testing.assert_allclose(known.least_information[w, c], 1_500 * (weights @ scores**2), rtol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_figure_is_rounded_to_six_digits(n_classes: int) -> None:
    known = reference_of(n_classes)
    for field in FIELDS:
        for value in getattr(known, field).ravel():
            assert value == float(f"{value:.{DIGITS - 1}e}")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_they_come_back_from_json_as_they_were(n_classes: int) -> None:
    for known in (reference_of(n_classes), ViewReference.empty(n_classes)):
        text = json.dumps(known.to_json(), allow_nan=False)
        back = ViewReference.from_json(json.loads(text), n_classes=n_classes)
        for field in FIELDS:
            np.testing.assert_array_equal(getattr(back, field), getattr(known, field))
            assert getattr(back, field).shape == getattr(known, field).shape
        assert json.dumps(back.to_json()) == text


def damaged(described: dict[str, Any]) -> list[Any]:
    cases: list[Any] = [None, [], 5, "text", {}]
    for field in FIELDS:
        cases.append({name: value for name, value in described.items() if name != field})
        good = np.array(described[field])
        values: list[Any] = [float("nan"), float("inf"), -float("inf"), 1e13, "x", None, {}, []]
        for value in values:
            spoilt = good.astype(object)
            spoilt.flat[0] = value
            cases.append({**described, field: spoilt.tolist()})
        for wrong in (None, "x", 3.0, [1.0], good.ravel()[:-1].tolist(), [*good.tolist(), good.tolist()[0]]):
            cases.append({**described, field: wrong})
        if field != "expected":
            cases.append({**described, field: (-good).tolist()})
    return cases


@pytest.mark.parametrize("n_classes", [2, 3])
def test_damaged_json_is_refused(n_classes: int) -> None:
    described = json.loads(json.dumps(reference_of(n_classes).to_json()))
    for case in damaged(described):
        with pytest.raises(InvalidStateError):
            ViewReference.from_json(case, n_classes=n_classes)
    for other in (2, 3, 4):
        if other != n_classes:
            with pytest.raises(InvalidStateError):
                ViewReference.from_json(described, n_classes=other)


def test_a_number_too_large_for_a_float_is_refused() -> None:
    described = reference_of(2).to_json()
    with pytest.raises(InvalidStateError):
        ViewReference.from_json({**described, "noise": [[10**400]] * 4}, n_classes=2)


def test_a_transposed_table_is_refused() -> None:
    described = reference_of(3).to_json()
    with pytest.raises(InvalidStateError):
        ViewReference.from_json({**described, "noise": np.array(described["noise"]).T.tolist()}, n_classes=3)


def test_tables_of_views_are_refused_where_there_are_none() -> None:
    described = ViewReference.empty(2).to_json()
    with pytest.raises(InvalidStateError):
        ViewReference.from_json({**described, "expected": [[[5.0]]], "noise": [[-1.0]]}, n_classes=2)


def test_what_views_differ_by_within_the_noise_of_the_held_out_rows_is_not_expected_of_them() -> None:
    # the four views and the model see the same 900 rows, whose ratios are nearly exact: most of it is noise
    known, model = reference_of(2), fitted(2)
    raw = []
    for level in (0.1, 0.2, 0.3, 0.5, 0.7):
        weights = model.holdout_.weights_at(np.array([1.0 - level, level]))
        own, *others = (
            most_likely_arc(o[:, 1], weights)
            for o in [model.evidence_holdout.log_ratios, *(view.holdout for view in model.view_members)]
        )
        raw.append(np.array(others) - own)
    tables = known.expected[0, :, 4:9].T
    assert (abs(tables) < abs(np.array(raw)) + 1e-4).all()
    assert (tables * np.array(raw) >= 0.0).all()  # towards where the view lies
    assert (tables == 0.0).mean() > 0.5


def test_the_better_a_model_separates_the_less_it_is_sensitive() -> None:
    models = fitted(2, 0.8), fitted(2, 1.6), fitted(2)  # the last: 2.5
    tables = [ViewReference.of_model(model).sensitivity[0] for model in models]
    for weaker, stronger in itertools.pairwise(tables):
        inner = slice(3, 9)  # priors of .03 to .7, where 900 rows tell
        assert (stronger[inner] < weaker[inner]).all()


def test_a_tracker_for_a_model_listens_to_its_views() -> None:
    model = fitted(2)
    tracker = SafeTracker.for_model(model, lead="training").start(model.prior_)
    assert tracker.n_views == 4
    X = np.zeros((3, 4))
    tracker.update_many(model.score(X).log_ratios, evidence=model.score(X).evidence_from(0))
    assert tracker.state()["memory"]["guard.seen"] == [3, 0]
    restored = SafeTracker.from_state(json.loads(json.dumps(tracker.state())))
    assert restored.state() == tracker.state()


def told(model: RatioModel, lead: str) -> SafeTracker:
    """Return a tracker whose views have disagreed, and that has late labels of 1,300 rows."""
    tracker = SafeTracker.for_model(model, lead=lead, start_weights=[0.1] * 10).start(model.prior_)
    rng = np.random.default_rng(2)
    rows = np.column_stack([np.zeros(1_300), rng.normal(1.5, 2.0, size=(1_300, model.n_classes - 1))])
    tracker.update_many(rows, evidence=np.stack([rows, rows, -rows, -rows, rows], axis=1))
    assert np.array(tracker.state()["memory"]["guard.bounds"]).any()
    for n in range(0, 1_300, 20):
        tracker.feedback(rows[n], n // 20 % model.n_classes, row=n, propensity=0.5)
    return tracker


@pytest.mark.parametrize("lead", ["auto", "fast", "training"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_with_another_model_what_is_known_of_the_prior_is_kept_and_what_was_said_of_its_scores_is_not(
    n_classes: int, lead: str
) -> None:
    tracker = told(fitted(n_classes), lead)
    before = tracker.state()
    model = fitted(n_classes, 1.6) if n_classes == 2 else fitted(3, seed=2)
    other = tracker.with_views_of(model)
    after = other.state()
    fresh = SafeTracker.for_model(model, lead=lead).start(before["settings"]["prior"]).state()
    assert after["settings"] == before["settings"] | {"view_reference": ViewReference.of_model(model).to_json()}
    kept = ("slow.", "fast.", "labels.counts", "labels.least_propensity", "labels.seen", "labels.arrivals")
    for field, values in after["memory"].items():
        if field.startswith(kept):
            assert values == before["memory"][field]
        elif field.startswith("guard.") or field in (
            "labels.maps", "labels.precisions", "labels.input_map", "labels.input_precision"
        ):  # fmt: skip
            assert values == fresh["memory"][field]  # they describe the scores of the old model
    unlabeled = np.zeros((1, n_classes))
    asked = other.priors_for(unlabeled)[0]
    np.testing.assert_array_equal(other.update(unlabeled[0]), asked)
    assert tracker.state() == before  # a copy: what the other one learns is its own
    other.feedback(unlabeled[0], 1)
    assert tracker.state() == before
    restored = SafeTracker.from_state(json.loads(json.dumps(after)))
    assert restored.state() == after


def test_the_prior_is_no_longer_held_back_by_what_the_views_of_the_old_model_said() -> None:
    # without labels, from another draw of the same rows
    model, new = fitted(2), fitted(2, seed=2)
    tracker = SafeTracker.for_model(model).start(model.prior_)
    rows = np.column_stack([np.zeros(4_000), np.random.default_rng(3).normal(3.0, 2.0, size=4_000)])
    tracker.update_many(rows, evidence=np.stack([rows, rows, -rows, -rows, rows], axis=1))
    other = tracker.with_views_of(new)
    assert other.prior[1] > tracker.prior[1] + 0.05
    unseen = SafeTracker.for_model(new).start(model.prior_)
    unseen.update_many(rows)  # rows without views do not reach the guard
    np.testing.assert_array_equal(other.prior, unseen.prior)


@pytest.mark.parametrize("lead", ["auto", "fast", "training"])
def test_the_same_model_once_more_changes_nothing(lead: str) -> None:
    # neither the model itself nor one fitted anew on the same rows says anything new
    model = fitted(2)
    tracker = told(model, lead)
    before = tracker.state()
    again = fitted_again(2)
    assert again is not model
    for same in (model, again):
        other = tracker.with_views_of(same)
        assert other.state() == before
        other.feedback([0.0, 1.0], 1)
        assert tracker.state() == before  # a copy: what the other one learns is its own


def test_views_are_only_replaced_by_those_of_as_many_classes_and_once_started() -> None:
    tracker = told(fitted(2), "auto")
    with pytest.raises(InvalidInputError):
        tracker.with_views_of(fitted(3))
    with pytest.raises(NotStartedError):
        SafeTracker.for_model(fitted(2)).with_views_of(fitted(2))


def test_a_model_without_views_gives_a_reference_of_its_ratio_alone() -> None:
    model = fitted(2)
    known = ViewReference.of_model(replace(model, view_members=()))
    assert known.n_views == 0
    np.testing.assert_array_equal(known.sensitivity, ViewReference.of_model(model).sensitivity)
    tracker = SafeTracker(0.3, view_reference=known)
    assert tracker.status == "the start prior, until labels come: the model has no views that could support a move"
    tracker.update_many(np.tile([0.0, 3.0], (2_000, 1)))
    np.testing.assert_allclose(tracker.prior, [0.7, 0.3], rtol=1e-12)
    vouched = SafeTracker(0.3, view_reference=known, lead="fast")
    vouched.update_many(np.tile([0.0, 3.0], (2_000, 1)))
    assert vouched.prior[1] > 0.9


def test_a_view_reference_of_another_number_of_classes_is_refused() -> None:
    known = reference_of(2)
    for view_reference in (known, known.to_json()):
        tracker = SafeTracker(0.3, view_reference=view_reference)
        before = tracker.state()
        with pytest.raises((InvalidInputError, InvalidStateError)):
            tracker.start([0.5, 0.3, 0.2])
        assert tracker.state() == before


def table_of(model: RatioModel) -> FloatArray:
    return ViewReference.of_model(model).expected


def test_the_same_model_gives_the_same_tables() -> None:
    np.testing.assert_array_equal(table_of(fitted(3)), table_of(fitted(3)))


def test_a_copy_with_advice_is_not_measured_again_also_where_the_model_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = replace(fitted(2), advice=None)
    known = ViewReference.of_model(model)
    monkeypatch.setattr("obil.trackers.view_reference.held_out_error", None)  # measuring would fail
    advised = model.with_advice(TrackerAdvice("fast"))
    del model
    assert ViewReference.of_model(advised) is known
