"""The ensemble: held-out rows stay unseen, training priors are divided out, a seed decides, a fit is whole or not."""

import pickle
import sys
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from obil import OBILClassifier, OnlineClassifier, load, save
from obil.bayes.posterior import posterior
from obil.datasets.gaussian_stream import GaussianClasses, Stream
from obil.errors import InvalidInputError
from obil.serving.networks.dense_network import DenseScorer
from obil.serving.trees import TreeScorer

PAIR = GaussianClasses.spread(2.0, n_features=2)
TRIANGLE = GaussianClasses(np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5]]), np.eye(2))


def draw(n: int, prior: float = 0.1, seed: int = 0) -> Stream:
    return PAIR.draw(np.full(n, prior), random_state=seed)


def error_between(model: Any, fresh: Stream) -> Any:
    """The error of the log ratio where both classes are likely."""
    between = np.abs(fresh.log_ratios[:, 1]) < 3.0
    return (model.log_ratios(fresh.features) - fresh.log_ratios)[between, 1]


class RecordingClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that remembers which rows it was shown."""

    shown: ClassVar[list[set[float]]] = []

    def __init__(self, interrupt: bool = False) -> None:
        self.interrupt = interrupt

    def fit(self, X: Any, y: Any) -> Any:
        if self.interrupt:
            raise KeyboardInterrupt
        RecordingClassifier.shown.append(set(X[:, 0].tolist()))
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> Any:
        p = 1.0 / (1.0 + np.exp(-X[:, 1]))
        return np.stack([1.0 - p, p], axis=1)


def numbered(n: int = 300, seed: int = 0) -> tuple[Any, Any]:
    """Rows whose first column is their number, so that they can be recognised."""
    rng = np.random.default_rng(seed)
    y = (np.arange(n) % 10 == 0).astype(int)
    return np.stack([np.arange(n, dtype=float), rng.normal(size=n) + 2.0 * y], axis=1), y


def test_rows_set_aside_for_calibration_are_seen_by_no_member() -> None:
    RecordingClassifier.shown.clear()
    X, y = numbered()
    model = OBILClassifier(member=RecordingClassifier(), cv=0.3, random_state=0).fit(X, y)
    n_held_out = len(model.holdout_.labels)
    assert n_held_out == pytest.approx(0.3 * len(y), abs=5)
    seen = set().union(*RecordingClassifier.shown)
    assert len(seen) <= len(y) - n_held_out  # whatever the members saw, it leaves room for all held-out rows
    assert len(RecordingClassifier.shown) == 5
    scores = model.model_.scorer.scores(np.array([row for row in X if row[0] not in seen]))
    held_out = np.sort(model.model_.calibrator.apply(scores)[:, 1])
    kept = np.sort(model.holdout_.log_ratios[:, 1])
    assert np.isin(kept.round(9), held_out.round(9)).all()  # the held-out rows are among those no member saw


def test_cross_fitted_members_have_not_seen_the_rows_they_score_and_the_last_have_seen_all() -> None:
    RecordingClassifier.shown.clear()
    X, y = numbered()
    model = OBILClassifier(member=RecordingClassifier(), ratios="original", n_members=1, cv=3, random_state=0).fit(X, y)
    *folds, whole = RecordingClassifier.shown
    assert len(folds) == 3
    assert whole == set(X[:, 0])
    assert set.intersection(*folds) == set()  # every row is unseen by exactly one of the folds
    assert len(model.holdout_.labels) == len(y)


@pytest.mark.parametrize("sampling", ["undersample", "oversample", "weight"])
@pytest.mark.parametrize("ratio", [1.0, 3.0, 30.0])
def test_whatever_prior_the_members_are_trained_at_it_is_divided_out(sampling: str, ratio: float) -> None:
    """8,000 rows at .1: the offset's standard error is about .09 before calibration moves it."""
    stream, fresh = draw(8_000), draw(4_000, 0.5, seed=1)
    model = OBILClassifier(member=LogisticRegression(), ratios=[ratio], sampling=sampling, cv=0.3, random_state=0).fit(
        stream.features, stream.labels
    )
    raw = model.members_[0].scorer.scores(fresh.features)[:, 1]  # before any calibration
    between = np.abs(fresh.log_ratios[:, 1]) < 3.0
    # a ratio of 30 thins 800 positives to 240
    assert abs((raw - fresh.log_ratios[:, 1])[between].mean()) < 0.35
    assert abs(error_between(model, fresh).mean()) < 0.35


