"""Fuse the members of an ensemble by a named method, and choose those of a refreshed one."""

from typing import Any, NamedTuple

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.calibration.fuse import choose_temperature, dropout_weights, mean_log_loss, stacked_weights
from obil.calibration.linear import fit_linear
from obil.estimators.ensemble_fit import Member, MemberScores, Options, torch_part, variance_of
from obil.estimators.labelled_rows import LabelledRows
from obil.serving.ensemble import EnsembleScorer, GatingNetwork
from obil.serving.networks.dense_network import DenseScorer


class Fused(NamedTuple):
    """The ensembles of the folds, and the fused scores of the held-out rows."""

    folds: list[EnsembleScorer]
    scores: FloatArray  # (n, K)
    pairs: FloatArray  # (m, 2, K) of rows that two folds have not seen
    temperature: float | None  # that "dropout" chose


def fuse(
    how: str,
    folds: list[list[Member]],
    member_scores: MemberScores,
    X: Any,
    labels: IntArray,
    weights: FloatArray,
    *,
    slope_sd: float | None,
    seed: int,
) -> Fused:
    """Fuse the members of each fold by the same rule, learned from the held-out rows.

    `X`, `labels` and `weights` are of the held-out rows, in the order of `member_scores`. "mean" weights members
    equally, "stacked" by what predicts the labels best, "dropout" each row's by exp(-variance / temperature).
    """
    members = folds[0]
    member_weights = np.full(len(members), 1.0 / len(members))
    gatings: list[GatingNetwork | None] = [None] * len(folds)
    temperature = None
    if how == "stacked":
        member_weights = _stacked(members, member_scores.scores, labels, weights)
    held_out = member_scores.held_out
    row_weights = np.broadcast_to(member_weights, member_scores.scores.shape[:2])
    second_weights = row_weights[held_out.first]
    if how == "dropout" and member_scores.variances is not None and len(members) > 1:
        temperature = choose_temperature(
            member_scores.scores, member_scores.variances, labels, weights, slope_sd=slope_sd, random_state=seed
        )
        row_weights = dropout_weights(member_scores.variances, temperature)
        member_weights = row_weights.mean(axis=0)
        if np.isfinite(temperature) and isinstance(members[0].scorer, DenseScorer):
            gatings = [_gating_network(fold, X, row_weights, seed) for fold in folds]
            # the weights that the gating network of a row's own fold would give it
            by_fold = np.stack([gating.weights(X) for gating in gatings if gating is not None])  # (F, n, M)
            row_weights = by_fold[held_out.folds, np.arange(len(held_out.rows))]
            second_weights = by_fold[held_out.second_folds, held_out.first]
        else:
            row_weights = np.broadcast_to(member_weights, row_weights.shape)
            second_weights = row_weights[held_out.first]
    fused = (row_weights[:, :, None] * member_scores.scores).sum(axis=1)
    again = (second_weights[:, :, None] * member_scores.second).sum(axis=1)
    scorers = [
        EnsembleScorer(tuple(member.scorer for member in fold), member_weights, gating)
        for fold, gating in zip(folds, gatings, strict=True)
    ]
    return Fused(scorers, fused, np.stack([fused[held_out.first], again], axis=1), temperature)


def _gating_network(members: list[Member], X: Any, row_weights: FloatArray, seed: int) -> GatingNetwork | None:
    """Return a network that predicts the weights of members from a row."""
    first = members[0].scorer
    if not isinstance(first, DenseScorer):
        return None
    with torch_part("training").reproducible(seed):
        network = torch_part("mlp").fit_gating_network(first.features.encode(X), row_weights)
    return GatingNetwork(first.features, network)


def _stacked(members: list[Member], scores: FloatArray, labels: IntArray, weights: FloatArray) -> FloatArray:
    """Return weights that differ by kind alone: few rows cannot rank members of one kind."""
    kinds = list(dict.fromkeys(member.plan.group for member in members))
    belongs = np.array([[member.plan.group == kind for kind in kinds] for member in members], dtype=np.float64)
    within = belongs / belongs.sum(axis=0)  # (M, kinds)
    fused_weights: FloatArray = within @ stacked_weights(np.einsum("nmk,mg->ngk", scores, within), labels, weights)
    return fused_weights


def best_members(
    old: list[Member],
    new: list[Member],
    member_scores: MemberScores,
    rows: LabelledRows,
    options: Options,
    *,
    slope_sd: float | None,
    seed: int,
) -> tuple[list[Member], MemberScores]:
    """Return the best of old and new members, of each kind as many as are new, with their scores of held-out rows.

    The old must have seen none of the rows; the new have not seen the held-out ones. Of equals the newer stays.
    """
    held_out = rows.take(member_scores.rows)
    candidates = [*new, *old]
    scores = np.concatenate(
        [member_scores.scores, np.stack([member.scorer.scores(held_out.X) for member in old], axis=1)], axis=1
    )
    losses = [
        _calibrated_loss(scores[:, m], held_out.labels, held_out.weights, slope_sd) for m in range(len(candidates))
    ]
    kept: list[int] = []
    for group in dict.fromkeys(member.plan.group for member in old):
        own = [m for m, member in enumerate(candidates) if member.plan.group == group]
        n_kept = sum(member.plan.group == group for member in new)
        kept += sorted(own, key=lambda m: losses[m])[:n_kept]
    variances = None
    if member_scores.variances is not None:
        of_old = [variance_of(member, held_out.X, n_passes=options.n_passes, seed=seed) for member in old]
        variances = np.concatenate([member_scores.variances, np.stack(of_old, axis=1)], axis=1)[:, kept]
    # a single part was held out: no row has a second score
    scored = MemberScores(member_scores.held_out, scores[:, kept], variances, scores[:0, kept])
    return [candidates[m] for m in kept], scored


def _calibrated_loss(scores: FloatArray, labels: IntArray, weights: FloatArray, slope_sd: float | None) -> float:
    """Return the log loss of one member's scores after an offset and a slope of its own."""
    calibrated = fit_linear(scores, labels, weights, slope_sd=slope_sd).apply(scores)
    return mean_log_loss(calibrated, labels, weights)
