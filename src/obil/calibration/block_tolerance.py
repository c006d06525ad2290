"""Measure how far the scores of held-out blocks differ from each other beyond chance."""

import numpy as np

from obil.arrays import FloatArray, IntArray

N_BINS = 8
FEWEST_ROWS = 40  # of a class in a block
LEAST = 0.02  # blocks to come may differ by more than those that were seen


def block_tolerance(log_ratios: FloatArray, labels: IntArray, blocks: IntArray) -> float:
    """Return the largest divergence of a block's histogram of one class from that of all, in nats, beyond chance.

    Where folds are blocks of time or groups, scores of new rows are distributed like those of held-out ones only as
    far as blocks are alike. The monitor allows for as much.

    >>> scores = np.linspace(-3.0, 3.0, 800)
    >>> alike = np.stack([0.0 * scores, scores], axis=1)
    >>> block_tolerance(alike, np.repeat([0, 1], 400), np.arange(800) % 4)
    0.02
    """
    largest = LEAST
    for k in range(log_ratios.shape[1]):
        own = labels == k
        ahead, block = lead_of_class(log_ratios[own], k), blocks[own]
        if len(ahead) < 2 * FEWEST_ROWS:
            continue
        edges = np.quantile(ahead, np.arange(1, N_BINS) / N_BINS)
        numbers = np.searchsorted(edges, ahead)
        whole = (np.bincount(numbers, minlength=N_BINS) + 0.5) / (len(numbers) + 0.5 * N_BINS)
        for one in np.unique(block):
            counts = np.bincount(numbers[block == one], minlength=N_BINS)
            n_rows = int(counts.sum())
            if n_rows < FEWEST_ROWS:
                continue
            seen = counts / n_rows
            divergence = float((seen * np.log(np.where(seen > 0.0, seen, 1.0) / whole)).sum())
            chance = (N_BINS - 1) / (2.0 * n_rows) * (1.0 - n_rows / len(numbers))
            largest = max(largest, divergence - 2.0 * chance)
    return largest


def lead_of_class(log_ratios: FloatArray, k: int) -> FloatArray:
    """Return how far class k is ahead of the next best class in each row (n, K), (n,).

    >>> lead_of_class(np.array([[0.0, 3.0, 1.0]]), 1)
    array([2.])
    """
    lead: FloatArray = log_ratios[:, k] - np.delete(log_ratios, k, axis=1).max(axis=1)
    return lead