def test_the_order_of_the_rows_changes_nothing() -> None:
    stream = draw(600)
    shuffled = np.random.default_rng(1).permutation(600)
    model = OBILClassifier(member=RandomForestClassifier(10), cv=2, random_state=0)
    one = clone(model).fit(stream.features, stream.labels)
    other = clone(model).fit(stream.features[shuffled], stream.labels[shuffled])
    assert np.array_equal(one.log_ratios(stream.features), other.log_ratios(stream.features))


def test_an_interrupted_fit_leaves_the_classifier_as_it_was() -> None:
    stream = draw(400)
    model = OBILClassifier(member=LogisticRegression(), random_state=0).fit(stream.features, stream.labels)
    before, ratios = dict(vars(model)), model.log_ratios(stream.features)
    model.set_params(member=RecordingClassifier(interrupt=True))
    with pytest.raises(KeyboardInterrupt):
        model.fit(stream.features[:, :1], stream.labels)
    assert {name: value for name, value in vars(model).items() if name != "member"} == {
        name: value for name, value in before.items() if name != "member"
    }
    assert np.array_equal(model.log_ratios(stream.features), ratios)
    fresh = OBILClassifier(member=RecordingClassifier(interrupt=True))
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(stream.features, stream.labels)
    assert not hasattr(fresh, "model_")
    assert not hasattr(fresh, "n_features_in_")


def test_refresh_drops_members_that_have_gone_stale_and_the_prior_lives_on() -> None:
    """A feature turns round, which no offset can mend: the refreshed model has to follow, the prior to survive."""
    old, new, turned = draw(3_000, seed=1), draw(3_000, seed=2), np.array([1.0, -1.0])
    moved = new.features * turned
    model = OBILClassifier(member=LogisticRegression(), random_state=0).fit(old.features, old.labels)
    stale = list(model.members_)
    online = OnlineClassifier(model)
    online.decide_many(draw(2_000, 0.3, seed=3).features)
    prior = online.prior.copy()
    test = draw(2_000, seed=4)
    before = log_loss(test.labels, model.predict_proba(test.features * turned))
    model.refresh(moved, new.labels)
    after = log_loss(test.labels, model.predict_proba(test.features * turned))
    exact = log_loss(test.labels, posterior(test.log_ratios, model.prior_))
    assert 5 * len(model.members_) == len(stale)  # one fold's
    assert not any(member is other for member in model.members_ for other in stale)
    assert after < exact + 0.01 < before
    online.model = model
    # what the bank learned is kept; how far it is trusted depends on the new model's sensitivity
    np.testing.assert_allclose(online.prior[1], prior[1], rtol=0.25)
    assert online.prior[1] > 1.3 * model.prior_[1]
    with pytest.raises(InvalidInputError, match="must be those of the stream"):
        online.model = OBILClassifier(member=LogisticRegression()).fit(old.features, np.where(old.labels, "b", "a"))


def test_refresh_keeps_members_that_are_still_right() -> None:
    """Of rows from the same classes, few in number, the old members know more than new ones can learn."""
    old, few = draw(6_000, seed=1), draw(400, seed=2)
    model = OBILClassifier(member=LogisticRegression(), random_state=0).fit(old.features, old.labels)
    before = list(model.members_)
    model.refresh(few.features, few.labels)
    assert any(member is other for member in model.members_ for other in before)


def test_refresh_keeps_what_the_monitor_allows_for() -> None:
    stream, new = draw(1_500), draw(1_500, seed=5)
    model = OBILClassifier(member=LogisticRegression(), n_members=2, random_state=0)
    model.fit(stream.features, stream.labels, time=np.arange(1_500))
    before = model.model_.evidence
    assert before is not None
    assert before.tolerance > 0.0
    model.refresh(new.features, new.labels)
    assert model.model_.evidence is not None
    assert (model.model_.evidence.tolerance, model.model_.evidence.block) == (before.tolerance, before.block)


def test_refresh_keeps_as_many_members_of_each_kind() -> None:
    stream, new = draw(1_500, seed=1), draw(1_500, seed=2)
    kinds = [LogisticRegression(), RandomForestClassifier(20), DummyClassifier(strategy="prior")]
    model = OBILClassifier(member=kinds, n_members=2, random_state=0).fit(stream.features, stream.labels)
    assert sorted(member.plan.group for member in model.members_) == [0] * 10 + [1] * 10 + [2] * 10  # five folds
    model.refresh(new.features, new.labels).refresh(stream.features + 0.01, stream.labels)
    assert sorted(member.plan.group for member in model.members_) == [0, 0, 1, 1, 2, 2]


