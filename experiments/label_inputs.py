"""Choose the inputs of a recalibration: leading features, segments, or the season of a row."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import expit

from obil.arrays import FloatArray, IntArray
from obil.datasets.named_set import NamedSet
from obil.trackers.label_experts import OFFSET_SD, SLOPE_SD

MOST_CATEGORIES, SEGMENTS = 10, 5  # of one feature; of a numeric one without categories
FARTHEST = 3.0  # standard deviations
HARMONICS = 2


def encoded(values: FloatArray, training: FloatArray, *, categorical: bool) -> FloatArray:
    """Return a feature (n,) as inputs (n, d) by its training values: standardised, or one for each frequent category.

    >>> encoded(np.array([1.0, np.nan, 3.0]), np.array([0.0, 1.0, 2.0]), categorical=False).ravel().round(2).tolist()
    [0.0, 0.0, 2.45]
    >>> encoded(np.array([7.0, 5.0]), np.array([5.0, 5.0, 5.0, 7.0]), categorical=True).tolist()
    [[-0.75, 0.75], [0.25, -0.25]]
    """
    if categorical:
        codes, counts = np.unique(training[np.isfinite(training)], return_counts=True)
        frequent = codes[np.argsort(-counts, kind="stable")[:MOST_CATEGORIES]]
        one_hot: FloatArray = (values[:, None] == frequent) - (training[:, None] == frequent).mean(axis=0)
        return one_hot
    standardised = np.nan_to_num((values - np.nanmedian(training)) / (np.nanstd(training) or 1.0))
    return np.asarray(np.clip(standardised, -FARTHEST, FARTHEST)[:, None])


def segments(values: FloatArray, training: FloatArray) -> FloatArray:
    """Return which fifth of the training values each value (n,) is in, as a category (n,)."""
    edges = np.unique(np.nanquantile(training, np.arange(1, SEGMENTS) / SEGMENTS))
    return np.where(np.isnan(values), -1.0, 1.0 * np.searchsorted(edges, values, side="right"))


def season(data: NamedSet, periods: Sequence[Sequence[str | float]]) -> FloatArray:
    """Return sines and cosines of where all rows of a set stand in each period (name of the time, length), (n, d)."""
    waves = []
    for name, length in periods:
        if name == "row":
            time = np.arange(0.0, len(data.labels))
        elif name == "weekday":
            time = pd.to_datetime(pd.Series(data.time), utc=True).dt.dayofweek.to_numpy(dtype=np.float64)
        else:
            time = data.features[name].to_numpy(dtype=np.float64)
        angles = 2.0 * np.pi * time / float(length)
        waves += [wave(k * angles) for k in range(1, HARMONICS + 1) for wave in (np.sin, np.cos)]
    found = np.column_stack(waves)
    return np.asarray(found[:, found.std(axis=0) > 1e-6])


def leading(blocks: Sequence[FloatArray], base: FloatArray, labels: IntArray, n_leading: int) -> list[int]:
    """Return which blocks of inputs lead: those whose effect on the labels changed most between the two halves of rows.

    The recalibration of the earlier half, the block included, is fitted again on the later half: what the block gains
    there in log likelihood beyond slope and offset, less one for each of its inputs.
    """
    half, chosen = len(labels) // 2, list[int]()
    early, late = slice(0, half), slice(half, None)
    for _ in range(min(n_leading, len(blocks))):
        gains = {}
        for i in set(range(len(blocks))) - set(chosen):
            inputs = np.column_stack([blocks[j] for j in [*chosen, i]])
            moved = recalibrated(base, inputs, fitted(base[early], inputs[early], labels[early]))[late]
            with_block = fitted(moved, inputs[late], labels[late])
            before = inputs[late][:, : inputs.shape[1] - blocks[i].shape[1]]
            without = fitted(moved, before, labels[late])
            gain = log_loss(recalibrated(moved, before, without), labels[late])
            gain -= log_loss(recalibrated(moved, inputs[late], with_block), labels[late])
            gains[i] = gain * len(moved) - blocks[i].shape[1]
        chosen.append(max(sorted(gains), key=gains.__getitem__))
    return chosen


def fitted(base: FloatArray, inputs: FloatArray, labels: IntArray, *, input_sd: float = 0.3) -> FloatArray:
    """Return slope, offset and coefficients (2 + d,) of the logistic recalibration with the largest posterior."""
    x = np.column_stack([base, np.ones(len(base)), inputs])
    start = np.array([1.0, *[0.0] * (x.shape[1] - 1)])
    precision = np.array([1.0 / SLOPE_SD**2, 1.0 / OFFSET_SD**2, *[1.0 / input_sd**2] * inputs.shape[1]])

    def loss(at: FloatArray) -> float:
        return log_loss(x @ at, labels) * len(labels) + 0.5 * float(precision @ (at - start) ** 2)

    theta, least = start, loss(start)
    for _ in range(30):
        p = expit(x @ theta)
        gradient = x.T @ (labels - p) - precision * (theta - start)
        step = np.linalg.solve((x.T * (p * (1.0 - p))) @ x + np.diag(precision), gradient)
        while (found := loss(theta + step)) > least and np.abs(step).max() >= 1e-6:
            step /= 2.0  # a full step may go too far where most rows are certain
        if np.abs(step).max() < 1e-6:
            break
        theta, least = theta + step, found
    return theta


def recalibrated(base: FloatArray, inputs: FloatArray, theta: FloatArray) -> FloatArray:
    """Return the logits with slope, offset and coefficients, (n,)."""
    logits: FloatArray = theta[0] * base + theta[1] + inputs @ theta[2:]
    return logits


def log_loss(logits: FloatArray, labels: IntArray) -> float:
    """Return the mean log loss."""
    return float(np.logaddexp(0.0, np.where(labels == 1, -logits, logits)).mean())
