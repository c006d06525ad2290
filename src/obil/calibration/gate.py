"""Judge whether held-out log ratios are calibrated well enough to deploy, and say why."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from obil.arrays import FloatArray, require_in, require_positive
from obil.bayes.posterior import posterior
from obil.calibration.chance import Chance, effective_counts, simulate_chance
from obil.calibration.diagnose import Diagnosis, diagnose
from obil.calibration.recalibration import Recalibration
from obil.calibration.verdict import Figure, Verdict
from obil.serving.holdout import Holdout

FALLBACK = "the paper's fallback is batch BBSE, or logit adjustment with periodic re-estimation of the prior"
HARMLESS = 0.2  # of the allowed calibration error: a fault that changes posteriors by less need not be ruled out


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Deploy, warn, refuse or say that the rows are too few to tell; a model is judged and never changed.

    A figure counts against a model only where it exceeds both what is allowed and what a perfectly calibrated
    model of the same size shows by chance (simulated). A model that nothing counts against is deployed only if
    the rows also *rule out* an offset and a slope bad enough to refuse: absence of evidence is "too few".

    Parameters
    ----------
    max_offset
        Largest shift of a log ratio, fitted with the slope held at 1; for K > 2 between any two classes.
    max_slope_error
        Largest distance from 1 of the recalibration slope.
    max_balanced_ece
        Largest calibration error at equal priors, mean over the classes.
    refuse_factor
        From warning to refusal: a figure beyond this many times what is allowed is refused.
    fallback_ece
        Balanced calibration error above which the verdict names what to use instead.
    min_positives
        With fewer rows of any class nothing is deployed; a fault that shows all the same is still named.
    alpha
        Probability that chance alone counts against a calibrated model, shared by the three figures.
    miss_offset, miss_slope
        Probability that a model exactly at the refusal level looks good enough to deploy. A bias moves every
        tracked prior and is ruled out all but surely; a slope far from 1 is rare once scores are calibrated.
    n_simulations, random_state
        Of chance; the same rows and seed give the same verdict.

    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1], 500)
    >>> log_ratios = np.stack([np.zeros(1000), 2.0 * (rng.standard_normal(1000) + 2.0 * labels) - 2.0], axis=1)
    >>> Gate().judge(Holdout.of(log_ratios, labels)).decision
    'deploy'
    >>> Gate().judge(Holdout.of(log_ratios + [0.0, 2.0], labels)).decision
    'refuse'
    """

    max_offset: float = 0.35
    max_slope_error: float = 0.25
    max_balanced_ece: float = 0.05
    refuse_factor: float = 2.0
    fallback_ece: float = 0.15
    min_positives: int = 20
    alpha: float = 0.05
    miss_offset: float = 0.0002
    miss_slope: float = 0.05
    n_simulations: int = 200
    random_state: int = 0

    def __post_init__(self) -> None:
        for name in ("max_offset", "max_slope_error", "max_balanced_ece", "fallback_ece"):
            require_positive(name, getattr(self, name))
        require_in("refuse_factor", self.refuse_factor, 1.0, 1e6)
        require_in("min_positives", self.min_positives, 1, np.inf)
        require_in("n_simulations", self.n_simulations, 20, 1e6)
        for name in ("alpha", "miss_offset", "miss_slope"):
            require_in(name, getattr(self, name), 1e-9, 0.5)

    def judge(self, held_out: Diagnosis | Holdout) -> Verdict:
        """Return the verdict on held-out rows, or on their diagnosis where there is one already."""
        diagnosis = diagnose(held_out) if isinstance(held_out, Holdout) else held_out
        chance = simulate_chance(
            diagnosis.holdout,
            n_simulations=self.n_simulations,
            n_bins=diagnosis.n_bins,
            random_state=self.random_state,
        )
        figures = self._figures(diagnosis, chance)
        fewest = float(effective_counts(diagnosis.holdout).min())
        enough = fewest >= self.min_positives
        faults = tuple(_faults(figures, diagnosis))
        balanced_ece = figures["balanced_ece"]
        fallback = (FALLBACK,) if balanced_ece.counts and balanced_ece.value > self.fallback_ece else ()
        inseparable = _inseparable(diagnosis)
        if inseparable and enough:
            return Verdict("refuse", f"Refuse: {inseparable}.", (inseparable, *faults, *fallback), figures)
        if any(figure.refuses for figure in figures.values()):
            return Verdict("refuse", f"Refuse: {'; '.join([faults[0], *fallback])}.", (*faults, *fallback), figures)
        if faults:
            return Verdict("warn", f"Warn: {'; '.join([faults[0], *fallback])}.", (*faults, *fallback), figures)
        doubts = tuple(self._doubts(diagnosis, chance, fewest, inseparable))
        if doubts:
            return Verdict("too few", f"Too few rows to tell: {doubts[0]}.", doubts, figures)
        strengths = _strengths(figures, diagnosis.recalibration)
        return Verdict("deploy", f"Deploy: {strengths}.", (strengths,), figures)

    def _figures(self, diagnosis: Diagnosis, chance: Chance) -> dict[str, Figure]:
        below = 1.0 - self.alpha / 3.0
        shifts = np.array([0.0, *(shift.value for shift in diagnosis.recalibration.shifts)])
        values = {
            # between any two classes, so that it does not matter which of them is class 0
            "offset": (float(np.ptp(shifts)), self.max_offset, np.ptp(chance.shifts, axis=1)),
            "slope_error": (
                abs(diagnosis.recalibration.slope.value - 1.0),
                self.max_slope_error,
                np.abs(chance.slopes - 1.0),
            ),
            "balanced_ece": (diagnosis.balanced_ece, self.max_balanced_ece, chance.balanced_ece),
        }
        return {
            name: Figure(
                value=value,
                allowed=allowed,
                refused=self.refuse_factor * allowed,
                chance=float(np.quantile(simulated, below, method="higher")),
            )
            for name, (value, allowed, simulated) in values.items()
        }

    def _doubts(self, diagnosis: Diagnosis, chance: Chance, fewest: float, inseparable: str) -> Iterator[str]:
        """Say what the rows are too few to rule out."""
        holdout, recalibration = diagnosis.holdout, diagnosis.recalibration
        if fewest < self.min_positives:
            yield f"the rarest class has {fewest:.0f} rows and {self.min_positives} are asked for"
        if inseparable:
            yield inseparable
        harmless = HARMLESS * self.max_balanced_ece
        worst_offset = self.refuse_factor * self.max_offset
        if _effect_of_shift(holdout, worst_offset) > harmless:
            yield from self._offsets_not_ruled_out(diagnosis, chance, worst_offset)
        worst_slope = self.refuse_factor * self.max_slope_error
        error = abs(recalibration.slope.value - 1.0)
        simulated_slope = float(_sd(chance.slopes))
        reach_slope = -float(ndtri(self.miss_slope)) * max(simulated_slope, recalibration.slope.standard_error)
        if error + reach_slope > worst_slope and _effect_of_slope(holdout, 1.0 + worst_slope) > harmless:
            yield (
                f"a slope off by {worst_slope:.2f} is not ruled out, it is "
                f"{recalibration.slope.value:.2f} ± {reach_slope:.2f}"
            )

    def _offsets_not_ruled_out(self, diagnosis: Diagnosis, chance: Chance, worst: float) -> Iterator[str]:
        """Say where the truth could be as far out as `worst` between two classes."""
        estimates = diagnosis.recalibration.shifts
        shifts = np.array([0.0, *(shift.value for shift in estimates)])
        errors = np.array([0.0, *(shift.standard_error for shift in estimates)])
        simulated = _sd(chance.shifts[:, :, None] - chance.shifts[:, None, :])  # (K, K)
        error = np.maximum(simulated, np.maximum(errors[:, None], errors))
        # Student's quantile: rows that happen to look calibrated also make their own error look small
        freedom = np.maximum(effective_counts(diagnosis.holdout) - 1.0, 1.0)
        reach = -stdtrit(np.minimum(freedom[:, None], freedom), self.miss_offset) * error
        np.fill_diagonal(reach, 0.0)
        furthest = np.abs(shifts[:, None] - shifts) + reach
        if furthest.max() > worst:
            k, j = np.unravel_index(int(np.argmax(furthest)), furthest.shape)
            yield (
                f"an offset of {worst:.2f} in the log ratio is not ruled out, it is "
                f"{abs(shifts[k] - shifts[j]):.2f} ± {reach[k, j]:.2f}"
            )


