"""Measure the uncertainty of each row's log ratio by MC dropout: many passes with dropout on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from obil.arrays import FloatArray

CHUNK_ROWS = 4_096


def dropout_variance(
    network: nn.Module, inputs: Tensor, *, scores_of: Callable[[FloatArray], FloatArray], n_passes: int = 30
) -> FloatArray:
    """Return the variance of the log ratio over passes with dropout, (n,); its mean over the classes if K > 2.

    `scores_of` turns outputs into scores, (n, K). The network is left as it was.
    """
    variances = [
        _variance(network, inputs[start : start + CHUNK_ROWS], scores_of, n_passes)
        for start in range(0, len(inputs), CHUNK_ROWS)
    ]
    return np.concatenate(variances) if variances else np.empty(0)


def has_dropout(network: nn.Module) -> bool:
    """Return whether passes can differ at all."""
    return any(isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0.0 for layer in network.modules())


def _variance(
    network: nn.Module, inputs: Tensor, scores_of: Callable[[FloatArray], FloatArray], n_passes: int
) -> FloatArray:
    mean = squares = np.zeros(1)
    with torch.inference_mode(), in_eval_mode(network, but_dropout=True):
        for done in range(1, n_passes + 1):  # Welford: one pass over the passes, nothing kept
            scores = scores_of(network(inputs).double().numpy())[:, 1:]
            step = scores - mean
            mean = mean + step / done
            squares = squares + step * (scores - mean)
    variance: FloatArray = (squares / n_passes).mean(axis=1)
    return variance


@contextmanager
def in_eval_mode(network: nn.Module, *, but_dropout: bool = False) -> Iterator[None]:
    """Switch a network to eval mode, dropout excepted or not, and put every layer back as it was."""
    modes = [(layer, layer.training) for layer in network.modules()]
    network.eval()
    for layer, _ in modes:
        if but_dropout and isinstance(layer, nn.modules.dropout._DropoutNd):
            layer.train()
    try:
        yield
    finally:
        for layer, training in modes:
            layer.training = training
