"""Tracking the prior: whether the estimate stays inside, whether it arrives, and how its error grows with drift."""

import numpy as np
from scipy.signal import lfilter

from experiments.gaussian_pair import GaussianPair
from experiments.growth import exponent
from experiments.paper_formulas import rate_for_drift
from experiments.theory_rows.row import (
    FAILS,
    HOLDS,
    Figures,
    Measured,
    Row,
    Settings,
    judged,
    listed,
    named,
    short,
)
from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.datasets.prior_paths import bounded_walk
from obil.trackers import Algorithm2, BayesBank, OnlineEM

ETA, CLAMP = 0.05, 0.02
RATES = np.logspace(-4.0, -0.7, 23)
LOW, HIGH = 0.1, 0.4  # between which the drifting prior goes up and down


def measure_stability(settings: Settings) -> Measured:
    """Start at eta with a clamp below eta, as the proposition asks, on rare and on common classes."""
    figures: Figures = {}
    for name, truth, start in (("rare", 0.001, ETA), ("common", 0.999, 1.0 - ETA)):
        rows = GaussianClasses.pair(4.0).draw(np.full(settings["stability_rows"], truth), random_state=0).log_ratios
        path = Algorithm2(start, clamp=CLAMP).update_many(rows)[:, 1]
        figures[f"{name}.end"] = float(path.min() if name == "rare" else path.max())
        figures[f"{name}.outside"] = float(((path < ETA) | (path > 1.0 - ETA)).mean())
        figures[f"{name}.beyond_proof"] = float(((path < ETA - CLAMP) | (path > 1.0 - ETA + CLAMP)).mean())
        figures[f"{name}.largest_step"] = float(np.abs(np.diff(path)).max())
    return Measured(figures, {})


def _stability_verdict(figures: Figures) -> str:
    if max(figures["rare.outside"], figures["common.outside"]) == 0.0:
        return judged(HOLDS, "the walk stays inside")
    reason = "the clamp bounds the step and not the walk"
    if max(figures["rare.beyond_proof"], figures["common.beyond_proof"]) > 0.0:
        reason += "; it leaves the wider interval of the proof as well"
    return judged(FAILS, reason + ". The second half is the row below")


