"""Turn a network's outputs into raw scores: the head's posterior with the training prior divided out."""

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, as_floats
from obil.errors import InvalidInputError

HEADS = ("tanh", "softmax", "one_vs_rest")


def scores_of_outputs(outputs: npt.ArrayLike, *, head: str, training_prior: npt.ArrayLike) -> FloatArray:
    """Return raw scores relative to class 0, (n, K), of a network's pre-activations z.

    `tanh`, z (n,) or (n, 1): o = tanh z and the posterior of class 1 is (1 + o)/2, so its log odds are 2z.
    `softmax`, z (n, K): logits. `one_vs_rest`, z (n, K): each unit gives P_k = (1 + tanh z_k)/2, and the joint
    posterior is P_k / sum P. `training_prior` (K,) is the class prior it was trained at, costs included.

    >>> scores_of_outputs([0.5, -1.0], head="tanh", training_prior=[0.5, 0.5])
    array([[ 0.,  1.],
           [ 0., -2.]])
    """
    prior = as_training_prior(training_prior, head=head)
    values = as_floats(outputs, "outputs")
    columns = values[:, None] if values.ndim == 1 and head == "tanh" else values
    width = 1 if head == "tanh" else prior.size
    if columns.ndim != 2 or columns.shape[1] != width:
        raise InvalidInputError(f"outputs of a {head} head must have shape (n, {width}), got {values.shape}")
    if not np.isfinite(columns).all():
        row = int(np.argmin(np.isfinite(columns).all(axis=1)))
        raise InvalidInputError(f"outputs must be finite, got {columns[row].tolist()} in row {row}")
    with np.errstate(over="ignore"):  # an output near the end of float64 is refused below
        if head == "tanh":
            log_posterior = np.concatenate([np.zeros_like(columns), 2.0 * columns], axis=1)
        elif head == "softmax":
            log_posterior = columns
        else:
            log_posterior = -np.logaddexp(0.0, -2.0 * columns)
        relative: FloatArray = log_posterior - log_posterior[:, :1] - (np.log(prior) - np.log(prior[0]))
    if not np.isfinite(relative).all():
        raise InvalidInputError(f"outputs must be of a size that log ratios have, got {np.abs(columns).max():g}")
    return relative


def as_training_prior(training_prior: npt.ArrayLike, *, head: str) -> FloatArray:
    """Return the class prior a head was trained at, (K,), positive; K is 2 for a tanh head."""
    if head not in HEADS:
        raise InvalidInputError(f"head must be one of {', '.join(HEADS)}, got {head!r:.40}")
    prior = as_floats(training_prior, "training_prior")
    if prior.ndim != 1 or prior.size < 2 or (head == "tanh" and prior.size != 2):
        wanted = "2" if head == "tanh" else "at least 2"
        raise InvalidInputError(f"training_prior of a {head} head must hold {wanted} classes, got shape {prior.shape}")
    if not (np.isfinite(prior) & (prior > 0.0)).all():
        raise InvalidInputError(f"training_prior must be positive for every class, got {prior.tolist()}")
    return prior.copy()
