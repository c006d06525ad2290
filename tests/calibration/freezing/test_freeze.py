"""A frozen model scores as its library does, missing and unseen values included, or it is not frozen."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from obil.calibration.cross_fit import score_method
from obil.calibration.freezing.freeze import freeze, learn_encoder
from obil.errors import InvalidInputError
from obil.estimators.ratio_classifier import RatioClassifier
from obil.serving.files import load, save
from obil.serving.folds import folds_of
from obil.serving.ratio_model import RatioModel
from obil.serving.scorers import EstimatorScorer, Scorer
from obil.serving.tree_kernels import CHUNK_ROWS
from obil.serving.trees import TreeScorer
from tests.calibration.freezing.rows import labelled, table, unseen
from tests.serving.ensembles import as_model

pytestmark = pytest.mark.filterwarnings("ignore")  # what libraries say of names, convergence and unknown categories
NUMBERS, CODES = [0, 1, 2, 3], [4, 5]


def encoded(last: Any, **one_hot: Any) -> Any:
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    codes = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(**{"handle_unknown": "ignore"} | one_hot)
    )
    return make_pipeline(ColumnTransformer([("numbers", numbers, NUMBERS), ("codes", codes, CODES)]), last)


def logistic() -> Any:
    return LogisticRegression(max_iter=500)


def ordinal(**settings: Any) -> OrdinalEncoder:
    return OrdinalEncoder(handle_unknown="use_encoded_value", **settings)


def perceptron(activation: str) -> Any:
    return make_pipeline(StandardScaler(), MLPClassifier((8, 5), activation=activation, max_iter=20, random_state=0))


WITH_MISSING: dict[str, Any] = {
    "histogram booster": HistGradientBoostingClassifier(max_iter=15),
    "booster of stumps": HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=2),
    "booster without a split": HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=10_000),
    "booster with categories": HistGradientBoostingClassifier(max_iter=15, categorical_features=CODES),
    "forest": RandomForestClassifier(12, random_state=0),
    "forest of weighted classes": RandomForestClassifier(5, class_weight="balanced", random_state=0),
    "extra trees": ExtraTreesClassifier(12, random_state=0),
    "tree": DecisionTreeClassifier(max_depth=5),
    "impute, scale, one-hot, logistic": encoded(logistic()),
    "dropped category": encoded(logistic(), drop="first"),
    "infrequent categories": encoded(logistic(), min_frequency=150),
    "booster behind an encoder": encoded(HistGradientBoostingClassifier(max_iter=10), sparse_output=False),
    "every scaler": make_pipeline(
        SimpleImputer(), MinMaxScaler(), SelectKBest(k=3), RobustScaler(), MaxAbsScaler(), logistic()
    ),
    "ordinal codes": make_pipeline(
        ColumnTransformer(
            [("codes", ordinal(unknown_value=-1, encoded_missing_value=-2), CODES)], remainder="passthrough"
        ),
        HistGradientBoostingClassifier(max_iter=10),
    ),
    "ordinal, then one-hot": make_pipeline(
        ColumnTransformer(
            [("codes", make_pipeline(ordinal(unknown_value=np.nan), OneHotEncoder(handle_unknown="ignore")), CODES)],
            remainder=SimpleImputer(),
        ),
        logistic(),
    ),
    "union": make_pipeline(SimpleImputer(), make_union(StandardScaler(), MinMaxScaler()), logistic()),
    "nested pipelines": make_pipeline(
        make_pipeline(SimpleImputer()), "passthrough", make_pipeline(StandardScaler(), logistic())
    ),
}
WITHOUT_MISSING: dict[str, Any] = {
    "gradient boosting": GradientBoostingClassifier(n_estimators=12),
    "logistic": make_pipeline(StandardScaler(), logistic()),
    "SGD, hinge": make_pipeline(StandardScaler(), SGDClassifier(random_state=0)),
    "SGD, log loss": make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss", random_state=0)),
    "linear SVC": make_pipeline(StandardScaler(), LinearSVC()),
    "ridge": RidgeClassifier(),
    "discriminant analysis": LinearDiscriminantAnalysis(),
    **{f"perceptron, {activation}": perceptron(activation) for activation in ("relu", "tanh", "logistic", "identity")},
}


def wrapped(fitted: Any, labels: Any, width: int) -> EstimatorScorer:
    prior = np.bincount(labels) / len(labels)
    return EstimatorScorer(fitted, score_method(fitted), prior, 1e-3, width)


def assert_equal(frozen: Scorer, library: EstimatorScorer, rows: Any, matrix: Any) -> None:
    """Log odds agree to 1e-6 (relative beyond 1), probabilities to 1e-6, and labels exactly."""
    assert not isinstance(frozen, EstimatorScorer), frozen.reason
    scores, expected = frozen.scores(matrix), library.scores(rows)
    single = np.asarray(getattr(library.estimator, library.method)(rows[:1])).dtype == np.float32
    if not single:  # one minus a probability in float32 is only known to 6e-8
        np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-6)
    logs = np.log(library.training_prior)
    np.testing.assert_allclose(softmax(scores + logs, axis=1), softmax(expected + logs, axis=1), rtol=0.0, atol=1e-6)
    assert np.array_equal((scores + logs).argmax(axis=1), (expected + logs).argmax(axis=1))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", [*WITH_MISSING, *WITHOUT_MISSING])
def test_a_frozen_score_equals_the_librarys_on_10000_rows(name: str, n_classes: int, tmp_path: Path) -> None:
    missing = name in WITH_MISSING
    X, y = labelled(800, n_classes, missing=missing)
    library = wrapped((WITH_MISSING | WITHOUT_MISSING)[name].fit(X, y), y, 6)
    frozen = freeze(library, X)
    rows = unseen(10_000, n_classes, missing=missing)
    assert_equal(frozen, library, rows, rows)
    save(as_model(frozen, n_classes), tmp_path / "model")
    again = load(tmp_path / "model").scorer
    assert again.scores(rows).tobytes() == frozen.scores(rows).tobytes()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_xgboost_is_frozen(n_classes: int) -> None:
    xgboost = pytest.importorskip("xgboost")
    X, y = labelled(800, n_classes, missing=True)
    rows = unseen(10_000, n_classes, missing=True)
    pruned = {"tree_method": "exact", "gamma": 1.0}  # its dump keeps the nodes that were pruned
    for settings in ({}, {"base_score": 0.2}, {"num_parallel_tree": 2, "subsample": 0.5}, pruned):
        fitted = xgboost.XGBClassifier(n_estimators=15, n_jobs=1, **settings).fit(X, y)
        library = wrapped(fitted, y, 6)
        frozen = freeze(library, X)
        assert_equal(frozen, library, rows, rows)
        margins = fitted.predict(rows, output_margin=True)
        relative = (margins if n_classes == 2 else (margins - margins[:, :1])[:, 1]) - np.log(
            library.training_prior[1] / library.training_prior[0]
        )
        inside = np.abs(margins).reshape(len(rows), -1).max(axis=1) < 2.0  # away from the floor
        np.testing.assert_allclose(frozen.scores(rows)[inside, 1], relative[inside], atol=1e-6)


def test_xgboost_stops_where_early_stopping_did() -> None:
    xgboost = pytest.importorskip("xgboost")
    X, y = labelled(800, 2, missing=True)
    fitted = xgboost.XGBClassifier(n_estimators=200, learning_rate=0.8, early_stopping_rounds=2, n_jobs=1)
    fitted.fit(X[:600], y[:600], eval_set=[(X[600:], y[600:])], verbose=False)
    assert fitted.best_iteration < 190
    library = wrapped(fitted, y, 6)
    assert_equal(freeze(library, X), library, X, X)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("missing", [False, True])
def test_lightgbm_is_frozen(n_classes: int, missing: bool) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    X, y = labelled(800, n_classes, missing=missing)
    rows = unseen(10_000, n_classes, missing=True)
    for settings in ({}, {"categorical_feature": CODES, "min_data_per_group": 5, "cat_smooth": 1.0}):
        fitted = lightgbm.LGBMClassifier(n_estimators=15, n_jobs=1, verbose=-1)
        fitted.fit(X, y, **{name: settings.pop(name) for name in ("categorical_feature",) if name in settings})
        library = wrapped(fitted, y, 6)
        assert_equal(freeze(library, X), library, rows, rows)


def by_name(*steps: Any) -> Any:
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    strings = make_pipeline(*steps)
    return ColumnTransformer(
        [("numbers", numbers, ["age", "visits"]), ("strings", strings, ["ward", "sex"])], remainder="passthrough"
    )


ONE_HOT = OneHotEncoder(handle_unknown="ignore")
TABLES: dict[str, tuple[bool, Any]] = {
    "one-hot strings": (False, make_pipeline(by_name(ONE_HOT), logistic())),
    "imputed by a constant": (
        False,
        make_pipeline(by_name(SimpleImputer(strategy="constant", fill_value="?"), ONE_HOT), logistic()),
    ),
    "imputed by the most frequent": (
        False,
        make_pipeline(
            by_name(
                SimpleImputer(strategy="most_frequent"),
                OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=180),
            ),
            logistic(),
        ),
    ),
    "ordinal strings": (False, make_pipeline(by_name(ordinal(unknown_value=-1)), RandomForestClassifier(10))),
    "columns chosen by dtype": (
        False,
        make_pipeline(
            make_column_transformer(
                (ONE_HOT, make_column_selector(dtype_include=object)),
                (SimpleImputer(), make_column_selector(dtype_exclude=object)),
            ),
            logistic(),
        ),
    ),
    "one-hot categorical dtype": (True, make_pipeline(by_name(ONE_HOT), logistic())),
    "categorical dtype in a booster": (True, HistGradientBoostingClassifier(max_iter=10)),
}


@pytest.mark.parametrize("name", TABLES)
def test_strings_of_a_table_are_frozen(name: str) -> None:
    categorical, estimator = TABLES[name]
    X, y = table(800, categorical=categorical)
    library = wrapped(estimator.fit(X, y), y, 5)
    encoder = learn_encoder(X)
    assert encoder is not None
    rows = table(10_000, seed=1, categorical=categorical, strange=True)[0]
    assert_equal(freeze(library, X, encoder), library, rows, encoder.encode(rows))


def test_lightgbm_with_categorical_dtype_is_frozen() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    X, y = table(800, categorical=True)
    fitted = lightgbm.LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1, min_data_per_group=5, cat_smooth=1.0)
    library = wrapped(fitted.fit(X, y), y, 5)
    encoder = learn_encoder(X)
    rows = table(2_000, seed=1, categorical=True, strange=True)[0]
    assert encoder is not None
    assert_equal(freeze(library, X, encoder), library, rows, encoder.encode(rows))


def test_a_category_that_the_encoder_refuses_is_refused() -> None:
    X, y = table(400)
    encoder = learn_encoder(X)
    library = wrapped(make_pipeline(by_name(OneHotEncoder()), logistic()).fit(X, y), y, 5)
    assert encoder is not None
    frozen = freeze(library, X, encoder)
    assert_equal(frozen, library, X, encoder.encode(X))
    with pytest.raises(InvalidInputError, match="feature 2 must be"):
        frozen.scores(encoder.encode(X.assign(ward="Z")))


def test_models_of_imbalanced_learn_are_frozen() -> None:
    pytest.importorskip("imblearn", reason="the extra 'experiments' is not installed")
    from imblearn.ensemble import BalancedRandomForestClassifier
    from imblearn.over_sampling import SMOTE
    from imblearn.pipeline import make_pipeline as make_resampling_pipeline

    X, y = labelled(400, 2, missing=True)
    for estimator in (
        make_resampling_pipeline(SimpleImputer(), SMOTE(random_state=0), StandardScaler(), logistic()),
        BalancedRandomForestClassifier(5, random_state=0),
    ):
        library = wrapped(estimator.fit(X, y), y, 6)
        assert_equal(freeze(library, X), library, X, X)


class OwnForest(RandomForestClassifier):
    def predict_proba(self, X: Any) -> Any:
        return super().predict_proba(X)[:, ::-1]


class OwnScaler(StandardScaler):
    def transform(self, X: Any, copy: Any = None) -> Any:
        return super().transform(X) ** 2


@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        (GaussianNB(), "GaussianNB has no frozen form"),
        (OwnForest(3), "OwnForest has no frozen form"),
        (CalibratedClassifierCV(logistic(), cv=2), "CalibratedClassifierCV has no frozen form"),
        (make_pipeline(QuantileTransformer(n_quantiles=50), logistic()), "QuantileTransformer has no frozen form"),
        (make_pipeline(FunctionTransformer(np.sin), logistic()), "FunctionTransformer has no frozen form"),
        (make_pipeline(MinMaxScaler(clip=True), logistic()), "clip"),
        (make_pipeline(SimpleImputer(missing_values=0.0), logistic()), "missing_values"),
        (make_pipeline(OwnScaler(), logistic()), "differs from it"),
        (GradientBoostingClassifier(n_estimators=2, init=logistic()), "starts from a model"),
    ],
)
def test_what_has_no_frozen_form_stays_wrapped_and_says_why(estimator: Any, reason: str) -> None:
    X, y = labelled(200, 2, missing=False)
    library = wrapped(estimator.fit(X, y), y, 6)
    kept = freeze(library, X)
    assert isinstance(kept, EstimatorScorer)
    assert reason in kept.reason
    assert kept.estimator is library.estimator


def test_a_model_of_other_classes_stays_wrapped() -> None:
    X, y = labelled(200, 3, missing=False)
    fitted = RandomForestClassifier(3).fit(X, y)
    kept = freeze(EstimatorScorer(fitted, "predict_proba", np.array([0.5, 0.5]), 1e-3, 6), X)
    assert isinstance(kept, EstimatorScorer)
    assert "classes" in kept.reason


@pytest.mark.parametrize("name", ["forest", "booster with categories", "impute, scale, one-hot, logistic"])
def test_a_row_scores_alike_to_the_bit_alone_and_across_chunks(name: str) -> None:
    X, y = labelled(CHUNK_ROWS + 1, 3, missing=True)
    frozen: Any = freeze(wrapped(WITH_MISSING[name].fit(X, y), y, 6), X)
    assert frozen.batch_invariant
    together = frozen.scores(X)
    for n in (CHUNK_ROWS - 1, CHUNK_ROWS, CHUNK_ROWS + 1):
        assert frozen.scores(X[:n]).tobytes() == together[:n].tobytes()
    places = [0, 1, CHUNK_ROWS - 1, CHUNK_ROWS]
    assert np.concatenate([frozen.scores(X[[i]]) for i in places]).tobytes() == together[places].tobytes()


def test_a_forest_sees_numbers_in_float32_as_scikit_learn_does() -> None:
    """Rows a hair apart in float64 are one row in float32, and fall on one side of a threshold."""
    X = np.array([[1.0], [1.0 + 1e-12], [2.0], [2.0 - 1e-12]] * 10)
    y = np.array([0, 1, 1, 0] * 10)
    library = wrapped(RandomForestClassifier(3, random_state=0).fit(X, y), y, 1)
    assert_equal(freeze(library, X), library, X, X)


@pytest.mark.parametrize("name", ["forest", "logistic", "gradient boosting", "impute, scale, one-hot, logistic"])
def test_rows_that_the_library_refuses_are_refused(name: str) -> None:
    missing = name in WITH_MISSING
    X, y = labelled(200, 2, missing=missing)
    frozen = freeze(wrapped((WITH_MISSING | WITHOUT_MISSING)[name].fit(X, y), y, 6), X)
    bad = X[:3].copy()
    bad[1, 1] = np.inf
    with pytest.raises(InvalidInputError):
        frozen.scores(bad)
    with pytest.raises(InvalidInputError, match="6 features"):
        frozen.scores(X[:, :5])
    if not missing:
        bad[1, 1] = np.nan
        with pytest.raises(InvalidInputError):
            frozen.scores(bad)


def all_folds(model: RatioModel) -> list[Any]:
    """Return what decides, what gives evidence and the views, fold by fold."""
    scorers = [model.scorer, *(view.scorer for view in model.view_members)]
    if model.evidence is not None and model.evidence.scorer is not None:
        scorers.append(model.evidence.scorer)
    return [fold for scorer in scorers for fold in folds_of(scorer)]


def test_views_of_a_table_are_frozen_with_the_model(tmp_path: Path) -> None:
    X, y = table(400, categorical=True)
    booster = HistGradientBoostingClassifier(max_iter=5)
    model = RatioClassifier(booster, views=True, random_state=0).fit(X, y).model_
    assert not any(isinstance(fold, EstimatorScorer) for fold in all_folds(model))
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    for ours, theirs in zip(model.score(X), again.score(X), strict=True):
        assert ours.tobytes() == theirs.tobytes()
    one = model.score({name: [X[name].iloc[0]] for name in X.columns})
    assert one.log_ratios.tobytes() == model.score(X).log_ratios[:1].tobytes()
    values = X.to_numpy(dtype=object)  # strings without their names, in the order of the columns
    assert model.log_ratios(values).tobytes() == model.log_ratios(X).tobytes()


@pytest.mark.parametrize("settings", [{}, {"cv": 2, "ensemble": False}])
def test_where_one_of_model_and_views_is_wrapped_strings_reach_all_of_them_as_they_are(
    settings: dict[str, Any],
) -> None:
    X, y = table(300, categorical=True)
    own = make_pipeline(by_name(ONE_HOT), GaussianNB())
    own.set_params(columntransformer__sparse_threshold=0.0)
    model = RatioClassifier(own, views=True, random_state=0, **settings).fit(X, y).model_
    assert model.encoder is None
    assert all(isinstance(fold, EstimatorScorer) for fold in all_folds(model))
    assert model.score(X).evidence.shape == (300, settings.get("cv", 5), 1 + 4 + model.n_inputs, 2)


def test_a_model_you_already_have_is_frozen() -> None:
    X, y = labelled(400, 2, missing=True)
    fitted = WITH_MISSING["histogram booster"].fit(X[:200], y[:200])
    model = RatioClassifier(FrozenEstimator(fitted)).fit(X[200:], y[200:])
    assert isinstance(model.model_.scorer, TreeScorer)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    named = RatioClassifier(HistGradientBoostingClassifier(max_iter=5)).fit(frame, y).model_
    assert [type(fold) for fold in folds_of(named.scorer)] == [TreeScorer] * 5
    row = dict(frame.iloc[0])
    assert named.log_ratios(frame[list("fedcba")][:1]).tobytes() == named.log_ratios([list(row.values())]).tobytes()
