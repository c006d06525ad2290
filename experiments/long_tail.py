"""Stream a hundred or a thousand classes with exact ratios, under a long-tailed prior that moves."""

import time
from typing import Any

import numpy as np
from scipy.special import log_softmax

from obil.arrays import FloatArray, IntArray
from obil.trackers import BayesBank

SEPARATION = {100: 4.5, 1_000: 5.5}  # of any two classes, in standard deviations


def moving_prior(n_rows: int, n_classes: int, *, random_state: int) -> FloatArray:
    """Return the prior of every row, (n, K): one third of the rows long-tailed, one moving, one in another order.

    The class of rank r has a prior in proportion to 1 / r.

    >>> moving_prior(3, 2, random_state=0).max(axis=1).round(3)
    array([0.667, 0.667, 0.667])
    """
    rng = np.random.default_rng(random_state)
    falling: FloatArray = 1.0 / np.arange(1.0, n_classes + 1.0)
    tail: FloatArray = falling / falling.sum()
    first, last = tail[rng.permutation(n_classes)], tail[rng.permutation(n_classes)]
    moved: FloatArray = np.clip(3.0 * np.arange(n_rows) / n_rows - 1.0, 0.0, 1.0)
    path: FloatArray = (1.0 - moved[:, None]) * first + moved[:, None] * last
    return path


def draw_simplex(path: FloatArray, separation: float, *, random_state: int) -> tuple[FloatArray, IntArray]:
    """Draw rows of normal classes, any two as far apart; return exact log ratios (n, K) and classes (n,)."""
    rng = np.random.default_rng(random_state)
    n_rows, n_classes = path.shape
    labels = (np.cumsum(path, axis=1)[:, :-1] <= rng.random(len(path))[:, None]).sum(axis=1)
    distance = separation / np.sqrt(2.0)  # of each class from the origin, along its own axis
    features = rng.standard_normal((n_rows, n_classes))
    features[np.arange(n_rows), labels] += distance
    features *= distance
    features -= features[:, :1].copy()
    return features, labels


def run_bank_on_long_tail(n_classes: int, n_rows: int, seed: int) -> dict[str, Any]:
    """Return errors in percent, microseconds per row and kilobytes of state of one stream."""
    path = moving_prior(n_rows, n_classes, random_state=seed)
    log_ratios, labels = draw_simplex(path, SEPARATION[n_classes], random_state=seed + 1_000)
    bank = BayesBank(np.full(n_classes, 1.0 / n_classes))
    started = time.perf_counter()
    priors = bank.update_many(log_ratios)
    seconds = time.perf_counter() - started
    known = log_softmax(log_ratios + np.log(path), axis=1)  # log posteriors at the true prior
    rows = np.arange(n_rows)
    best = known.argmax(axis=1)
    found = {"oracle": 100.0 * float(np.mean(best != labels))}
    for name, logits in (("bank", log_ratios + np.log(priors)), ("fixed", log_ratios)):
        decided = logits.argmax(axis=1)
        # given the rows, not their labels: the same mean with less noise
        lost = np.exp(known[rows, best]) - np.exp(known[rows, decided])
        found[name] = 100.0 * float(lost.mean())
    arrays = [np.asarray(values) for values in bank.state()["memory"].values()]
    found["microseconds"] = 1e6 * seconds / n_rows
    found["kilobytes"] = sum(array.nbytes for array in arrays) / 1_000.0
    return found
