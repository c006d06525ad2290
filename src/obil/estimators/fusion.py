"""Fuse the members of an ensemble in the way that a word names."""

from typing import Any

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.calibration.fuse import choose_temperature, dropout_weights, stacked_weights
from obil.estimators.ensemble_fit import Member, MemberScores, torch_part
from obil.serving.dense_network import DenseScorer
from obil.serving.ensemble import EnsembleScorer, Weigher


def fuse(
    how: str,
    members: list[Member],
    opinions: MemberScores,
    X: Any,
    labels: IntArray,
    weights: FloatArray,
    *,
    slope_sd: float | None,
    seed: int,
) -> tuple[EnsembleScorer, FloatArray, float | None]:
    """Return the scorer, the fused scores of the honest rows, (n, K), and the temperature that `dropout` chose.

    `X`, `labels` and `weights` are of the honest rows, in the order of the opinions. "mean" weighs members
    equally, "stacked" by what predicts the labels best, "dropout" each row's by exp(-variance / temperature).
    """
    scorers = tuple(member.scorer for member in members)
    shares = np.full(len(members), 1.0 / len(members))
    weigher, temperature = None, None
    if how == "stacked":
        shares = _stacked(members, opinions.scores, labels, weights)
    row_shares = np.broadcast_to(shares, opinions.scores.shape[:2])
    if how == "dropout" and opinions.variances is not None and len(members) > 1:
        temperature = choose_temperature(
            opinions.scores, opinions.variances, labels, weights, slope_sd=slope_sd, random_state=seed
        )
        row_shares = dropout_weights(opinions.variances, temperature)
        shares = row_shares.mean(axis=0)
        first = scorers[0]
        if np.isfinite(temperature) and isinstance(first, DenseScorer):
            with torch_part("training").reproducible(seed):
                inputs = first.features.encode(X)
                network = torch_part("gating_network").fit_gating_network(inputs, row_shares)
            weigher = Weigher(first.features, network)
            row_shares = weigher.weights(X)  # what serving will use
        else:
            row_shares = np.broadcast_to(shares, row_shares.shape)
    fused = (row_shares[:, :, None] * opinions.scores).sum(axis=1)
    return EnsembleScorer(scorers, shares, weigher), fused, temperature


def _stacked(members: list[Member], scores: FloatArray, labels: IntArray, weights: FloatArray) -> FloatArray:
    """Return weights that differ by kind alone: members of one kind are too alike to tell apart by few rows."""
    kinds = list(dict.fromkeys(member.plan.group for member in members))
    belongs = np.array([[member.plan.group == kind for kind in kinds] for member in members], dtype=np.float64)
    within = belongs / belongs.sum(axis=0)  # (M, kinds)
    shares: FloatArray = within @ stacked_weights(np.einsum("nmk,mg->ngk", scores, within), labels, weights)
    return shares
