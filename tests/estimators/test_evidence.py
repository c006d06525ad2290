"""The mean of the folds decides; the prior is read from one fold per row, distributed as on the held-out rows."""

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_2samp
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import TimeSeriesSplit

from obil import OBILClassifier, OnlineClassifier, RatioClassifier, estimate_prior
from obil.datasets import GaussianClasses
from obil.errors import InvalidInputError
from obil.serving.folds import FoldScorer, folds_of_rows

CLASSES = GaussianClasses.spread(2.0, n_features=8)


def drawn(n: int, prior: float, seed: int) -> Any:
    return CLASSES.draw(np.full(n, prior), random_state=seed)


@pytest.fixture(scope="module")
def boosted() -> RatioClassifier:
    rows = drawn(4_000, 0.2, 0)
    return RatioClassifier(HistGradientBoostingClassifier(random_state=0), random_state=0).fit(
        rows.features, rows.labels
    )


def test_the_mean_of_the_folds_decides(boosted: RatioClassifier) -> None:
    scorer, rows = boosted.model_.scorer, drawn(50, 0.2, 1).features
    assert isinstance(scorer, FoldScorer)
    mean = np.mean([fold.scores(rows) for fold in scorer.folds], axis=0)
    np.testing.assert_allclose(boosted.log_ratios(rows), boosted.model_.calibrator.apply(mean), rtol=0, atol=1e-12)
    assert len(boosted.estimators_) == 5


def test_evidence_of_new_rows_is_distributed_as_on_the_held_out_rows_and_the_mean_is_not(
    boosted: RatioClassifier,
) -> None:
    """Kolmogorov-Smirnov at 1 in 1,000, for the rows of each class; seeds 0 and 2."""
    new, model = drawn(6_000, 0.2, 2), boosted.model_
    evidence = model.score(new.features).evidence_from(0)[:, 0]
    raw = model.scorer.fold_scores(new.features)  # type: ignore[attr-defined]  # a FoldScorer
    single = raw[np.arange(len(raw)), folds_of_rows(0, len(raw), 5), 1]
    held_out, labels = model.evidence_holdout, model.holdout_.labels
    assert model.evidence is not None
    for k in (0, 1):
        own, theirs = labels == k, new.labels == k
        assert ks_2samp(model.evidence.scores[own, 1], single[theirs]).pvalue > 1e-3
        assert ks_2samp(held_out.log_ratios[own, 1], evidence[theirs, 1]).pvalue > 1e-3
        assert raw.mean(axis=1)[theirs, 1].std() < single[theirs].std()  # the mean varies less


def test_the_mean_is_calibrated_for_new_rows(boosted: RatioClassifier) -> None:
    """Its log loss is within 2 % of what the best offset and slope in hindsight give; seed 3."""
    new = drawn(20_000, 0.2, 3)
    ratios = boosted.log_ratios(new.features)[:, 1]
    hindsight = LogisticRegression(C=1e6).fit(ratios[:, None], new.labels).predict_proba(ratios[:, None])
    own = boosted.predict_proba(new.features, prior=float(new.labels.mean()))
    assert log_loss(new.labels, own) < 1.02 * log_loss(new.labels, hindsight)


@pytest.mark.parametrize("prior", [0.05, 0.5])
def test_a_batch_has_the_prior_that_its_evidence_says(boosted: RatioClassifier, prior: float) -> None:
    new = drawn(20_000, prior, 4)
    found = estimate_prior(boosted, new.features)
    assert abs(found.prior[1] / new.labels.mean() - 1.0) < 0.1
    order = np.random.default_rng(0).permutation(len(new.features))  # no counter: the folds are averaged
    np.testing.assert_allclose(estimate_prior(boosted, new.features[order]).prior, found.prior, rtol=1e-9)


def test_a_quiet_stream_of_a_booster_raises_no_alarm(boosted: RatioClassifier) -> None:
    """Guaranteed to 1 %; refitted on all rows, half of such streams alarmed."""
    online = OnlineClassifier(boosted)
    online.decide_many(drawn(20_000, 0.2, 5).features)
    assert online.trusted


def test_a_row_keeps_its_fold_alone_or_among_others(boosted: RatioClassifier) -> None:
    rows = drawn(40, 0.2, 6).features
    single, many = OnlineClassifier(boosted), OnlineClassifier(boosted)
    first = np.stack([single.decide(row).evidence for row in rows])
    second = np.concatenate([many.decide_many(part).evidence for part in (rows[:7], rows[7:8], rows[8:])])
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("cv", [2, TimeSeriesSplit(3)])
def test_folds_that_learned_from_too_little_are_not_averaged_and_that_is_said(cv: Any) -> None:
    rows = drawn(600, 0.3, 7)
    with pytest.warns(UserWarning, match="the estimator is fitted once more on all rows to decide"):
        model = RatioClassifier(LogisticRegression(), cv=cv, random_state=0).fit(rows.features, rows.labels)
    assert len(model.estimators_) == 1
    whole = LogisticRegression().fit(rows.features, rows.labels)
    np.testing.assert_allclose(model.estimators_[0].coef_, whole.coef_)
    assert model.model_.n_folds == (2 if cv == 2 else 3)  # evidence still comes from them


