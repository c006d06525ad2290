"""Simulate what a perfectly calibrated model of the same size would show by chance."""

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from obil.arrays import FloatArray, IntArray
from obil.calibration.reliability import N_BINS, bin_numbers
from obil.serving.holdout import Holdout

N_ATOMS = 400
MOST_STEPS = 25
CHUNK = 4_000_000  # numbers held at a time


@dataclass(frozen=True, slots=True, eq=False)
class Chance:
    """Figures of calibrated held-out sets with as many rows of each class, one entry a simulation."""

    shifts: FloatArray  # (B, K), the first column is 0
    slopes: FloatArray  # (B,)
    balanced_ece: FloatArray  # (B,)


def simulate_chance(
    holdout: Holdout,
    *,
    n_simulations: int = 200,
    n_bins: int = N_BINS,
    random_state: int | np.random.Generator = 0,
) -> Chance:
    """Redraw the held-out rows as if their log ratios were exact, and fit and measure each copy.

    The pooled rows are first shifted so that their mean posterior is the held-out prior; drawing class k's rows
    with weights proportional to the posterior of k then gives classes whose ratio *is* the log ratio of each row.
    The number of rows of each class (its effective number, where rows have weights) stays what it was.
    """
    rng = np.random.default_rng(random_state)
    atoms, masses = _atoms(holdout)
    n_classes = holdout.n_classes
    sizes = np.maximum(np.rint(effective_counts(holdout)), 1.0).astype(np.int64)
    scale = holdout.prior * sizes.sum() / sizes  # what one row of a class weighs in the fit
    shifts, slopes, errors = [], [], []
    per_chunk = max(CHUNK // (atoms.shape[0] * n_classes), 1)
    for start in range(0, n_simulations, per_chunk):
        copies = min(per_chunk, n_simulations - start)
        counts = np.stack([rng.multinomial(sizes[k], masses[:, k], size=copies) for k in range(n_classes)], axis=0)
        weighted = counts * scale[:, None, None]
        shifts.append(_fit_copies(atoms, weighted, slope_is_free=False)[:, 1:])
        slopes.append(_fit_copies(atoms, weighted, slope_is_free=True)[:, 0])
        errors.append(_balanced_ece(atoms, counts, sizes, n_bins))
    all_shifts = np.concatenate(shifts)
    return Chance(
        shifts=np.concatenate([np.zeros((len(all_shifts), 1)), all_shifts], axis=1),
        slopes=np.concatenate(slopes),
        balanced_ece=np.concatenate(errors),
    )


def _atoms(holdout: Holdout) -> tuple[FloatArray, FloatArray]:
    """Return log ratios (M, K) and, for each class, their probabilities (M, K), in exactly those ratios."""
    rows, pooled = holdout.log_ratios, holdout.weights / holdout.weights.sum()
    if len(rows) > N_ATOMS:
        # every class in equal parts, so that the rare one is as finely resolved as the common one
        masses = pooled[:, None] * softmax(rows + np.log(holdout.prior), axis=1)
        resolution = (masses / masses.sum(axis=0)).mean(axis=1)
        order = np.lexsort(rows.T[::-1])
        steps = np.cumsum(resolution[order])
        points = (np.arange(N_ATOMS) + 0.5) / N_ATOMS * steps[-1]
        chosen = order[np.minimum(np.searchsorted(steps, points), len(rows) - 1)]
        kept = pooled[chosen] / np.maximum(resolution[chosen], 1e-300)
        rows, pooled = rows[chosen], kept / kept.sum()
    return _centred(rows, pooled, holdout.prior)


def _centred(rows: FloatArray, pooled: FloatArray, prior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Shift the log ratios until their posteriors at `prior` average to it; return them with the class masses."""
    moved = rows
    for _ in range(200):
        masses = pooled[:, None] * softmax(moved + np.log(prior), axis=1)
        excess = np.log(masses.sum(axis=0) / prior)
        # the ratio of the normalised masses is that of the log ratios moved by the excess: exact at any step
        moved = moved - (excess - excess[0])
        if float(np.abs(excess).max()) < 1e-4:
            break
    return moved, masses / masses.sum(axis=0)


def _fit_copies(atoms: FloatArray, counts: FloatArray, *, slope_is_free: bool) -> FloatArray:
    """Return (slope, K-1 offsets) of every copy, (B, K), by Newton's steps on all of them at once.

    `counts` (K, B, M) are the weighted rows of each class at each atom.
    """
    n_classes, copies, n_atoms = counts.shape
    classes = range(n_classes)
    totals = counts.sum(axis=0)  # (B, M)
    by_class = counts.sum(axis=2)  # (K, B)
    log_prior = np.log(by_class / by_class.sum(axis=0))
    # what each parameter does to class k's logit at each atom: the slope moves it by the log ratio, an offset by 1
    design = np.zeros((n_classes, n_classes, n_atoms))  # (class, parameter, atom)
    by_atom = np.ascontiguousarray(atoms.T)  # (K, M)
    design[:, 0] = by_atom
    design[classes[1:], classes[1:]] = 1.0
    precision = np.full(n_classes, 1e-6)
    precision[0] = 1e-4 if slope_is_free else 1e12
    ideal = np.zeros(n_classes)
    ideal[0] = 1.0
    theta = np.tile(ideal, (copies, 1))
    seen = np.einsum("kbm,kpm->bp", counts, design, optimize=True)
    active = np.arange(copies)
    for _ in range(MOST_STEPS):
        logits = theta[active, 0, None] * by_atom[:, None, :] + log_prior[:, active, None]  # (K, b, M)
        logits[1:] += theta[active, 1:].T[:, :, None]
        expected = np.exp(logits - logits.max(axis=0))
        expected *= totals[active] / expected.sum(axis=0)
        means = [sum(expected[k] * design[k, p] for k in classes[1:]) for p in classes]  # (b, M) each
        within = 1.0 / np.maximum(totals[active], 1e-300)
        hessian = np.empty((len(active), n_classes, n_classes))
        for p in classes:
            for q in classes[: p + 1]:
                curvature = sum(expected[k] @ (design[k, p] * design[k, q]) for k in classes[1:])
                hessian[:, p, q] = curvature - np.einsum("bm,bm,bm->b", means[p], means[q], within)
                hessian[:, q, p] = hessian[:, p, q]
        hessian += np.diag(precision)
        gradient = seen[active] - np.stack([mean.sum(axis=1) for mean in means], axis=1)
        gradient -= precision * (theta[active] - ideal)
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        size = np.abs(step).max(axis=1)
        theta[active] += step / np.maximum(size, 1.0)[:, None]  # classes that do not overlap would run away
        active = active[size > 1e-3]
        if not active.size:
            break
    return theta


def _balanced_ece(atoms: FloatArray, counts: IntArray, sizes: IntArray, n_bins: int) -> FloatArray:
    """Return the class-balanced, classwise calibration error of every copy, (B,)."""
    posteriors = softmax(atoms, axis=1)  # at equal priors
    n_classes = atoms.shape[1]
    weights = counts / (sizes * n_classes)[:, None, None]  # (K, B, M)
    mass = weights.sum(axis=0)
    total = np.zeros(counts.shape[1])
    for k in range(n_classes):
        in_bin = np.eye(n_bins)[bin_numbers(posteriors[:, k], mass[0], n_bins=n_bins)]  # (M, bins)
        gaps = (mass * posteriors[:, k] - weights[k]) @ in_bin
        total += np.abs(gaps).sum(axis=1) / n_classes
    return total


def effective_counts(holdout: Holdout) -> FloatArray:
    """Return how many equally weighted rows of each class would say as much (Kish), (K,).

    >>> effective_counts(Holdout.of([[0.0, -1.0], [0.0, 1.0], [0.0, 2.0]], [0, 1, 1]))
    array([1., 2.])
    """
    totals = np.bincount(holdout.labels, weights=holdout.weights, minlength=holdout.n_classes)
    squares = np.bincount(holdout.labels, weights=holdout.weights**2, minlength=holdout.n_classes)
    return np.asarray(totals**2 / squares)