def measure_consistency(settings: Settings) -> Measured:
    """Track priors that never move, with exact ratios: eps_LR = 0, so the limit claimed is 0."""
    figures: Figures = {"algorithm2.largest_factor": 1.0}
    for separation in settings["consistency_separations"]:
        for truth in settings["consistency_priors"]:
            rows = GaussianClasses.pair(separation).draw(np.full(settings["consistency_rows"], truth), random_state=0)
            path = Algorithm2(truth).update_many(rows.log_ratios)[:, 1]  # started at the truth
            found = float(path[len(path) // 2 :].mean())
            figures[f"algorithm2.{separation}.{truth}"] = found
            worst = max(figures["algorithm2.largest_factor"], found / truth, truth / found)
            figures["algorithm2.largest_factor"] = worst
    horizons = settings["consistency_horizons"]
    errors = np.zeros((settings["consistency_seeds"], len(horizons)))
    for seed in range(len(errors)):
        stream = GaussianClasses.pair(settings["separation"]).draw(np.full(horizons[-1] + 1, 0.1), random_state=seed)
        path = BayesBank(0.5).update_many(stream.log_ratios)[:, 1]
        errors[seed] = np.abs(path[horizons] - 0.1)
    figures |= {f"bank.{horizon}": float(error) for horizon, error in zip(horizons, errors.mean(axis=0), strict=True)}
    figures["bank.exponent"] = exponent(horizons, errors.mean(axis=0))
    return Measured(figures, {})


def _consistency_measured(figures: Figures, settings: Settings) -> str:
    parts = [
        f"{listed(figures, f'algorithm2.{separation}', settings['consistency_priors'])} at separation {separation:g}"
        for separation in settings["consistency_separations"]
    ]
    return (
        f"exact ratios, truth {named(settings['consistency_priors'])}, started at the truth: Algorithm 2 settles at "
        f"{'; '.join(parts)}. The bank's mean error after {named(settings['consistency_horizons'])} rows (truth .1, "
        f"started at .5): {listed(figures, 'bank', settings['consistency_horizons'])} (falls as "
        f"rows^{figures['bank.exponent']:.2f})"
    )


def _consistency_verdict(figures: Figures) -> str:
    if figures["algorithm2.largest_factor"] < 1.05:
        return judged(HOLDS, "Algorithm 2 is within 5 % of every prior")
    bank = "; the bank's error goes to 0" if figures["bank.exponent"] < -0.25 else ""
    return judged(
        FAILS, f"with eps_LR = 0 Algorithm 2 is off by factors up to {figures['algorithm2.largest_factor']:.1f}{bank}"
    )


def unbiased_average(log_ratios: FloatArray, rate: float, start: float, separation: float) -> FloatArray:
    """Return the moving average of the corrected prediction (1[q > 1] - FPR) / (TPR - FPR): its mean is the prior.

    The estimate before each row, (n,).
    """
    true_rate, false_rate = GaussianPair(separation).rates(0.0)
    signal = ((log_ratios > 0.0) - false_rate) / (true_rate - false_rate)
    after, _ = lfilter([rate], [1.0, rate - 1.0], signal, zi=[(1.0 - rate) * start])
    return np.concatenate([[start], after[:-1]])


def up_and_down(n_rows: int, drift: float) -> FloatArray:
    """Return a prior that moves by `drift` every row and turns round at two levels."""
    return bounded_walk(
        n_rows, start=0.25, step_size=drift, flip_probability=0.0, low=LOW, high=HIGH, random_state=0
    )  # fmt: skip


def measure_tracking(settings: Settings) -> Measured:
    """Let the prior go up and down by delta per row; search the best rate, and use the one stated."""
    drifts, separation = settings["drifts"], settings["separation"]
    errors: dict[str, list[float]] = {}
    for drift in drifts:
        truth = up_and_down(settings["tracking_rows"], drift)
        by_rate: dict[str, list[list[float]]] = {"average": [], "em": [], "algorithm2": []}
        bank = []
        for seed in range(settings["tracking_seeds"]):
            rows = GaussianClasses.pair(separation).draw(truth, random_state=seed).log_ratios
            rates = [*RATES, rate_for_drift(drift)]
            paths = {
                "average": (unbiased_average(rows[:, 1], rate, 0.25, separation) for rate in rates),
                "em": (OnlineEM(0.25, rate=rate).update_many(rows)[:, 1] for rate in rates),
                "algorithm2": (Algorithm2(0.25, rate=rate).update_many(rows)[:, 1] for rate in rates),
            }
            for name, tracked in paths.items():
                by_rate[name].append([_late_error(path, truth) for path in tracked])
            bank.append(_late_error(BayesBank(0.25).update_many(rows)[:, 1], truth))
        for name, found in by_rate.items():
            means = np.mean(found, axis=0)
            errors.setdefault(f"{name}.best", []).append(float(means[:-1].min()))
            errors.setdefault(f"{name}.stated", []).append(float(means[-1]))
        errors.setdefault("bank", []).append(float(np.mean(bank)))
    figures: Figures = {}
    for name, values in errors.items():
        figures[f"{name}.exponent"] = exponent(drifts, values)
        figures[f"{name}.first"], figures[f"{name}.last"] = values[0], values[-1]
    curves = {"tracking.drift": list(drifts)} | {f"tracking.{name}": values for name, values in errors.items()}
    return Measured(figures, curves)


def _late_error(path: FloatArray, truth: FloatArray) -> float:
    late = slice(len(truth) // 10, None)
    return float(np.abs(path[late] - truth[late]).mean())


def _tracking_verdict(figures: Figures) -> str:
    if (
        min(figures["average.stated.exponent"], figures["em.stated.exponent"], figures["algorithm2.stated.exponent"])
        > 0.45
    ):
        return judged(HOLDS, "the error falls as the root of the drift")
    best, stated = figures["average.best.exponent"], figures["average.stated.exponent"]
    own = abs(best - 1.0 / 3.0) < 0.06 and abs(stated - 0.25) < 0.06
    reason = "the exponents are those of its own proof, 1/3 at the best rate and 1/4 at the stated one" if own else (
        f"the exponents are {best:.2f} at the best rate and {stated:.2f} at the stated one, not 1/2"
    )  # fmt: skip
    return judged(FAILS, reason + "; Algorithm 2's bias hides even those")


def _tracking_measured(figures: Figures, settings: Settings) -> str:
    def pair(name: str) -> str:
        return f"{figures[f'{name}.best.exponent']:.2f} / {figures[f'{name}.stated.exponent']:.2f}"

    drifts = settings["drifts"]
    return (
        f"exponent in delta ({short(drifts[0])} to {short(drifts[-1])}) at the best rate / at sqrt(delta): moving "
        f"average of an unbiased signal {pair('average')}, online EM {pair('em')}, Algorithm 2 {pair('algorithm2')} "
        f"(error {figures['algorithm2.best.first']:.3f} at the smallest drift, {figures['algorithm2.best.last']:.3f} "
        f"at the largest: bias), the bank {figures['bank.exponent']:.2f} (error {figures['bank.first']:.3f} to "
        f"{figures['bank.last']:.3f})"
    )


ROWS = (
    Row(
        name="stability",
        covers=("prop:stability",),
        claim=(
            "With Delta_max < eta the estimate stays in [eta, 1 - eta]; it converges to within O(eps_LR) of the prior"
        ),
        measure=measure_stability,
        measured=lambda f, s: (
            f"separation 4, eta {ETA}, clamp {CLAMP}, {s['stability_rows']:,} rows: it falls to "
            f"{short(f['rare.end'])} and rises to {f['common.end']:.6f}; outside [eta, 1 - eta] "
            f"{f['rare.outside']:.1%} and {f['common.outside']:.1%} of the time, beyond [eta - clamp, 1 - eta + "
            f"clamp] {f['rare.beyond_proof']:.0%} and {f['common.beyond_proof']:.0%}; largest step "
            f"{f['rare.largest_step']:.3f}"
        ),
        verdict=_stability_verdict,
        shown_by=("trackers/test_algorithm2.py::test_the_clamp_bounds_the_step_and_not_the_walk",),
    ),
    Row(
        name="consistency",
        covers=("thm:consistency",),
        claim="Under a stationary prior the error of Algorithm 2 goes to O(eps_LR)",
        measure=measure_consistency,
        measured=_consistency_measured,
        verdict=_consistency_verdict,
        shown_by=(
            "trackers/test_algorithm2.py::test_with_exact_ratios_it_is_far_off_where_the_bank_is_not",
            "test_errata.py::test_a_stationary_prior_is_found_by_the_exact_filter_and_not_by_algorithm_2",
        ),
    ),
    Row(
        name="tracking",
        covers=("thm:tracking",),
        claim=(
            "A prior that moves at most delta a row is tracked with error O(sqrt(delta)) at rate alpha = O(sqrt(delta))"
        ),
        measure=measure_tracking,
        measured=_tracking_measured,
        verdict=_tracking_verdict,
        shown_by=(
            "test_errata.py::test_the_tracking_error_of_the_papers_own_proof_is_not_the_square_root_of_the_drift",
        ),
    ),
)