def _faults(figures: dict[str, Figure], diagnosis: Diagnosis) -> Iterator[str]:
    """Say what counts against the model, refusals first."""
    said = {
        "offset": _offset_text(diagnosis),
        "slope_error": f"the recalibration slope is {diagnosis.recalibration.slope.value:.2f} instead of 1",
        "balanced_ece": "the calibration error at equal priors is {value:.3f}",
    }
    order = sorted((name for name in figures if figures[name].counts), key=lambda name: not figures[name].refuses)
    for name in order:
        figure = figures[name]
        text = said[name].format(value=figure.value)
        yield f"{text} (allowed {figure.allowed:.2f}, by chance up to {figure.chance:.2f})"


def _offset_text(diagnosis: Diagnosis) -> str:
    shifts = [shift.value for shift in diagnosis.recalibration.shifts]
    if len(shifts) == 1:
        return f"the log ratios are {abs(shifts[0]):.2f} too {'high' if shifts[0] < 0.0 else 'low'}"
    return f"the log ratios of two classes are {np.ptp([0.0, *shifts]):.2f} out against each other"


def _strengths(figures: dict[str, Figure], found: Recalibration) -> str:
    offset, slope, ece = (figures[name].value for name in ("offset", "slope_error", "balanced_ece"))
    measured = f"offset {offset:.2f}, slope off by {slope:.2f}, calibration error {ece:.3f} at equal priors"
    excluded = "; ".join(_excluded_ideals(found))
    if excluded:
        return f"the log ratios are near enough to calibrated, not exactly: {excluded} ({measured})"
    return f"the log ratios are calibrated as far as these rows can tell ({measured})"


