"""A model tells what decides from what the prior is read from: one fold per row, through a map of its own."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from obil.errors import InvalidInputError
from obil.serving.calibrators import LinearCalibrator
from obil.serving.folds import folds_of_rows
from obil.serving.ratio_model import Evidence, RatioModel, Scores, View
from tests.serving.cases import MODELS, pair_rows, service_rows

NAMES = (
    "logistic, affine", "logistic, isotonic", "three classes, affine", "with views", "refitted, with views", "bins",
    "bins and a line", "held out once", "frozen", "scores, margin", "boosting", "naive Bayes", "data frame",
    "with an encoder", "without evidence of its own",
)  # fmt: skip


def evidence_scorer(model: RatioModel) -> Any:
    inside = None if model.evidence is None else model.evidence.scorer
    return model.scorer if inside is None else inside


@pytest.mark.parametrize("name", NAMES)
def test_evidence_is_the_map_of_each_folds_scores_and_the_mean_of_the_folds_decides(name: str) -> None:
    model, X = MODELS[name](), service_rows(name)
    scored, matrix = model.score(X), model.prepare(X)
    folds = getattr(evidence_scorer(model), "folds", (evidence_scorer(model),))
    assert model.n_folds == len(folds)
    n_sources = 1 + model.n_views + model.n_inputs
    assert scored.evidence.shape == (len(matrix), len(folds), n_sources, model.n_classes)
    own = model.calibrator if model.evidence is None else model.evidence.calibrator
    for number, fold in enumerate(folds):
        # a forest's sum is divided in another order when all folds are walked in one pass
        expected = own.apply(fold.scores(matrix))
        np.testing.assert_allclose(scored.evidence[:, number, 0], expected, rtol=1e-12, atol=1e-12)
    assert scored.log_ratios.tobytes() == model.log_ratios(X).tobytes()
    if evidence_scorer(model) is model.scorer:
        mean = np.mean([fold.scores(matrix) for fold in folds], axis=0)
        np.testing.assert_allclose(scored.log_ratios, model.calibrator.apply(mean), rtol=1e-12, atol=1e-12)
    else:  # refitted on all rows
        np.testing.assert_array_equal(scored.log_ratios, model.calibrator.apply(model.scorer.scores(matrix)))
    assert not scored.evidence[..., 0].any()


@pytest.mark.parametrize("name", ["with views", "refitted, with views"])
def test_a_views_evidence_is_by_the_same_fold_on_its_own_features(name: str) -> None:
    model, X = MODELS[name](), service_rows(name)
    scored = model.score(X)
    assert model.n_views == 4
    for place, view in enumerate(model.view_members, start=1):
        for number, fold in enumerate(view.scorer.folds):  # type: ignore[attr-defined]
            expected = view.calibrator.apply(fold.scores(X[:, list(view.features)]))
            np.testing.assert_allclose(scored.evidence[:, number, place], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("first", [0, 1, 999, 10**12])
def test_the_number_of_a_row_says_which_fold_is_its_evidence(first: int) -> None:
    scored = MODELS["with views"]().score(service_rows("with views"))
    chosen = folds_of_rows(first, 60, 5)
    assert len(set(chosen.tolist())) == 5
    found = scored.evidence_from(first)
    for row in range(60):
        np.testing.assert_array_equal(found[row], scored.evidence[row, chosen[row]])
    parts = [
        Scores(scored.log_ratios[a:b], scored.evidence[a:b]).evidence_from(first + a) for a, b in ((0, 7), (7, 60))
    ]
    np.testing.assert_array_equal(np.concatenate(parts), found)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_is_scored_alone_as_it_is_among_others(name: str) -> None:
    model, X = MODELS[name](), service_rows(name)
    scored = model.score(X)
    for row in (0, 17):
        one = model.score(X.iloc[[row]] if hasattr(X, "iloc") else X[[row]])
        rtol = 0.0 if model.batch_invariant else 1e-12
        np.testing.assert_allclose(one.log_ratios[0], scored.log_ratios[row], rtol=rtol)
        np.testing.assert_allclose(one.evidence[0], scored.evidence[row], rtol=rtol)


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_a_batch_have_the_models_own_evidence_by_every_fold(name: str) -> None:
    model, X = MODELS[name](), service_rows(name)
    np.testing.assert_array_equal(model.evidence_rows(X), model.score(X).evidence[:, :, 0])
    assert model.fold_scores(X).shape == (model.score(X).evidence.shape[0], model.n_folds, model.n_classes)


@pytest.mark.parametrize("name", NAMES)
def test_held_out_evidence_is_the_map_of_the_held_out_scores(name: str) -> None:
    model = MODELS[name]()
    (own, scores), *views = model.evidence_maps
    np.testing.assert_allclose(own.apply(scores), model.evidence_holdout.log_ratios, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(model.evidence_holdout.labels, model.holdout_.labels)
    np.testing.assert_array_equal(model.evidence_holdout.weights, model.holdout_.weights)
    assert [score_map for score_map, _ in views] == [view.calibrator for view in model.view_members]
    for (score_map, raw), view in zip(views, model.view_members, strict=True):
        np.testing.assert_array_equal(score_map.apply(raw), view.holdout)
    if model.evidence is None:
        assert model.evidence_holdout is model.holdout_
    else:
        np.testing.assert_array_equal(model.evidence.holdout, model.evidence_holdout.log_ratios)


def test_held_out_scores_are_what_single_folds_gave_to_rows_they_had_not_seen() -> None:
    """Refitted: each fold tested half of the rows, and its frozen copy scores them as it did."""
    model = MODELS["refitted, with views"]()
    assert model.evidence is not None
    X, labels = pair_rows()
    folds = evidence_scorer(model).folds
    by_fold = np.stack([fold.scores(X) for fold in folds], axis=1)[:, :, 1]  # (n, F)
    for score, label in zip(model.evidence.scores[:, 1], model.holdout_.labels, strict=True):
        rows, _ = np.nonzero(abs(by_fold - score) < 1e-9)
        assert len(rows)
        assert (labels[rows] == label).any()


def test_recalibrated_models_keep_neither_views_nor_evidence_that_they_are_not_given() -> None:
    model = MODELS["with views"]()
    line = LinearCalibrator.identity(2)
    bare = model.recalibrated(line, model.holdout_, calibration="affine")
    assert bare.evidence is None
    assert bare.n_views == 0
    given = Evidence(line, model.evidence_maps[0][1])
    assert model.recalibrated(line, model.holdout_, calibration="affine", evidence=given).evidence is given


def damaged(model: RatioModel) -> dict[str, RatioModel]:
    """Return models whose parts do not fit one another."""
    evidence, view = model.evidence, model.view_members[0]
    assert evidence is not None
    three = LinearCalibrator.identity(3)
    fewer = replace(view.scorer, folds=view.scorer.folds[:4])  # type: ignore[type-var,attr-defined]

    def with_view(changed: View) -> RatioModel:
        return replace(model, view_members=(changed, *model.view_members[1:]))

    return {
        "evidence of other rows": replace(model, evidence=replace(evidence, scores=evidence.scores[1:])),
        "evidence of three classes": replace(model, evidence=replace(evidence, calibrator=three)),
        "evidence that is not finite": replace(
            model, evidence=replace(evidence, scores=np.full_like(evidence.scores, np.nan))
        ),
        "evidence of fewer folds than the views": replace(model, evidence=replace(evidence, scorer=fewer)),
        "a view of other rows": with_view(replace(view, scores=view.scores[1:])),
        "a view of three classes": with_view(replace(view, calibrator=three)),
        "a view that is not finite": with_view(replace(view, scores=np.full_like(view.scores, np.inf))),
        "a view of fewer folds": with_view(replace(view, scorer=fewer)),
    }


def test_parts_that_do_not_fit_one_another_are_refused() -> None:
    model = MODELS["with views"]()
    model.require_sound()
    for spoilt in damaged(model).values():
        with pytest.raises(InvalidInputError):
            spoilt.require_sound()
