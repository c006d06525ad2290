"""Measure how far expected rates of positives went astray over blocks of held-out rows in their order.

What a model expects of new rows is calibrated on average over the held-out rows. From one part of them to the next it
is off by more than chance wherever p(x | class), or the prior, moves with time; and so it will be after deployment.
"""

import numpy as np

from obil.arrays import FloatArray
from obil.bayes.one_vs_rest import one_vs_rest
from obil.bayes.posterior import posterior
from obil.serving.ratio_model import RatioModel
from obil.trackers.held_out_error import MOST_ROWS, is_sorted_by_label

BLOCK_ROWS = 2_000
LEAST_IN_BLOCK = 10  # alerted, or quiet, rows that a block needs to count
START_SD, START_BLOCKS = 0.3, 5.0  # what is believed before any block was seen, and how many blocks that counts for
GROWTH = 1.5  # drift after deployment, in that seen on held-out rows
ALARM_GROWTH = 1.3  # times that, where the monitor has alarmed or the views disagree


def drift_of_rates(model: RatioModel, log_threshold: float, positive: int, *, doubted: bool) -> FloatArray:
    """Return the standard deviation that drift gives the logit of the rate of positives, alerted and quiet, (2,).

    The rows of each block are decided with the current threshold at the training prior. By how much their positives
    differ from the expected ones beyond chance is drift. Rows are counted as they are, whatever weights they had in
    the fit; labels that are sorted have no order to learn from.
    """
    held_out = model.holdout_
    log_ratios, labels = held_out.log_ratios[-MOST_ROWS:], held_out.labels[-MOST_ROWS:]
    expected = posterior(log_ratios, held_out.counts / held_out.counts.sum())[:, positive]
    positives = (labels == positive).astype(np.float64)
    alerts = one_vs_rest(log_ratios, model.prior_, positive) > log_threshold
    growth = GROWTH * (ALARM_GROWTH if doubted else 1.0)
    rows = np.arange(0 if is_sorted_by_label(labels) else len(positives))
    blocks = np.array_split(rows, max(1, round(len(rows) / BLOCK_ROWS)))
    found = np.zeros(2)
    for j, chosen in enumerate((alerts, ~alerts)):
        parts = [block[chosen[block]] for block in blocks]
        beyond = [_squared_drift(expected[part], positives[part]) for part in parts if len(part) >= LEAST_IN_BLOCK]
        found[j] = (max(sum(beyond), 0.0) + START_BLOCKS * START_SD**2) / (len(beyond) + START_BLOCKS)
    return growth * np.sqrt(found)


def _squared_drift(expected: FloatArray, positives: FloatArray) -> float:
    """Return how far the logit of a rate is from what was expected, squared, less what chance explains."""
    n_rows, n_expected, n_observed = len(expected), expected.sum() + 0.5, positives.sum() + 0.5
    apart = np.log(n_observed / (n_rows + 1.0 - n_observed)) - np.log(n_expected / (n_rows + 1.0 - n_expected))
    chance = (expected * (1.0 - expected)).sum() / (n_expected * (n_rows + 1.0 - n_expected) / (n_rows + 1.0)) ** 2
    return float(apart**2 - chance)