def _excluded_ideals(found: Recalibration) -> Iterator[str]:
    """Say which intervals leave out the value that a calibrated model has."""
    names = ["offset"] if len(found.shifts) == 1 else [f"offset of class {k}" for k in range(1, len(found.shifts) + 1)]
    ideals = [("slope", found.slope, 1.0), *((name, one, 0.0) for name, one in zip(names, found.shifts, strict=True))]
    for name, estimate, ideal in ideals:
        low, high = estimate.interval
        if not low <= ideal <= high:
            yield f"the {100 * found.level:g} % interval of the {name}, {low:.3f} to {high:.3f}, excludes {ideal:g}"


def _inseparable(diagnosis: Diagnosis) -> str:
    """Say that the score does not separate two classes, or nothing."""
    separation = diagnosis.separation
    low, high = separation.interval
    if low > 0.5:
        return ""
    pair = (
        "the classes"
        if diagnosis.holdout.n_classes == 2
        else (f"classes {separation.lower_class} and {separation.upper_class}")
    )
    verb = "ranks {} backwards" if high < 0.5 else "does not separate {}"
    return f"the score {verb.format(pair)} (AUC {separation.auc:.2f}, {low:.2f} to {high:.2f})"


def _effect_of_shift(holdout: Holdout, shift: float) -> float:
    """Return how much the balanced posteriors move when one class's log ratio does: the most for any class."""
    moves = np.eye(holdout.n_classes)[1:] * shift
    return max(_effect(holdout, holdout.log_ratios + sign * move) for move in moves for sign in (1.0, -1.0))


def _effect_of_slope(holdout: Holdout, slope: float) -> float:
    return max(_effect(holdout, holdout.log_ratios * factor) for factor in (slope, 1.0 / slope))


def _effect(holdout: Holdout, moved: FloatArray) -> float:
    even = np.full(holdout.n_classes, 1.0 / holdout.n_classes)
    change = np.abs(posterior(moved, even) - posterior(holdout.log_ratios, even)).mean(axis=1)
    return float(holdout.weights_at(even) @ change)


def _sd(simulated: FloatArray) -> FloatArray:
    """Return the standard deviation over the first axis, from the middle nine tenths: copies may run away."""
    low, high = np.quantile(simulated, [0.05, 0.95], axis=0)
    return np.asarray((high - low) / (2.0 * float(ndtri(0.95))))
