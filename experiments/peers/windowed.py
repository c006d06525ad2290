"""Estimate the prior from the predictions of the last rows, by a projected affine map of their frequencies."""

from typing import NamedTuple

import numpy as np

from experiments.peers.black_box import BlackBoxPeer
from experiments.peers.simplex import SMALLEST_PRIOR, project_to_simplex
from obil.arrays import FloatArray, IntArray
from obil.compiled import compiled
from obil.errors import InvalidStateError


class PredictionWindow(NamedTuple):
    """The estimate, the last predictions, their count by class, and how many rows were seen."""

    prior: FloatArray  # (K,)
    window: IntArray  # (w,)
    counts: IntArray  # (K,)
    seen: IntArray  # (1,)


class WindowedPeer(BlackBoxPeer):
    """The base of peers that see the last `window` predictions; a subclass defines the map, `_map_of_frequencies`."""

    _constant: FloatArray  # (K,)
    _slope: FloatArray  # (K, K)

    def _map_of_frequencies(self, start: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return constant (K,) and slope (K, K): the prior is constant + slope @ frequencies."""
        raise NotImplementedError

    def _lay_out(self, start: FloatArray) -> PredictionWindow:
        self._constant, self._slope = self._map_of_frequencies(start)
        return PredictionWindow(
            prior=start.copy(),
            window=np.zeros(self._settings["window"], dtype=np.int64),
            counts=np.zeros(start.size, dtype=np.int64),
            seen=np.zeros(1, dtype=np.int64),
        )

    def _follow(self, predictions: IntArray, priors: FloatArray) -> None:
        memory: PredictionWindow = self._memory
        _follow_window(predictions, priors, *memory, self._constant, self._slope)

    def _check_memory(self) -> None:
        super()._check_memory()
        memory: PredictionWindow = self._memory
        if (memory.window < 0).any() or (memory.window >= memory.prior.size).any():
            raise InvalidStateError(f"the window of {type(self).__name__} must hold class numbers")


@compiled
def _follow_window(
    predictions: IntArray,
    priors: FloatArray,
    prior: FloatArray,
    window: IntArray,
    counts: IntArray,
    seen: IntArray,
    constant: FloatArray,
    slope: FloatArray,
) -> None:
    n_classes = prior.size
    estimate = np.empty(n_classes)
    for t in range(predictions.size):
        priors[t] = prior
        slot = seen[0] % window.size
        if seen[0] >= window.size:
            counts[window[slot]] -= 1
        window[slot] = predictions[t]
        counts[predictions[t]] += 1
        seen[0] += 1
        filled = min(seen[0], window.size)
        for k in range(n_classes):
            estimate[k] = constant[k]
            for i in range(n_classes):
                estimate[k] += slope[k, i] * counts[i] / filled
        project_to_simplex(estimate, SMALLEST_PRIOR, prior)
