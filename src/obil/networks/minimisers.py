"""Find the output of least expected loss by search, and name it where its closed form is known."""

import contextlib
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import logit

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.networks.losses import CategoricalLoss

Values: TypeAlias = Callable[[FloatArray, float], FloatArray]  # outputs (n,) and one target -> losses (n,)

MATCH = 1e-3  # how near a minimiser found by values alone has to be to a closed form
FLAT = "none: the expected loss has no single lowest point"
UNKNOWN = "no closed form known"


def minimisers(values: Values, probabilities: FloatArray) -> FloatArray:
    """Return the output in [-1, 1] of least expected loss at each probability; NaN where it is flat.

    >>> minimisers(lambda o, t: (t - o) ** 2, np.array([0.5])).round(6) + 0.0
    array([0.])
    """
    grid = np.concatenate([[-1.0], np.tanh(np.linspace(-9.0, 9.0, 2_001)), [1.0]])
    coarse = {t: _on_closed_interval(values, grid, t) for t in (-1.0, 1.0)}
    found = []
    for probability in probabilities.tolist():
        risk = _expected(probability, coarse[1.0], coarse[-1.0])
        best = int(np.argmin(risk))
        if not np.isfinite(risk[best]) or np.ptp(grid[_is_lowest(risk)]) > 0.01:
            found.append(np.nan)
            continue
        nearby = grid
        for _ in range(4):
            nearby = np.linspace(nearby[max(best - 1, 0)], nearby[min(best + 1, len(nearby) - 1)], 101)
            finer = {t: _on_closed_interval(values, nearby, t) for t in (-1.0, 1.0)}
            best = int(np.argmin(_expected(probability, finer[1.0], finer[-1.0])))
        found.append(float(nearby[best]))
    return np.array(found)


def _on_closed_interval(values: Values, outputs: FloatArray, t: float) -> FloatArray:
    """Return losses on [-1, 1]; a loss need not be defined at the edges."""
    inside = np.abs(outputs) < 1.0
    losses = np.full(outputs.shape, np.nan)
    losses[inside] = values(outputs[inside], t)
    if not inside.all():
        with contextlib.suppress(InvalidInputError):
            losses[~inside] = values(outputs[~inside], t)
    return losses


def _expected(probability: float, positive: FloatArray, negative: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore"):
        risk = probability * positive + (1.0 - probability) * negative
    return np.where(np.isnan(risk), np.inf, risk)


def _is_lowest(risk: FloatArray) -> npt.NDArray[np.bool_]:
    """Mark the points that are as low as the lowest, but for rounding."""
    lowest, finite = risk.min(), risk[np.isfinite(risk)]
    return np.asarray(risk <= lowest + 1e-12 * np.ptp(finite) + 1e-15 * abs(lowest))


def closed_form(probabilities: FloatArray, found: FloatArray) -> str:
    """Name the function of P that the minimisers are, if it is a known one.

    >>> closed_form(np.array([0.1, 0.9]), np.array([-0.8, 0.8]))
    '2P-1'
    """
    off_half = np.abs(probabilities - 0.5) > 1e-9
    if np.isnan(found).all():
        return FLAT
    if np.isfinite(found[off_half]).all():
        log_odds, expected = logit(probabilities), 2.0 * probabilities - 1.0
        known = {
            "2P-1": expected,
            "tanh(logit P)": np.tanh(log_odds),
            "artanh(2P-1), clipped to [-1, 1]": np.clip(np.arctanh(expected), -1.0, 1.0),
        }
        for name, wanted in known.items():
            if np.isfinite(found).all() and np.abs(found - wanted).max() < MATCH:
                return name
        if np.abs(found - np.sign(expected))[off_half].max() < MATCH:
            return "sign(2P-1)"
        if np.isfinite(found).all() and np.ptp(found) < MATCH:
            return f"{round(float(found[0]), 4) + 0.0:g}, whatever P is"
        if np.nanmax(np.abs(found)) < 1.0:
            factor = float(np.median(np.arctanh(found[off_half]) / log_odds[off_half]))
            if np.abs(found - np.tanh(factor * log_odds))[off_half].max() < MATCH:
                return f"tanh({factor:.4g} logit P)"
    return UNKNOWN


def losses_of_logits(loss: CategoricalLoss, logits: torch.Tensor, labels: torch.Tensor) -> FloatArray:
    """Return a categorical loss as an array, one per row, or say what is wrong with it."""
    try:
        values = np.asarray(loss.of_logits(logits, labels).detach().numpy(), dtype=np.float64)
    except Exception as error:
        raise InvalidInputError(f"{loss.name} raised {error!r} for logits {tuple(logits.shape)}") from error
    if values.shape != labels.shape:
        raise InvalidInputError(f"{loss.name} must return one loss per row, {tuple(labels.shape)}, got {values.shape}")
    return values


def simplex_minimiser(loss: CategoricalLoss, p: FloatArray) -> FloatArray:
    """Return the point of the simplex of least expected loss, by ever finer grids; NaN where it is flat."""
    steps = np.stack(np.meshgrid(*[np.linspace(-1.0, 1.0, 41)] * 2), axis=-1).reshape(-1, 2)
    centre, width = np.full(2, 0.5), 0.5
    for level in range(14):
        points = centre + width * steps
        points = points[(points >= 0.0).all(axis=1) & (points.sum(axis=1) <= 1.0)]
        points = np.column_stack([points, 1.0 - points.sum(axis=1)])
        logits = torch.tensor(np.log(np.maximum(points, 1e-12)))
        losses = [losses_of_logits(loss, logits, torch.full((len(points),), k)) for k in range(3)]
        with np.errstate(invalid="ignore"):
            risk = p @ np.stack(losses)
        risk = np.where(np.isnan(risk), np.inf, risk)
        best = int(np.argmin(risk))
        if not np.isfinite(risk[best]) or (level == 0 and np.ptp(points[_is_lowest(risk)], axis=0).max() > 0.1):
            return np.full(3, np.nan)
        centre, width = points[best, :2], 0.4 * width
    return np.asarray(points[best], dtype=np.float64)
