"""Choose the members of a refreshed ensemble: of each kind, those that predict new rows best."""

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.calibration.fuse import mean_log_loss
from obil.calibration.linear import fit_linear
from obil.estimators.ensemble_fit import Member, MemberScores, Options, variance_of
from obil.estimators.labelled_rows import LabelledRows


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
    """Return the best of old and new members, of each kind as many as there were, with their scores of held-out rows.

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
        n_kept = sum(member.plan.group == group for member in old)
        kept += sorted(own, key=lambda m: losses[m])[:n_kept]
    variances = None
    if member_scores.variances is not None:
        of_old = [variance_of(member, held_out.X, n_passes=options.n_passes, seed=seed) for member in old]
        variances = np.concatenate([member_scores.variances, np.stack(of_old, axis=1)], axis=1)[:, kept]
    return [candidates[m] for m in kept], MemberScores(member_scores.rows, scores[:, kept], variances)


def _calibrated_loss(scores: FloatArray, labels: IntArray, weights: FloatArray, slope_sd: float | None) -> float:
    """Return the log loss of one member's scores after an offset and a slope of its own."""
    calibrated = fit_linear(scores, labels, weights, slope_sd=slope_sd).apply(scores)
    return mean_log_loss(calibrated, labels, weights)