def test_members_that_give_margins_are_calibrated_on_their_own_scale() -> None:
    """With C = .001 the margins are 40 times too small: a slope near 1, as for probabilities, would keep them so."""
    stream, fresh = draw(2_000), draw(4_000, 0.5, seed=1)
    model = OBILClassifier(member=LinearSVC(C=0.001), n_members=3, random_state=0).fit(stream.features, stream.labels)
    assert abs(error_between(model, fresh).mean()) < 0.5
    ratios = model.log_ratios(fresh.features)[:, 1]
    assert np.polyfit(fresh.log_ratios[:, 1], ratios, 1)[0] == pytest.approx(1.0, abs=0.3)
    mixed = OBILClassifier(member=[LinearSVC(), LogisticRegression()])
    with pytest.raises(InvalidInputError, match="CalibratedClassifierCV"):
        mixed.fit(stream.features, stream.labels)


def test_only_ratios_of_weights_count() -> None:
    stream = draw(300)
    rng = np.random.default_rng(0)
    for weights in (np.ones(300), rng.integers(1, 4, 300).astype(float), rng.uniform(0.5, 2.0, 300)):
        fits = [
            OBILClassifier(member=LogisticRegression(), n_members=2, random_state=0)
            .fit(stream.features, stream.labels, sample_weight=scale * weights)
            .log_ratios(stream.features)
            for scale in (1.0, 2.0, 2.5)
        ]
        np.testing.assert_allclose(fits[1:], [fits[0]] * 2, rtol=1e-6, atol=1e-6)


def test_copies_of_a_weighted_row_stay_on_one_side() -> None:
    X, y = numbered()
    weights = np.full(len(y), 3.0)
    weights[7] = 900.0  # heavy enough to be split, were it 300 rows of their own
    copies = weights / 3.0  # only ratios of weights count
    for cv in (0.3, 3):
        RecordingClassifier.shown.clear()
        model = OBILClassifier(member=RecordingClassifier(), n_members=1, ratios="original", cv=cv, random_state=0)
        model.fit(X, y, sample_weight=weights)
        rows_held_out = len(model.holdout_.labels)
        seen = RecordingClassifier.shown[0]
        total = copies[[int(number) for number in seen]].sum()
        if cv == 0.3:
            assert total + rows_held_out == copies.sum()  # no row is on both sides
        else:
            assert set.intersection(*RecordingClassifier.shown[:3]) == set()


def test_at_the_original_prior_a_member_sees_every_row_of_its_side() -> None:
    """23 positives in 1,000 leave each fold with another ratio: none of them may be thinned to the overall one."""
    rng = np.random.default_rng(0)
    X = np.stack([np.arange(1_000.0), rng.normal(size=1_000)], axis=1)
    y = (np.arange(1_000) % 43 == 0).astype(int)
    RecordingClassifier.shown.clear()
    OBILClassifier(member=RecordingClassifier(), ratios="original", n_members=1, cv=5, random_state=0).fit(X, y)
    # each row is left out by one fold, and a tenth of each class by another: 2 of 24, 97 of 976
    assert sum(len(shown) for shown in RecordingClassifier.shown) == 5 * 1_000 - 1_000 - 99


def test_a_column_of_missing_values_and_one_with_a_single_value_are_no_obstacle() -> None:
    stream = draw(300)
    single = np.full(300, np.nan)
    single[5] = 1.0
    X = np.column_stack([stream.features, np.full(300, np.nan), single])
    model = OBILClassifier(member="trees", cv=2, random_state=0).fit(X, stream.labels)
    assert np.isfinite(model.log_ratios(X)).all()


def test_a_fit_on_another_kind_of_rows_forgets_the_columns_of_the_last(tmp_path: Any) -> None:
    stream = draw(300)
    table = pd.DataFrame({"a": stream.features[:, 0], "b": stream.features[:, 1], "c": 1.0})
    model = OBILClassifier(member=LogisticRegression(), random_state=0).fit(table, stream.labels)
    model.fit(stream.features, stream.labels)
    assert model.model_.encoder is None
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").scorer.n_features == 2
    with pytest.raises(InvalidInputError, match="fitted on an array"):
        model.refresh(table[["a", "b"]], stream.labels)


