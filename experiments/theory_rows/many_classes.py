"""More than two classes: how regret grows with their number, and what one against the rest estimates."""

import numpy as np

from experiments.growth import exponent
from experiments.paper_formulas import log_ratios_from_posterior, rate_for_horizon
from experiments.theory_rows.row import (
    CORRECTED,
    FAILS,
    HOLDS,
    Figures,
    Measured,
    Row,
    Settings,
    judged,
    named,
)
from obil.arrays import FloatArray
from obil.bayes.posterior import posterior, posteriors_at
from obil.datasets.gaussian_stream import GaussianClasses
from obil.trackers import Algorithm2, BayesBank

SEPARATION = 2.5  # between any two of the classes


def even_classes(n_classes: int) -> GaussianClasses:
    """Return classes all as far from each other, one axis each."""
    return GaussianClasses(np.eye(n_classes) * SEPARATION / np.sqrt(2.0), np.eye(n_classes))


def falling_prior(n_classes: int) -> FloatArray:
    """Return class k + 1 as frequent as 1 / (k + 1).

    >>> falling_prior(2).round(3)
    array([0.667, 0.333])
    """
    fractions = 1.0 / np.arange(1.0, n_classes + 1.0)
    return np.asarray(fractions / fractions.sum())


def regret_of(log_ratios: FloatArray, estimates: FloatArray, truth: FloatArray) -> FloatArray:
    """Return the cumulative regret of deciding the likeliest class, given the rows and not their labels, (n,)."""
    known = posteriors_at(log_ratios, np.tile(truth, (len(log_ratios), 1)))
    decided = np.argmax(posteriors_at(log_ratios, estimates), axis=1)
    return np.asarray(np.cumsum(known.max(axis=1) - known[np.arange(len(known)), decided]))


def measure_many(settings: Settings) -> Measured:
    """Start at equal priors and measure the regret of the bank and of Algorithm 2 for each number of classes."""
    horizons, numbers = settings["many_horizons"], settings["many_classes"]
    figures: Figures = {}
    for n_classes in numbers:
        classes, truth = even_classes(n_classes), falling_prior(n_classes)
        regrets: dict[str, list[FloatArray]] = {"bank": [], "algorithm2": []}
        for seed in range(settings["many_seeds"]):
            rows = classes.draw(np.tile(truth, (horizons[-1], 1)), random_state=seed).log_ratios
            start, at = np.full(n_classes, 1.0 / n_classes), np.array(horizons) - 1
            regrets["bank"].append(regret_of(rows, BayesBank(start).update_many(rows), truth)[at])
            regrets["algorithm2"].append(np.array([
                regret_of(rows[:n], Algorithm2(start, rate=rate_for_horizon(n)).update_many(rows[:n]), truth)[-1]
                for n in horizons
            ]))  # fmt: skip
        for name, values in regrets.items():
            means = np.mean(values, axis=0)
            figures |= {f"{name}.{n_classes}.{n}": float(value) for n, value in zip(horizons, means, strict=True)}
            figures[f"{name}.{n_classes}.growth"] = exponent(horizons, means)
            bound = n_classes * np.sqrt(horizons[-1] * np.log(horizons[-1]))
            figures[f"{name}.{n_classes}.over_bound"] = float(means[-1] / bound)
    for name in ("bank", "algorithm2"):
        last = [figures[f"{name}.{n_classes}.{horizons[-1]}"] for n_classes in numbers]
        figures[f"{name}.in_classes"] = exponent(numbers, last)
        figures[f"{name}.in_free_shares"] = exponent([n_classes - 1 for n_classes in numbers], last)
        figures[f"{name}.largest_growth"] = max(figures[f"{name}.{n_classes}.growth"] for n_classes in numbers)
    return Measured(figures, {})


def _many_measured(figures: Figures, settings: Settings) -> str:
    numbers, last = settings["many_classes"], settings["many_horizons"][-1]

    def row(name: str) -> str:
        return ", ".join(f"{figures[f'{name}.{n_classes}.{last}']:.1f}" for n_classes in numbers)

    return (
        f"K = {named(numbers)} classes {SEPARATION:g} apart, T = {last:,}, exact ratios: bank {row('bank')} (grows "
        f"as K^{figures['bank.in_classes']:.2f} or (K-1)^{figures['bank.in_free_shares']:.2f}, at most "
        f"T^{figures['bank.largest_growth']:.2f}, {figures[f'bank.{numbers[-1]}.over_bound']:.4f} of K sqrt(T log T) "
        f"at K = {numbers[-1]}); Algorithm 2 {row('algorithm2')} (T^{figures['algorithm2.largest_growth']:.2f})"
    )