def test_ensemble_says_which_without_a_warning() -> None:
    rows = drawn(600, 0.3, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = RatioClassifier(LogisticRegression(), ensemble=False, random_state=0).fit(rows.features, rows.labels)
        two = RatioClassifier(LogisticRegression(), cv=2, ensemble=True, random_state=0).fit(rows.features, rows.labels)
    assert (len(one.estimators_), len(two.estimators_)) == (1, 2)
    with pytest.raises(InvalidInputError, match="ensemble must be 'auto', True or False, got 'mean'"):
        RatioClassifier(LogisticRegression(), ensemble="mean").fit(rows.features, rows.labels)


def test_a_fraction_holds_rows_out_from_a_single_fit() -> None:
    rows = drawn(1_000, 0.3, 9)
    model = RatioClassifier(LogisticRegression(), cv=0.2, views=False, random_state=0)
    model.fit(rows.features, rows.labels)
    assert len(model.estimators_) == 1
    assert len(model.holdout_.labels) == 200
    assert model.model_.score(rows.features[:3]).evidence.shape == (3, 1, 1 + model.model_.n_inputs, 2)
    with pytest.raises(InvalidInputError, match=r"cv must be at least 2 folds or a fraction of the rows, got 1\.5"):
        RatioClassifier(LogisticRegression(), cv=1.5).fit(rows.features, rows.labels)


def test_only_folds_that_are_blocks_leave_the_monitor_a_tolerance() -> None:
    rows = drawn(1_500, 0.3, 10)
    plain = RatioClassifier(LogisticRegression(), random_state=0).fit(rows.features, rows.labels)
    by_time = RatioClassifier(LogisticRegression(), random_state=0)
    by_time.fit(rows.features, rows.labels, time=np.arange(1_500))
    assert [one.model_.evidence.tolerance for one in (plain, by_time)] == [0.0, pytest.approx(0.02, abs=0.02)]
    assert by_time.model_.evidence.tolerance >= 0.02


def test_each_fold_of_an_ensemble_is_an_ensemble() -> None:
    rows = drawn(1_000, 0.3, 11)
    model = OBILClassifier(member=LogisticRegression(), n_members=3, random_state=0).fit(rows.features, rows.labels)
    assert isinstance(model.model_.scorer, FoldScorer)
    assert [len(fold.members) for fold in model.model_.scorer.folds] == [3] * 5  # type: ignore[attr-defined]
    assert len(model.members_) == 15
    weights = [fold.weights.tolist() for fold in model.model_.scorer.folds]  # type: ignore[attr-defined]
    assert weights == [weights[0]] * 5  # fitted once


def test_a_fold_that_lacks_a_class_is_refused_since_it_would_serve() -> None:
    rows = drawn(300, 0.3, 12)
    labels = np.where(np.arange(300) > 280, 2, rows.labels)  # the third class comes last
    with pytest.raises(InvalidInputError, match=r"a fold lacks a class: .* use fewer folds"):
        RatioClassifier(LogisticRegression()).fit(rows.features, labels, time=np.arange(300))


def test_one_heavy_row_is_one_row_and_fills_no_bins() -> None:
    rows = drawn(400, 0.5, 13)
    weights = np.where(rows.labels == 1, 0.0, 1.0)
    weights[np.flatnonzero(rows.labels == 1)[:4]] = 60.0
    model = RatioClassifier.from_scores(rows.log_ratios[:, 1], rows.labels, kind="margin", sample_weight=weights)
    assert model.model_.evidence is not None
    assert model.model_.evidence.choice == "calibrated: 4 rows of the rarest class are too few for bins"


@pytest.mark.parametrize("ensemble", [np.True_, 1])
def test_a_true_value_of_another_type_is_true(ensemble: Any) -> None:
    rows = drawn(400, 0.3, 14)
    model = RatioClassifier(LogisticRegression(), ensemble=ensemble, random_state=0).fit(rows.features, rows.labels)
    assert len(model.estimators_) == 5


def test_scores_of_another_model_are_refused_and_change_nothing(boosted: RatioClassifier) -> None:
    online, rows = OnlineClassifier(boosted), drawn(10, 0.2, 15).features
    scores, before = boosted.model_.score(rows), online.state()
    for wrong in (
        scores._replace(evidence=scores.evidence[:, :3]),
        scores._replace(evidence=scores.evidence[:4]),
        scores._replace(evidence=scores.evidence * np.nan),
        scores._replace(log_ratios=scores.log_ratios + 1.0),
    ):
        with pytest.raises(InvalidInputError):
            online.decide_scores(wrong)
    assert online.state() == before
