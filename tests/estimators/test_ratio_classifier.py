"""Whatever a model was trained at, the ratios agree with the exact ones; and no fold sees what it should not."""

from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from obil.datasets.gaussian_stream import GaussianClasses, Stream
from obil.errors import InvalidInputError
from obil.estimators.ratio_classifier import RatioClassifier

PAIR = GaussianClasses.spread(2.0, n_features=2)
TRIANGLE = GaussianClasses(np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5]]), np.eye(2))


def draw(n: int, prior: float = 0.1, seed: int = 0) -> Stream:
    return PAIR.draw(np.full(n, prior), random_state=seed)


def undersampled(rows: Any, labels: Any) -> tuple[Any, Any]:
    positives, negatives = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
    kept = np.concatenate([positives, negatives[: len(positives)]])
    return rows[kept], labels[kept]


class Undersampled(ClassifierMixin, BaseEstimator):
    """Trains on as many negatives as positives, as people do."""

    def fit(self, X: Any, y: Any) -> Any:
        self.inner_ = LogisticRegression().fit(*undersampled(np.asarray(X), np.asarray(y)))
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X: Any) -> Any:
        return self.inner_.predict_proba(X)


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        LogisticRegression(class_weight="balanced"),
        LogisticRegression(class_weight={0: 1.0, 1: 100.0}),
        Undersampled(),
        LinearDiscriminantAnalysis(),
        LinearDiscriminantAnalysis(priors=[0.5, 0.5]),
        GaussianNB(),
        make_pipeline(StandardScaler(), LinearSVC(random_state=0)),
        make_pipeline(StandardScaler(), LinearSVC(class_weight="balanced", random_state=0)),
    ],
    ids=lambda estimator: f"{estimator}"[:60].replace("\n", ""),
)
def test_at_whatever_prior_a_model_was_trained_the_ratios_are_the_exact_ones(estimator: Any) -> None:
    """4,000 rows at .1: the offset's standard error is about .12; .5 over the rows in between is 4 of them."""
    stream, fresh = draw(4_000), draw(2_000, 0.5, seed=1)
    model = RatioClassifier(estimator, random_state=0).fit(stream.features, stream.labels)
    between = np.abs(fresh.log_ratios[:, 1]) < 3.0
    error = (model.log_ratios(fresh.features) - fresh.log_ratios)[between, 1]
    assert np.abs(error).max() < 0.75
    assert abs(error.mean()) < 0.4


def test_resampling_pipelines_of_imbalanced_learn_are_divided_out() -> None:
    pytest.importorskip("imblearn", reason="the extra 'experiments' is not installed")
    from imblearn.over_sampling import SMOTE
    from imblearn.pipeline import make_pipeline as make_resampling_pipeline
    from imblearn.under_sampling import RandomUnderSampler

    stream, fresh = draw(4_000), draw(2_000, 0.5, seed=1)
    between = np.abs(fresh.log_ratios[:, 1]) < 3.0
    for sampler in (SMOTE(random_state=0), RandomUnderSampler(random_state=0)):
        pipeline = make_resampling_pipeline(sampler, LogisticRegression())
        model = RatioClassifier(pipeline, random_state=0).fit(stream.features, stream.labels)
        error = (model.log_ratios(fresh.features) - fresh.log_ratios)[between, 1]
        assert np.abs(error).max() < 0.75


def test_case_control_rows_give_the_same_ratios() -> None:
    fresh = draw(500, 0.5, seed=1)
    ratios = [
        RatioClassifier(LogisticRegression(), random_state=0)
        .fit(*draw(4_000, prior, seed=2)[:2])
        .log_ratios(fresh.features)[:, 1]
        for prior in (0.05, 0.5)
    ]
    assert np.abs(ratios[0] - ratios[1])[np.abs(fresh.log_ratios[:, 1]) < 3.0].max() < 0.75  # 4 standard errors


def test_three_classes_are_divided_out_too() -> None:
    stream = TRIANGLE.draw(np.tile([0.7, 0.2, 0.1], (6_000, 1)), random_state=0)
    fresh = TRIANGLE.draw(np.tile([1 / 3] * 3, (500, 1)), random_state=1)
    between = np.abs(fresh.log_ratios).max(axis=1) < 3.0
    for estimator in (LogisticRegression(class_weight="balanced"), LinearDiscriminantAnalysis()):
        for calibration in ("affine", "vector"):
            model = RatioClassifier(estimator, calibration=calibration, random_state=0)
            model.fit(stream.features, stream.labels)
            assert np.abs(model.log_ratios(fresh.features) - fresh.log_ratios)[between].max() < 0.75