def test_the_seed_reaches_into_pipelines() -> None:
    stream = draw(400)
    member = make_pipeline(StandardScaler(), RandomForestClassifier(5))
    one, two = (
        OBILClassifier(member=member, cv=2, random_state=0).fit(stream.features, stream.labels) for _ in range(2)
    )
    assert np.array_equal(one.log_ratios(stream.features), two.log_ratios(stream.features))


def test_given_splits_may_be_masks_and_must_be_out_of_fold() -> None:
    X, y = numbered()
    held_out = np.arange(len(y)) % 3 == 0
    model = OBILClassifier(member=RecordingClassifier(), n_members=1, cv=[(~held_out, held_out)], random_state=0).fit(
        X, y
    )
    assert len(model.holdout_.labels) == held_out.sum()
    for pairs, message in (
        ([(np.arange(300), np.arange(100))], "share no row"),
        ([(np.arange(100), np.array([300]))], "rows 0 to 299"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            OBILClassifier(member=RecordingClassifier(), cv=pairs).fit(X, y)
    with pytest.raises(InvalidInputError, match="one value per row"):
        OBILClassifier(member=RecordingClassifier()).fit(X, y, groups=np.arange(600))


def test_arrays_are_as_good_as_lists_for_settings() -> None:
    X, y = numbered()
    model = OBILClassifier(
        member="trees", ratios=np.array([1.0, 2.0]), categorical_features=np.array([0]), cv=2, random_state=0
    )
    assert len(model.fit(X, y).members_) == 5
    with pytest.raises(InvalidInputError, match="categorical_features"):
        clone(model).set_params(categorical_features=[2]).fit(X, y)


def test_refresh_refuses_rows_that_lack_a_class_and_changes_nothing() -> None:
    stream = draw(500)
    model = OBILClassifier(member=LogisticRegression(), random_state=0).fit(stream.features, stream.labels)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="two classes"):
        model.refresh(stream.features, np.zeros(500, dtype=int))
    assert dict(vars(model)) == before


def test_groups_stay_on_one_side_and_time_makes_the_last_rows_held_out() -> None:
    X, y = numbered()
    RecordingClassifier.shown.clear()
    groups = np.arange(len(y)) // 20
    OBILClassifier(member=RecordingClassifier(), n_members=1, ratios="original", cv=0.3, random_state=0).fit(
        X, y, groups=groups
    )
    seen_groups = {int(number) // 20 for number in RecordingClassifier.shown[0]}
    assert len(RecordingClassifier.shown[0]) == 20 * len(seen_groups)
    RecordingClassifier.shown.clear()
    OBILClassifier(member=RecordingClassifier(), n_members=1, ratios="original", cv=0.3, random_state=0).fit(
        X, y, time=np.arange(len(y))[::-1]
    )
    assert min(RecordingClassifier.shown[0]) == 90.0  # time runs backwards: the first 90 rows come last


def test_it_takes_categories_and_missing_values_in_a_table_and_a_row_by_name() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(600) < 0.2).astype(int)
    table = pd.DataFrame(
        {
            "size": np.where(rng.random(600) < 0.2, np.nan, rng.normal(size=600) + y),
            "ward": np.where(rng.random(600) < 0.2 + 0.5 * y, "red", "blue"),
        }
    )
    model = OBILClassifier(member="trees", cv=2, random_state=0).fit(table, y)
    row = {"size": 2.0, "ward": "red"}
    online = OnlineClassifier(model)
    decision = online.decide(row)
    assert decision.log_ratios[1] > online.decide({"size": -2.0, "ward": "blue"}).log_ratios[1] + 1.0
    assert np.array_equal(decision.log_ratios, model.log_ratios(pd.DataFrame([row]))[0])
    online.decide({"size": None, "ward": "never seen"})


N_INPUTS = 2 + 8  # of `draw`'s features and of the season


def test_views_are_other_scores_of_the_same_rows() -> None:
    stream = draw(500)
    with_views = OBILClassifier(member=LogisticRegression(), views=True, random_state=0)
    with_views.fit(stream.features, stream.labels)
    assert with_views.model_.score(stream.features).evidence.shape == (500, 5, 1 + 4 + N_INPUTS, 2)
    assert with_views.model_.view_members[0].holdout.shape == with_views.holdout_.log_ratios.shape
    # nor are there inputs for labels without views
    without = clone(with_views).set_params(views=False).fit(stream.features, stream.labels)
    assert without.model_.score(stream.features).evidence.shape == (500, 5, 1, 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_members": 0}, "n_members"),
        ({"member": "forest"}, "member must be one of tabular, mlp, paper, trees"),
        ({"member": []}, "at least one kind"),
        ({"member": 3}, "a scikit-learn classifier"),
        ({"fusion": "median"}, "fusion must be one of"),
        ({"sampling": "smote"}, "sampling must be one of"),
        ({"calibration": "magic"}, "calibration must be one of"),
        ({"mc_samples": 1}, "mc_samples"),
        ({"cv": 1}, "cv must be"),
        ({"cv": 1.5}, "cv must be"),
        ({"ratios": []}, "at least one class ratio"),
        ({"ratios": [0.5]}, "ratio must be"),
        ({"ratios": "golden"}, "'original'"),
        ({"fusion": "dropout", "member": LogisticRegression()}, "has none"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(settings: dict[str, Any], message: str) -> None:
    stream = draw(200)
    with pytest.raises(InvalidInputError, match=message):
        OBILClassifier(**({"member": LogisticRegression()} | settings)).fit(stream.features, stream.labels)


def test_without_torch_it_says_what_to_install_and_trees_still_work(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = draw(300)
    for name in [name for name in sys.modules if name.startswith(("torch", "obil.networks."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InvalidInputError, match=r"pip install 'obil\[torch\]'"):
        OBILClassifier().fit(stream.features, stream.labels)
    model = OBILClassifier(member="trees", cv=2, random_state=0).fit(stream.features, stream.labels)
    assert all(isinstance(member.scorer, TreeScorer) for member in model.members_)


def test_a_progress_bar_is_shown_when_asked_for_and_only_then(capsys: pytest.CaptureFixture[str]) -> None:
    stream = draw(200)
    OBILClassifier(member=LogisticRegression(), random_state=0).fit(stream.features, stream.labels)
    assert capsys.readouterr() == ("", "")
    OBILClassifier(member=LogisticRegression(), verbose=True, random_state=0).fit(stream.features, stream.labels)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Fitting 5 members" in shown.err
    assert "100%" in shown.err


class TestNetworks:
    """What needs torch."""

    @pytest.fixture(autouse=True)
    def _torch(self) -> Any:
        return pytest.importorskip("torch", reason="needs the torch extra")

    def test_fused_networks_find_the_ratio(self) -> None:
        """6,000 rows at .1: the mean error of the log ratio between -3 and 3 has a standard error of about .12."""
        stream, fresh = draw(6_000), draw(4_000, 0.5, seed=1)
        for fusion in ("mean", "dropout", "stacked"):
            model = OBILClassifier(member="mlp", fusion=fusion, random_state=0).fit(stream.features, stream.labels)
            error = error_between(model, fresh)
            assert abs(error.mean()) < 0.45
            assert error.std() < 0.8
            assert len(model.members_) == 5
            ratios = [member.plan.ratio for member in model.members_]
            assert ratios[:3] == [1, 2, 5]
            assert set(ratios[3:]) <= {10.0, None}  # None: as the rows are, here about 10 to 1
            assert ratios[4] is None

    def test_the_same_seed_gives_the_same_model_whatever_n_jobs(self) -> None:
        stream = draw(500)
        X, y = stream.features, stream.labels
        settings: dict[str, Any] = {"n_members": 2, "random_state": 3, "cv": 2}
        for member in ("mlp", ["mlp", HistGradientBoostingClassifier(max_iter=5)]):
            fusion = "dropout" if member == "mlp" else "stacked"
            one = OBILClassifier(member=member, fusion=fusion, **settings).fit(X, y)
            two = OBILClassifier(member=member, fusion=fusion, n_jobs=2, **settings).fit(X, y)
            assert np.array_equal(one.log_ratios(X), two.log_ratios(X))
            assert np.array_equal(one.holdout_.log_ratios, two.holdout_.log_ratios)
            other = OBILClassifier(member=member, fusion=fusion, **(settings | {"random_state": 4})).fit(X, y)
            assert not np.array_equal(one.log_ratios(X), other.log_ratios(X))

    def test_members_trained_together_as_on_a_gpu_make_the_same_kind_of_ensemble(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two folds, and once more on all rows, five networks at a time; ratios as near to the truth as in turn."""
        from obil.networks import members, stacked_training

        groups: list[int] = []
        original = stacked_training.train_stacked

        def counted(networks: Any, *args: Any, **settings: Any) -> Any:
            groups.append(len(networks))
            return original(networks, *args, **settings)

        monkeypatch.setattr(members, "train_together", lambda kind, device: True)
        monkeypatch.setattr(members, "train_stacked", counted)
        stream, fresh = draw(3_000), draw(4_000, 0.5, seed=1)
        model = OBILClassifier(member="mlp", cv=2, random_state=0).fit(stream.features, stream.labels)
        assert groups == [5, 5, 5]
        assert [member.plan.ratio for member in model.members_[:3]] == [1, 2, 5]
        error = error_between(model, fresh)
        assert abs(error.mean()) < 0.45
        assert error.std() < 0.8

    def test_the_paper_is_a_named_configuration(self) -> None:
        from obil.estimators.recipes import recipe_of

        recipe = recipe_of("paper")
        (kind,) = recipe.kinds
        assert (recipe.loss, recipe.fusion, recipe.cv) == ("squared_error", "dropout", 5)
        assert (kind.hidden, kind.dropout, kind.inputs, kind.skip) == ((128, 64, 32), 0.2, "standard", False)
        training = kind.training
        assert (training.epochs, training.learning_rate) == (100, 1e-3)
        assert training.patience > 0
        assert training.refit
        assert training.start_at_prior
        assert not training.cosine
        stream = draw(600)
        model = OBILClassifier(member="paper", random_state=0).fit(stream.features, stream.labels)
        assert model.fusion_temperature_ > 0.0
        assert len(model.holdout_.labels) == 600  # every row is held out once, and calibrates
        assert all(isinstance(member.scorer, DenseScorer) for member in model.members_)

    def test_a_cost_weight_in_the_loss_is_divided_out_with_the_training_prior(self) -> None:
        """Weight 10 on negatives, undivided, would move every log ratio by -2.3."""
        from obil.networks.losses import cost_weighted_squared_error

        stream, fresh = draw(6_000), draw(4_000, 0.5, seed=1)
        model = OBILClassifier(member="mlp", ratios=[2], loss=cost_weighted_squared_error(10.0), random_state=0).fit(
            stream.features, stream.labels
        )
        raw = model.members_[0].scorer.scores(fresh.features)[:, 1]
        between = np.abs(fresh.log_ratios[:, 1]) < 3.0
        assert abs((raw - fresh.log_ratios[:, 1])[between].mean()) < 0.6
        with pytest.raises(InvalidInputError, match="two classes"):
            OBILClassifier(member="mlp", loss=cost_weighted_squared_error(10.0)).fit(
                fresh.features, np.arange(len(fresh.labels)) % 3
            )

    @pytest.mark.parametrize("loss", ["cross_entropy", "squared_error", "brier"])
    def test_more_classes_by_softmax_or_one_against_the_rest(self, loss: str) -> None:
        """At equal priors the exact ratios decide 86 % right; 4,000 rows cost a network a few points at most."""
        priors = np.array([0.7, 0.2, 0.1])
        stream = TRIANGLE.draw(np.tile(priors, (4_000, 1)), random_state=0)
        fresh = TRIANGLE.draw(np.full((3_000, 3), 1 / 3), random_state=1)
        model = OBILClassifier(member="mlp", n_members=3, loss=loss, random_state=0)
        model.fit(stream.features, stream.labels)
        exact = (fresh.log_ratios.argmax(axis=1) == fresh.labels).mean()
        found = (model.log_ratios(fresh.features).argmax(axis=1) == fresh.labels).mean()
        assert found > exact - 0.03
        head = {member.scorer.head for member in model.members_}
        assert head == ({"one_vs_rest"} if loss == "squared_error" else {"softmax"})

    def test_any_torch_module_can_be_a_member_and_serves_without_torch(self, tmp_path: Any) -> None:
        import torch

        from obil.networks.settings import ModuleKind, Training
        from obil.serving.networks.onnx_scorer import OnnxScorer

        stream, fresh = draw(3_000), draw(2_000, 0.5, seed=1)
        X = stream.features.astype(np.float32).reshape(-1, 1, 2)  # not a table

        def build() -> Any:
            return torch.nn.Sequential(
                torch.nn.Flatten(), torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)
            )

        model = OBILClassifier(member=ModuleKind(build, Training(epochs=10)), n_members=2, cv=0.3, random_state=0).fit(
            X, stream.labels
        )
        error = error_between(
            model.model_, fresh._replace(features=fresh.features.astype(np.float32).reshape(-1, 1, 2))
        )
        assert abs(error.mean()) < 0.5
        assert all(isinstance(member.scorer, OnnxScorer) for member in model.members_)
        save(model, tmp_path / "model")
        assert np.array_equal(load(tmp_path / "model").log_ratios(X), model.log_ratios(X))
        with pytest.raises(InvalidInputError, match="gives 1 outputs per row, got 3"):
            OBILClassifier(member=torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2, 3))).fit(X, stream.labels)

    def test_the_default_mixes_networks_a_line_and_trees_and_is_saved_whole(self, tmp_path: Any) -> None:
        stream = draw(700)
        model = OBILClassifier(random_state=0, n_members=2, cv=2).fit(stream.features, stream.labels)
        kinds = [type(member.scorer).__name__ for member in model.members_]
        assert kinds == ["DenseScorer"] * 3 + ["TreeScorer"] * 5
        assert model.model_.scorer.weights.sum() == pytest.approx(1.0)
        save(model, tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert np.array_equal(loaded.log_ratios(stream.features), model.log_ratios(stream.features))
        one_by_one = np.concatenate([loaded.log_ratios(row[None]) for row in stream.features])
        assert np.allclose(one_by_one, loaded.log_ratios(stream.features), rtol=1e-6, atol=1e-6)

    def test_two_outputs_for_two_classes_are_as_good_as_one(self) -> None:
        import torch

        stream, fresh = draw(3_000), draw(2_000, 0.5, seed=1)
        network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        model = OBILClassifier(member=network, n_members=2, random_state=0)
        model.fit(stream.features.astype(np.float32), stream.labels)
        found = model.model_.log_ratios(fresh.features.astype(np.float32))
        assert np.corrcoef(found[:, 1], fresh.log_ratios[:, 1])[0, 1] > 0.9
        pickle.loads(pickle.dumps(model))
        with pytest.raises(InvalidInputError, match="fill what is missing"):
            model.fit(np.full((300, 2), np.nan, dtype=np.float32), np.arange(300) % 2)

    def test_a_device_that_is_not_there_is_refused(self) -> None:
        import torch

        stream = draw(200)
        absent = "zzz" if torch.cuda.is_available() else "cuda"
        with pytest.raises(InvalidInputError, match="device"):
            OBILClassifier(member="mlp", device=absent).fit(stream.features, stream.labels)

    def test_a_list_needs_one_loss_and_one_name_in_it_is_that_name(self) -> None:
        from obil.estimators.recipes import RECIPES, recipe_of

        assert recipe_of(["tabular"]) is RECIPES["tabular"]
        with pytest.raises(InvalidInputError, match="agree on the loss"):
            recipe_of(["paper", "mlp"])
        assert recipe_of(["paper", LogisticRegression()]).loss == "squared_error"

    def test_a_held_out_score_is_that_of_the_fold_that_had_not_seen_the_row(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # a finite temperature gives each fold a gating network of its own
        monkeypatch.setattr("obil.estimators.fusion.choose_temperature", lambda *_, **__: 0.1)
        stream = draw(900)
        model = OBILClassifier(member="mlp", fusion="dropout", n_members=2, cv=5, random_state=0)
        model.fit(stream.features, stream.labels)
        evidence = model.model_.evidence
        assert evidence is not None
        of_folds = np.sort(model.model_.fold_scores(stream.features)[:, :, 1], axis=None)
        place = np.clip(np.searchsorted(of_folds, evidence.scores[:, 1]), 1, len(of_folds) - 1)
        near = np.minimum(
            abs(of_folds[place] - evidence.scores[:, 1]), abs(of_folds[place - 1] - evidence.scores[:, 1])
        )
        assert near.max() < 1e-5

    def test_refresh_works_with_dropout_weights(self) -> None:
        stream, new = draw(1_500), draw(1_500, seed=5)
        model = OBILClassifier(member="mlp", n_members=2, random_state=0).fit(stream.features, stream.labels)
        model.refresh(new.features, new.labels)
        assert len(model.members_) == 2
        assert np.isfinite(model.log_ratios(new.features)).all()
