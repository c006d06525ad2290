"""Find the threshold that is best for F1 on labelled rows."""

import numpy as np

from obil.arrays import FloatArray, IntArray


def best_threshold(probabilities: FloatArray, labels: IntArray) -> float:
    """Return the threshold with the best F1, in the middle of the gap it lies in.

    >>> best_threshold(np.array([0.125, 0.25, 0.5, 0.75]), np.array([0, 0, 1, 1]))
    0.375
    """
    values = np.unique(probabilities)
    middles = np.concatenate([[0.0], (values[1:] + values[:-1]) / 2.0])
    order = np.sort(probabilities)
    positives = np.sort(probabilities[labels == 1])
    alerts = len(order) - np.searchsorted(order, middles, side="right")
    hits = len(positives) - np.searchsorted(positives, middles, side="right")
    return float(middles[np.argmax(2.0 * hits / (alerts + len(positives)))])
