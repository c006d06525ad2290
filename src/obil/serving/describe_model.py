"""Describe what serves a model: what scores, frozen or wrapped and why, and how it is calibrated."""

from typing import TYPE_CHECKING

import numpy as np

from obil.serving.folds import FoldScorer
from obil.serving.scorers import ColumnScorer, EstimatorScorer, Scorer

if TYPE_CHECKING:
    from obil.serving.ratio_model import RatioModel

MOST_NAMES = 10


def describe_model(model: "RatioModel") -> str:
    """Return what serves a model, as lines of text."""
    prior = ", ".join(f"{label}: {p:.4g}" for label, p in zip(model.classes_.tolist(), model.prior_, strict=True))
    names, width = model.feature_names, model.scorer.n_features
    lines = {
        "scores": describe_scorer(model.scorer),
        "evidence": "the scores that decide" if model.evidence is None else _described_evidence(model),
        "classes": f"{prior} (training prior)",
        "features": _listed(names) if names is not None else "any" if width is None else f"{width}, without names",
        "calibration": f"{model.calibration}, on {len(model.holdout_.labels):,} held-out rows{_of_the_mean(model)}",
        "views": "; ".join(sorted({describe_scorer(view.scorer) for view in model.view_members})) or "none",
    }
    if model.view_members:
        lines["views"] = f"{len(model.view_members)}: {lines['views']}"
    return "\n".join(f"{name:<12} {text}" for name, text in lines.items())


def describe_scorer(scorer: Scorer) -> str:
    """Return what scores, and whether it needs the library that fitted it."""
    if isinstance(scorer, EstimatorScorer):
        return f"{type(scorer.estimator).__name__}, wrapped: its own library serves it, because {scorer.reason}"
    if isinstance(scorer, ColumnScorer):
        return f"a {scorer.link} that another system computed"
    if isinstance(scorer, FoldScorer):
        return f"the mean of {len(scorer.folds)} folds: {'; '.join(sorted(set(map(describe_scorer, scorer.folds))))}"
    if members := getattr(scorer, "members", ()):  # of an ensemble
        return f"an ensemble of {len(members)}: {'; '.join(sorted(set(map(describe_scorer, members))))}"
    summary = getattr(scorer, "summary", None)
    return f"{type(scorer).__name__ if summary is None else summary()}, frozen into arrays"


def _described_evidence(model: "RatioModel") -> str:
    of_fold = "one fold per row, " if model.n_own_folds > 1 else ""
    return of_fold + ("" if model.evidence is None else model.evidence.choice)


def _of_the_mean(model: "RatioModel") -> str:
    """Return how the calibrator of a mean of folds allows for scores that single folds gave to the held-out rows."""
    if model.evidence is None or not isinstance(model.scorer, FoldScorer):
        return ""
    if np.array_equal(model.calibrator.apply(model.evidence.scores), model.holdout_.log_ratios):
        return ", as single folds score them"
    return ", moved to where the mean scores them"


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