def test_posteriors_move_with_the_prior_and_default_to_training() -> None:
    stream = draw(1_000)
    names = np.array(["ok", "fraud"])[stream.labels]
    model = RatioClassifier(LogisticRegression(), random_state=0).fit(stream.features, names)
    assert model.classes_.tolist() == ["fraud", "ok"]
    np.testing.assert_allclose(model.prior_, [stream.labels.mean(), 1.0 - stream.labels.mean()])
    by_name = model.predict_proba(stream.features, prior={"fraud": 0.3, "ok": 0.7})
    np.testing.assert_array_equal(by_name, model.predict_proba(stream.features, prior=[0.3, 0.7]))
    np.testing.assert_allclose(by_name, model.predict_proba(stream.features, prior=0.7), rtol=1e-12)
    np.testing.assert_array_equal(
        model.predict_proba(stream.features), model.predict_proba(stream.features, prior=model.prior_)
    )
    assert abs(model.predict_proba(stream.features)[:, 0].mean() - stream.labels.mean()) < 0.02


class RecordingClassifier(LogisticRegression):
    """Keeps a record of the rows each copy was fitted on and asked about."""

    records: list[tuple[set[float], set[float]]] = []

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        self.seen_ = {float(value) for value in np.asarray(X)[:, 0]}
        return super().fit(X, y, sample_weight)

    def predict_proba(self, X: Any) -> Any:
        self.records.append((self.seen_, {float(value) for value in np.asarray(X)[:, 0]}))
        return super().predict_proba(X)


@pytest.fixture
def records() -> list[tuple[set[float], set[float]]]:
    RecordingClassifier.records.clear()
    return RecordingClassifier.records


def test_a_group_is_never_on_both_sides(records: list[tuple[set[float], set[float]]]) -> None:
    stream = draw(300, 0.3)
    patients = np.random.default_rng(0).integers(0, 40, 300)
    patient_of = dict(zip(stream.features[:, 0].tolist(), patients.tolist(), strict=True))
    RatioClassifier(RecordingClassifier(), random_state=0).fit(stream.features, stream.labels, groups=patients)
    assert len(records) == 5
    for trained, asked in records:
        assert not {patient_of[value] for value in trained} & {patient_of[value] for value in asked}


def test_exact_duplicates_meet_each_other_as_they_will_in_new_rows(
    records: list[tuple[set[float], set[float]]],
) -> None:
    """Rows to come repeat training rows too: kept on one side, held-out scores would not be distributed like theirs."""
    stream = draw(100, 0.3)
    rows, labels = np.repeat(stream.features, 3, axis=0), np.repeat(stream.labels, 3)
    RatioClassifier(RecordingClassifier(), random_state=0).fit(rows, labels)
    assert len(records) == 5
    assert all(len(trained & asked) > 30 for trained, asked in records)


def test_time_makes_the_folds_blocks(records: list[tuple[set[float], set[float]]]) -> None:
    stream = draw(300, 0.3)
    time = np.random.default_rng(0).permutation(300)
    time_of = dict(zip(stream.features[:, 0].tolist(), time.tolist(), strict=True))
    RatioClassifier(RecordingClassifier(), cv=3, random_state=0).fit(stream.features, stream.labels, time=time)
    assert sorted(min(time_of[value] for value in asked) for _, asked in records) == [0, 100, 200]
    assert all(len(asked) == 100 for _, asked in records)


def test_time_blocks_without_a_class_say_so() -> None:
    stream = draw(100, 0.3)
    order = np.argsort(stream.labels, kind="stable")
    with pytest.raises(ValueError, match="class"):
        RatioClassifier(LogisticRegression(), cv=2).fit(
            stream.features[order], stream.labels[order], time=np.arange(100)
        )