def _many_verdict(figures: Figures) -> str:
    if figures["algorithm2.largest_growth"] < 0.6:
        return judged(HOLDS, "Algorithm 2's regret grows no faster than that")
    if figures["bank.largest_growth"] < 0.6 and figures["bank.in_free_shares"] < 1.3:
        return judged(
            FAILS,
            "for Algorithm 2, whose regret is linear in T; the bank is far below the bound, and pays about as much "
            "for every class more",
        )
    return judged(FAILS, "neither tracker keeps it")


def measure_one_against_rest(_: Settings) -> Measured:
    """Ask how far the ratio of a class to the rest moves with the prior, and the rebased joint posterior."""
    classes = GaussianClasses(np.array([[0.0], [2.0], [4.0]]), np.eye(1))
    rows = np.linspace(-1.0, 5.0, 61)[:, None]
    truth = classes.log_ratios(rows)
    priors = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    against_rest, rebased = [], []
    for prior in priors:
        joint = posterior(truth, prior)
        odds = joint[:, 1] / (1.0 - joint[:, 1]) * (1.0 - prior[1]) / prior[1]
        against_rest.append(np.log(odds))
        rebased.append(np.abs(log_ratios_from_posterior(joint, prior) - truth).max())
    # each class against the rest at its own training prior, and the posteriors put side by side
    side_by_side = np.stack([_balanced_against_rest(truth, priors[0], k) for k in range(3)], axis=1)
    naive = np.log(side_by_side[:, 1:] / side_by_side[:, :1])
    return Measured(
        {
            "rest.largest_move": float(np.abs(against_rest[0] - against_rest[1]).max()),
            "rebased.largest_error": float(max(rebased)),
            "side_by_side.largest_error": float(np.abs(naive - truth[:, 1:]).max()),
        },
        {},
    )


def _balanced_against_rest(log_ratios: FloatArray, prior: FloatArray, k: int) -> FloatArray:
    """Return the posterior of class k on a problem where it is half of the rows and the rest the other half."""
    weights = prior / (2.0 * (1.0 - prior[k]))
    weights[k] = 0.5
    return posterior(log_ratios, weights)[:, k]


def _rest_verdict(figures: Figures) -> str:
    if figures["rest.largest_move"] < 0.01:
        return judged(HOLDS, "the ratio to the rest does not depend on the prior")
    if figures["rebased.largest_error"] < 1e-6:
        return judged(
            CORRECTED,
            "only the ratios to one reference class are invariant: class against rest is not, because the rest is a "
            "mixture weighted by the prior. Joint posteriors at one prior give them back; problems balanced one "
            "by one do not",
        )
    return judged(FAILS, "the pairwise ratios cannot be had back")


ROWS = (
    Row(
        name="many classes, regret",
        covers=("subsec:multiclass, regret",),
        claim="For K classes regret is O(K sqrt(T log T))",
        measure=measure_many,
        measured=_many_measured,
        verdict=_many_verdict,
        shown_by=("trackers/test_bayes_bank.py::test_finds_the_prior_of_three_classes",),
    ),
    Row(
        name="one against the rest",
        covers=("subsec:multiclass, one against the rest",),
        claim=(
            "Pairwise ratios inherit prior invariance; they follow from K classifiers of one class against the "
            "rest, or from a softmax"
        ),
        measure=measure_one_against_rest,
        measured=lambda f, _: (
            f"three classes, two priors: log p(x|1)/p(x|rest) moves by up to {f['rest.largest_move']:.2f}; ratios of "
            f"the joint posterior are off by {f['rebased.largest_error']:.0e}; those of three classifiers each "
            f"balanced against its rest, side by side, by up to {f['side_by_side.largest_error']:.2f}"
        ),
        verdict=_rest_verdict,
        shown_by=("test_errata.py::test_one_against_the_rest_is_not_invariant_but_its_joint_posterior_is",),
    ),
)
