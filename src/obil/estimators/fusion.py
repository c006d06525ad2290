"""Fuse the members of an ensemble by the method that a name stands for."""

from typing import Any

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.calibration.fuse import choose_temperature, dropout_weights, stacked_weights
from obil.estimators.ensemble_fit import Member, MemberScores, torch_part
from obil.serving.dense_network import DenseScorer
from obil.serving.ensemble import EnsembleScorer, GatingNetwork


def fuse(
    how: str,
    members: list[Member],
    member_scores: MemberScores,
    X: Any,
    labels: IntArray,
    weights: FloatArray,
    *,
    slope_sd: float | None,
    seed: int,
) -> tuple[EnsembleScorer, FloatArray, float | None]:
    """Return the scorer, the fused scores of the held-out rows, (n, K), and the temperature that `dropout` chose.

    `X`, `labels` and `weights` are of the held-out rows, in the order of `member_scores`. "mean" weights members
    equally, "stacked" by what predicts the labels best, "dropout" each row's by exp(-variance / temperature).
    """
    scorers = tuple(member.scorer for member in members)
    member_weights = np.full(len(members), 1.0 / len(members))
    gating, temperature = None, None
    if how == "stacked":
        member_weights = _stacked(members, member_scores.scores, labels, weights)
    row_weights = np.broadcast_to(member_weights, member_scores.scores.shape[:2])
    if how == "dropout" and member_scores.variances is not None and len(members) > 1:
        temperature = choose_temperature(
            member_scores.scores, member_scores.variances, labels, weights, slope_sd=slope_sd, random_state=seed
        )
        row_weights = dropout_weights(member_scores.variances, temperature)
        member_weights = row_weights.mean(axis=0)
        first = scorers[0]
        if np.isfinite(temperature) and isinstance(first, DenseScorer):
            with torch_part("training").reproducible(seed):
                inputs = first.features.encode(X)
                network = torch_part("gating_network").fit_gating_network(inputs, row_weights)
            gating = GatingNetwork(first.features, network)
            row_weights = gating.weights(X)  # what serving will use
        else:
            row_weights = np.broadcast_to(member_weights, row_weights.shape)
    fused = (row_weights[:, :, None] * member_scores.scores).sum(axis=1)
    return EnsembleScorer(scorers, member_weights, gating), fused, temperature


def _stacked(members: list[Member], scores: FloatArray, labels: IntArray, weights: FloatArray) -> FloatArray:
    """Return weights that differ by kind alone: few rows cannot rank members of one kind."""
    kinds = list(dict.fromkeys(member.plan.group for member in members))
    belongs = np.array([[member.plan.group == kind for kind in kinds] for member in members], dtype=np.float64)
    within = belongs / belongs.sum(axis=0)  # (M, kinds)
    fused_weights: FloatArray = within @ stacked_weights(np.einsum("nmk,mg->ngk", scores, within), labels, weights)
    return fused_weights