@pytest.mark.parametrize("cv", [3, StratifiedKFold(3, shuffle=True, random_state=0), GroupKFold(3), "pairs"])
def test_folds_can_be_given_in_every_form(cv: Any) -> None:
    stream = draw(150, 0.3)
    if cv == "pairs":
        cv = [(np.arange(75), np.arange(75, 150)), (np.arange(75, 150), np.arange(75))]
    model = RatioClassifier(LogisticRegression(), cv=cv, random_state=0)
    model.fit(stream.features, stream.labels, groups=np.arange(150) // 2 if isinstance(cv, GroupKFold) else None)
    assert len(model.holdout_.labels) == 150
    assert model.holdout_.counts.tolist() == np.bincount(stream.labels).tolist()


@pytest.mark.parametrize("estimator", [LogisticRegression(), LinearSVC(random_state=0)])
def test_five_positives_are_enough_to_fit(estimator: Any) -> None:
    stream = draw(400, 0.3)
    kept = np.concatenate([np.flatnonzero(stream.labels == 0), np.flatnonzero(stream.labels == 1)[:5]])
    model = RatioClassifier(estimator, random_state=0).fit(stream.features[kept], stream.labels[kept])
    assert model.holdout_.counts[1] == 5
    assert np.isfinite(model.log_ratios(stream.features)).all()


def test_one_positive_is_refused() -> None:
    rows = np.random.default_rng(0).standard_normal((30, 2))
    with pytest.raises(InvalidInputError, match="at least 2"):
        RatioClassifier(LogisticRegression()).fit(rows, np.arange(30) == 0)


def test_sample_weights_define_the_population() -> None:
    stream = draw(3_000, 0.5)
    weights = np.where(stream.labels == 1, 0.1, 0.9)
    model = RatioClassifier(LogisticRegression(), random_state=0)
    model.fit(stream.features, stream.labels, sample_weight=weights)
    expected = weights[stream.labels == 1].sum() / weights.sum()
    assert abs(model.prior_[1] - expected) < 1e-12
    assert abs(model.holdout_.prior[1] - expected) < 1e-12
    between = np.abs(stream.log_ratios[:, 1]) < 3.0
    error = (model.log_ratios(stream.features) - stream.log_ratios)[between, 1]
    assert np.abs(error).max() < 0.75  # 4 standard errors


def test_a_class_without_weight_is_refused() -> None:
    stream = draw(60, 0.5)
    with pytest.raises(InvalidInputError, match="positive weight"):
        RatioClassifier(LogisticRegression()).fit(stream.features, stream.labels, sample_weight=1.0 - stream.labels)


def test_a_fitted_model_is_calibrated_and_not_fitted_again() -> None:
    trained, labelled, fresh = draw(2_000, 0.5, seed=1), draw(3_000, 0.05, seed=2), draw(500, 0.5, seed=3)
    inner = LogisticRegression(class_weight={0: 1, 1: 9}).fit(trained.features, trained.labels)
    before = inner.coef_.tobytes()
    model = RatioClassifier(FrozenEstimator(inner)).fit(labelled.features, labelled.labels)
    assert inner.coef_.tobytes() == before
    assert abs(model.prior_[1] - labelled.labels.mean()) < 1e-12
    between = np.abs(fresh.log_ratios[:, 1]) < 3.0
    assert np.abs(model.log_ratios(fresh.features) - fresh.log_ratios)[between].max() < 0.9  # 4 standard errors


def test_scores_alone_are_enough_and_their_kind_is_guessed() -> None:
    stream = GaussianClasses.pair(2.0).draw(np.full(4_000, 0.2), random_state=0)
    margin = 3.0 * stream.log_ratios[:, 1] - 2.0
    probability = 1.0 / (1.0 + np.exp(-stream.log_ratios[:, 1] - 0.7))
    between = np.abs(stream.log_ratios[:, 1]) < 3.0
    for scores, kind in ((margin, "margin"), (probability, "probability")):
        guessed, told = (RatioClassifier.from_scores(scores, stream.labels, kind=name) for name in ("auto", kind))
        assert guessed.log_ratios(scores).tobytes() == told.log_ratios(scores).tobytes()
        assert np.abs(guessed.log_ratios(scores) - stream.log_ratios)[between].max() < 0.5  # 4 standard errors
    pairs = np.stack([1.0 - probability, probability], axis=1)
    both = RatioClassifier.from_scores(pairs, stream.labels)
    single = RatioClassifier.from_scores(probability, stream.labels)
    np.testing.assert_allclose(both.log_ratios(pairs), single.log_ratios(probability), atol=1e-9)


def test_scores_of_three_classes_need_a_column_each() -> None:
    stream = TRIANGLE.draw(np.tile([0.5, 0.3, 0.2], (2_000, 1)), random_state=0)
    model = RatioClassifier.from_scores(stream.log_ratios, stream.labels)
    assert np.abs(model.log_ratios(stream.log_ratios) - stream.log_ratios)[:, 1:].mean() < 0.4
    with pytest.raises(InvalidInputError, match="columns"):
        RatioClassifier.from_scores(stream.log_ratios[:, :2], stream.labels)
    with pytest.raises(InvalidInputError, match=r"columns|single column"):
        RatioClassifier.from_scores(stream.log_ratios[:, 1], stream.labels)


@pytest.mark.parametrize(
    ("scores", "labels", "settings", "message"),
    [
        ([0.1, np.nan, 0.3, 0.4], [0, 1, 0, 1], {}, "finite"),
        (["a", "b"], [0, 1], {}, "numbers"),
        ([0.1, 0.2], [0, 1], {"kind": "rank"}, "kind must be"),
        ([0.1, 1.2, 0.3, 0.4], [0, 1, 0, 1], {"kind": "probability"}, r"\[0, 1\]"),
        ([0.1, 0.2, 0.3], [0, 1], {}, "inconsistent"),
        ([0.1, 0.2], [1, 1], {}, "two classes"),
        ([0.1, 0.2], [0, 1], {"calibration": "magic"}, "calibration must be"),
    ],
)
def test_scores_that_are_none_are_refused(scores: Any, labels: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RatioClassifier.from_scores(scores, labels, **settings)


def test_views_are_scores_of_feature_subsets() -> None:
    classes = GaussianClasses.spread(2.5, n_features=4)
    stream = classes.draw(np.full(800, 0.3), random_state=0)
    model = RatioClassifier(LogisticRegression(), cv=2, views=True, random_state=0).fit(stream.features, stream.labels)
    evidence = model.model_.score(stream.features[:50]).evidence
    assert evidence.shape == (50, 2, 1 + 4 + 12, 2)  # the inputs: four features and the season
    views = evidence[:, 0, 1:5]
    members = model.model_.view_members
    assert sorted(members[0].features + members[1].features) == [0, 1, 2, 3]
    for number, member in enumerate(members):
        assert member.holdout.shape == (800, 2)
        exact = classes.log_ratios(stream.features[:50], subset=member.features)[:, 1]
        assert np.corrcoef(views[:, number, 1], exact)[0, 1] > 0.7
    plain = RatioClassifier(LogisticRegression(), cv=2, views=False, random_state=0)
    plain.fit(stream.features, stream.labels)
    without = plain.model_.score(stream.features[:50])
    assert without.evidence.shape == (50, 2, 1, 2)  # nor inputs
    # views change neither the model's own evidence nor its log ratios
    np.testing.assert_array_equal(without.evidence[:, :, 0], evidence[:, :, 0])
    np.testing.assert_array_equal(without.log_ratios, model.model_.score(stream.features[:50]).log_ratios)


def test_a_fitted_model_has_views_of_the_rows_it_is_calibrated_on() -> None:
    stream = draw(400, 0.4)
    inner = FrozenEstimator(LogisticRegression().fit(stream.features, stream.labels))
    model = RatioClassifier(inner, random_state=0).fit(stream.features, stream.labels).model_
    scored = model.score(stream.features[:9])
    assert (model.n_views, model.n_folds, scored.evidence.shape) == (4, 5, (9, 5, 5 + model.n_inputs, 2))
    for fold in range(5):  # the fitted model is the only one of its kind
        np.testing.assert_array_equal(scored.evidence[:, fold, 0], scored.evidence[:, 0, 0])
    few = RatioClassifier(inner).fit(stream.features[:40], stream.labels[:40]).model_
    assert few.view_members == ()  # fewer than 20 rows of a class


def test_held_out_scores_of_views_belong_to_the_rows_of_a_fitted_model() -> None:
    stream = draw(600, 0.4)
    inner = FrozenEstimator(LogisticRegression().fit(stream.features, stream.labels))
    model = RatioClassifier(inner, random_state=0).fit(stream.features, stream.labels).model_
    for view in model.view_members:
        assert roc_auc_score(model.holdout_.labels, view.holdout[:, 1]) > 0.7  # .5 if rows were mixed up


def test_columns_that_only_the_estimator_can_read_leave_it_without_views() -> None:
    stream = draw(200, 0.4)
    mixed = [f"{value:.0f}" if place % 2 else value for place, value in enumerate(stream.features[:, 1])]
    frame = pd.DataFrame({"age": stream.features[:, 0], "odd": pd.Series(mixed, dtype=object)})
    pipeline = make_pipeline(ColumnTransformer([("age", "passthrough", ["age"])]), LogisticRegression())
    with pytest.warns(UserWarning, match="no views were fitted"):
        model = RatioClassifier(pipeline, cv=2, random_state=0).fit(frame, stream.labels).model_
    assert model.view_members == ()


@pytest.mark.parametrize("kind", ["sparse", "one feature"])
def test_rows_that_cannot_be_halved_have_no_views(kind: str) -> None:
    stream = draw(200, 0.4)
    rows = csr_matrix(stream.features) if kind == "sparse" else stream.features[:, :1]
    model = RatioClassifier(LogisticRegression(), cv=2).fit(rows, stream.labels).model_
    assert model.view_members == ()


def test_views_take_columns_of_strings_and_leave_out_those_without_values() -> None:
    stream = draw(400, 0.4)
    frame = pd.DataFrame(stream.features, columns=["age", "dose"])
    frame = frame.assign(ward=np.where(stream.labels == 1, "A", "B"), unknown=np.nan)
    encode = ColumnTransformer([("ward", OneHotEncoder(handle_unknown="ignore"), ["ward"])], remainder="passthrough")
    pipeline = make_pipeline(encode, SimpleImputer(keep_empty_features=True), LogisticRegression())
    model = RatioClassifier(pipeline, cv=2, random_state=0).fit(frame, stream.labels).model_
    assert sorted({feature for view in model.view_members for feature in view.features}) == [0, 1, 2]
    frame.loc[0, "ward"] = "never seen"
    assert np.isfinite(model.score(frame[:5]).evidence).all()


@pytest.mark.parametrize("calibration", ["affine", "temperature", "isotonic"])
def test_the_same_seed_gives_the_same_bytes(calibration: str) -> None:
    stream = draw(300, 0.3)
    first, second = (
        RatioClassifier(LogisticRegression(), calibration=calibration, random_state=4).fit(
            stream.features, stream.labels
        )
        for _ in range(2)
    )
    assert first.log_ratios(stream.features).tobytes() == second.log_ratios(stream.features).tobytes()
    assert first.holdout_.log_ratios.tobytes() == second.holdout_.log_ratios.tobytes()


def test_works_inside_scikit_learn_and_leaves_the_estimator_alone() -> None:
    stream = draw(300, 0.3)
    inner = LogisticRegression()
    model = RatioClassifier(inner, random_state=0)
    assert cross_val_score(clone(model), stream.features, stream.labels, cv=3).mean() > 0.75
    model.fit(stream.features, stream.labels)
    assert not hasattr(inner, "coef_")
    assert model.get_params()["estimator"] is inner


def test_data_frames_are_checked_by_name() -> None:
    stream = draw(200, 0.3)
    frame = pd.DataFrame(stream.features, columns=["age", "dose"])
    model = RatioClassifier(LogisticRegression(), cv=2, random_state=0).fit(frame, stream.labels)
    assert model.model_.feature_names == ("age", "dose")
    with pytest.raises(ValueError, match="feature names"):
        model.log_ratios(frame[["dose", "age"]])
    swapped = model.model_.log_ratios(frame[["dose", "age"]])  # the frozen model puts them right itself
    assert swapped.tobytes() == model.log_ratios(frame).tobytes()


def test_missing_values_reach_the_booster() -> None:
    stream = draw(300, 0.3)
    rows = stream.features.copy()
    rows[::7, 0] = np.nan
    model = RatioClassifier(cv=2, random_state=0).fit(rows, stream.labels)
    assert np.isfinite(model.log_ratios(rows)).all()
    with pytest.raises(ValueError, match="NaN"):
        RatioClassifier(LogisticRegression(), cv=2).fit(rows, stream.labels)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cv": 1}, "at least 2"),
        ({"cv": 2.5}, "cv must"),
        ({"calibration": "x"}, "calibration must"),
        ({"estimator": StandardScaler()}, "no scores"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    stream = draw(60, 0.5)
    with pytest.raises(InvalidInputError, match=message):
        RatioClassifier(**({"estimator": LogisticRegression()} | settings)).fit(stream.features, stream.labels)


def test_predict_takes_a_prior_as_predict_proba_does() -> None:
    stream = draw(300, 0.3)
    model = RatioClassifier(LogisticRegression(), cv=2, random_state=0).fit(stream.features, stream.labels)
    for prior in (0.01, [0.2, 0.8], {0: 0.5, 1: 0.5}):
        most_probable = model.predict_proba(stream.features, prior=prior).argmax(axis=1)
        assert np.array_equal(model.predict(stream.features, prior=prior), most_probable)
    assert model.predict(stream.features, prior=0.01).mean() < model.predict(stream.features, prior=0.9).mean()
    assert np.array_equal(model.predict(stream.features), model.predict(stream.features, prior=model.prior_))


@pytest.mark.parametrize("calibration", ["affine", "spline", "isotonic"])
def test_only_ratios_of_weights_count_for_calibration(calibration: str) -> None:
    """The booster's own fit hardly depends on the scale of its weights; the calibrator's must not at all."""
    stream = draw(400, 0.3)
    margins = stream.log_ratios[:, 1]
    whole, broken, equal = (
        RatioClassifier.from_scores(
            margins, stream.labels, kind="margin", calibration=calibration, sample_weight=weights, random_state=0
        ).model_.calibrator
        for weights in (2.0, 2.5, None)
    )
    for name in [field.name for field in fields(equal)]:
        np.testing.assert_allclose(getattr(whole, name), getattr(equal, name), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(getattr(broken, name), getattr(equal, name), rtol=1e-9, atol=1e-12)


def test_weights_of_2_and_of_2_and_a_half_give_nearly_the_same_fit() -> None:
    stream = draw(400, 0.3)
    first, second = (
        RatioClassifier(LogisticRegression(), cv=2, random_state=0)
        .fit(stream.features, stream.labels, sample_weight=np.full(400, weight))
        .log_ratios(stream.features)
        for weight in (2.0, 2.5)
    )
    np.testing.assert_allclose(first, second, atol=0.02)


@pytest.mark.parametrize(
    ("weights", "message"),
    [(-1.0, "negative"), ([1.0, 2.0], "shape"), (np.nan, "NaN"), (np.zeros(60), "zero for all rows")],
)
def test_weights_that_are_none_are_refused(weights: Any, message: str) -> None:
    stream = draw(60, 0.5)
    with pytest.raises(ValueError, match=message):
        RatioClassifier(LogisticRegression()).fit(stream.features, stream.labels, sample_weight=weights)


def test_a_model_says_what_serves_it() -> None:
    stream = draw(200, 0.3)
    frozen = RatioClassifier(LogisticRegression(), cv=2, views=True, random_state=0)
    frozen.fit(pd.DataFrame(stream.features, columns=["age", "dose"]), stream.labels)
    text = frozen.model_.describe()
    for part in (
        "a linear model, frozen",
        "age, dose",
        "affine, on 200 held-out rows",
        "4: the mean of 2 folds: 20 decision trees, frozen",
    ):
        assert part in text
    wrapped = RatioClassifier(GaussianNB(), cv=2).fit(stream.features, stream.labels).model_
    assert "GaussianNB, wrapped: its own library serves it, because GaussianNB has no frozen form" in wrapped.describe()


def test_held_out_rows_are_in_the_order_of_time_whatever_that_of_the_table() -> None:
    drawn = GaussianClasses.spread(2.0, n_features=4).draw(np.repeat([0.1, 0.5], 500), random_state=0)
    order = np.random.default_rng(0).permutation(1_000)
    sorted_rows, shuffled = (
        RatioClassifier(LogisticRegression(), random_state=0)
        .fit(drawn.features[rows], drawn.labels[rows], time=np.arange(1_000)[rows])
        .model_
        for rows in (np.arange(1_000), order)
    )
    np.testing.assert_array_equal(sorted_rows.holdout_.labels, shuffled.holdout_.labels)
    np.testing.assert_allclose(sorted_rows.holdout_.log_ratios, shuffled.holdout_.log_ratios, atol=1e-6)
    assert sorted_rows.holdout_.labels[:400].mean() < 0.2 < sorted_rows.holdout_.labels[-400:].mean()
