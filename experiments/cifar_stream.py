"""Stream CIFAR-10 rows under five label shifts, on random divisions of the labelled rows, and compare trackers.

The protocol is that of Wu et al. (2021): a label is drawn from the prior q_t, then a random stream row of that
class; the decision is the largest log ratio plus log prior, with the prior from before the row. The published
division into calibration and test rows is one draw, and no fair one; so the 25,000 labelled rows are divided again,
20 times. Decisions of all trackers, of the peers' confusion matrices and of the oracle rest on the same scores,
recalibrated by vector scaling on the calibration rows. All see the same rows of a division.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import ttest_1samp

from experiments.cifar_scores import PUBLISHED, Divided, divide, why_missing
from experiments.cifar_stream_page import cifar_stream_page
from experiments.long_tail import run_bank_on_long_tail
from experiments.peers import FLHFTL, FTFWH, FTH, RLLS, ROGD
from experiments.significance import holm
from obil.arrays import FloatArray, IntArray
from obil.errors import InvalidInputError
from obil.trackers import BBSE, Algorithm2, BayesBank, FixedPrior, OnlineEM
from obil.trackers.tracker import CompiledTracker

FROM_PRIOR: dict[str, Callable[..., CompiledTracker]] = {
    tracker.__name__: tracker for tracker in (BayesBank, Algorithm2, OnlineEM, FixedPrior)
}
PEERS: dict[str, Callable[..., CompiledTracker]] = {
    tracker.__name__: tracker.from_holdout for tracker in (FTH, FTFWH, ROGD, FLHFTL, RLLS)
}
FROM_HOLDOUT: dict[str, Callable[..., CompiledTracker]] = PEERS | {"BBSE": BBSE.from_holdout}
COMMON, RARE = 0.55, 0.05  # the prior of the one common class, and of each of the nine others
FIRST_CLASS, SECOND_CLASS = 3, 5  # cats, then dogs
HALF_PERIODS = {"period_1k": 1_000, "period_10k": 10_000}  # rows
LEVEL = 0.05  # of the family of all comparisons with a peer on a shift


def missing(settings: dict[str, Any]) -> str | None:  # every experiment has it
    """Return why this experiment cannot run here, or None."""
    return why_missing()


def cells(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the units of work: a division with all its streams, or a stream of many classes."""
    divided: list[dict[str, Any]] = [{"division": number, "seed": number} for number in range(settings["n_divisions"])]
    for seed in range(settings["n_published"]):
        divided += [{"division": PUBLISHED, "seed": seed, "recalibrate": again} for again in (True, False)]
    for n_classes, n_rows in settings["many_classes"]:
        divided += [{"classes": n_classes, "rows": n_rows, "seed": seed} for seed in range(settings["n_many"])]
    return divided


def run(cell: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the errors of all trackers on the streams of one division, in percent, or those of many classes."""
    if "classes" in cell:
        return run_bank_on_long_tail(cell["classes"], cell["rows"], cell["seed"])
    recalibrate = cell.get("recalibrate", True)
    divided = divide(os.environ["OBIL_DATA"], cell["division"], recalibrate=recalibrate)
    errors = {}
    for place, shift in enumerate(settings["shifts"]):
        path = prior_path(shift, settings["n_rows"], n_classes=divided.training_prior.size)
        rows = draw_rows(path, divided.stream_labels, random_state=100 * cell["seed"] + place)
        log_ratios = divided.stream[rows]
        for tracker in ("oracle", *settings["run_published" if cell["division"] == PUBLISHED else "run"]):
            if tracker == "oracle":
                priors = path
            else:
                evidence = divided.evidence[rows][:, None] if tracker == "bank" else None
                priors = _build(settings["trackers"][tracker], divided).update_many(log_ratios, evidence=evidence)
            decided = np.argmax(log_ratios + np.log(priors), axis=1)
            errors[f"{tracker}.{shift}"] = 100.0 * float(np.mean(decided != divided.stream_labels[rows]))
    return {"errors": errors, "gain": divided.gain, "choice": divided.choice.partition(":")[0]}


def figures(results: list[tuple[dict[str, Any], dict[str, Any]]], settings: dict[str, Any]) -> dict[str, float]:
    """Return mean errors, each tracker's paired difference to the bank, and how many peers are clearly below or above.

    Errors are percentages, differences percentage points. `verdict` is 1 where the bank is significantly below
    the tracker, -1 where it is above: a two-sided paired t-test over the divisions at 5 %, corrected by Holm for all
    peers and shifts. The other trackers are corrected as a family of their own.
    """
    shifts, others = settings["shifts"], [tracker for tracker in settings["run"] if tracker != "bank"]
    peers = [tracker for tracker in others if settings["trackers"][tracker]["kind"] in PEERS]
    random = [result for cell, result in results if cell.get("division", PUBLISHED) != PUBLISHED]
    published, as_published = (
        [result for cell, result in results if cell.get("recalibrate") is again] for again in (True, False)
    )
    found: dict[str, float] = {
        "recalibration.gain": _mean([result["gain"] for result in random]),
        "evidence.not_calibrated": _mean([float(result["choice"] != "calibrated") for result in random]),
    }
    for prefix, part in (("", random), ("published.", published), ("without.", as_published)):
        for tracker in ("oracle", *settings["run" if part is random else "run_published"]):
            for shift in shifts:
                found[f"{prefix}{tracker}.error.{shift}"] = _mean([one["errors"][f"{tracker}.{shift}"] for one in part])
    for family in (peers, [tracker for tracker in others if tracker not in peers]):
        pairs = [(tracker, shift) for tracker in family for shift in shifts]
        p_values = []
        for tracker, shift in pairs:
            against = np.array([one["errors"][f"{tracker}.{shift}"] - one["errors"][f"bank.{shift}"] for one in random])
            found[f"{tracker}.difference.{shift}"] = float(against.mean())
            found[f"{tracker}.se.{shift}"] = float(against.std(ddof=1) / np.sqrt(len(against)))
            p_values.append(float(ttest_1samp(against, 0.0).pvalue) if against.any() else 1.0)
        for (tracker, shift), p_value in zip(pairs, holm(np.array(p_values)), strict=True):
            clear = p_value < LEVEL
            found[f"{tracker}.verdict.{shift}"] = float(clear * np.sign(found[f"{tracker}.difference.{shift}"]))
    verdicts = np.array([[found[f"{tracker}.verdict.{shift}"] for shift in shifts] for tracker in peers])
    found["peers.significantly_below_bank"] = float((verdicts < 0.0).sum())
    found["bank.shifts_below_every_peer"] = float((verdicts > 0.0).all(axis=0).sum())
    for n_classes, _ in settings["many_classes"]:
        streams = [result for cell, result in results if cell.get("classes") == n_classes]
        for name in ("oracle", "bank", "fixed", "kilobytes"):
            found[f"many.{n_classes}.{name}"] = _mean([stream[name] for stream in streams])
        found[f"many.{n_classes}.microseconds"] = min(stream["microseconds"] for stream in streams)
    return found


def table(figures: dict[str, float], settings: dict[str, Any]) -> str:
    """Return the three tables of the page."""
    return cifar_stream_page(figures, settings)


def prior_path(shift: str, n_rows: int, *, n_classes: int) -> FloatArray:
    """Return the prior of every row, (n_rows, K), between q1 (class 3 is common) and q2 (class 5 is).

    >>> prior_path("exponential", 4, n_classes=10)[:, 3]
    array([0.55, 0.05, 0.05, 0.55])
    """
    first, second = np.full(n_classes, RARE), np.full(n_classes, RARE)
    first[FIRST_CLASS] = second[SECOND_CLASS] = COMMON
    t = np.arange(n_rows)
    fraction_of_second: FloatArray
    if shift == "constant":
        fraction_of_second = np.zeros(n_rows)
    elif shift == "monotone":
        fraction_of_second = np.linspace(0.0, 1.0, n_rows)
    elif shift in HALF_PERIODS:
        fraction_of_second = (t // HALF_PERIODS[shift] % 2).astype(np.float64)
    elif shift == "exponential":
        fraction_of_second = np.floor(np.log2(t + 1)) % 2
    else:
        raise InvalidInputError(f"shift must be one of the five of Wu et al., got {shift!r}")
    path: FloatArray = (1.0 - fraction_of_second[:, None]) * first + fraction_of_second[:, None] * second
    return path


def draw_rows(path: FloatArray, labels: IntArray, *, random_state: int) -> IntArray:
    """Draw a class from the prior of each row, then one of the rows of that class; return row numbers, (n,)."""
    rng = np.random.default_rng(random_state)
    class_draws, row_draws = rng.random(len(path)), rng.random(len(path))
    below = np.cumsum(path, axis=1)[:, :-1] <= class_draws[:, None]
    drawn = below.sum(axis=1)
    counts = np.bincount(labels, minlength=path.shape[1])
    firsts = np.cumsum(counts) - counts  # where each class begins once the rows are sorted by class
    rows: IntArray = np.argsort(labels, kind="stable")[firsts[drawn] + (row_draws * counts[drawn]).astype(np.int64)]
    return rows


def _build(setting: dict[str, Any], divided: Divided) -> CompiledTracker:
    """Return the tracker that a table of the TOML names, started at the training prior."""
    kind = setting["kind"]
    options = {name: value for name, value in setting.items() if name not in ("kind", "name")}
    if kind in FROM_PRIOR:
        return FROM_PRIOR[kind](divided.training_prior, **options)
    rows, labels = divided.calibration, divided.calibration_labels
    return FROM_HOLDOUT[kind](rows, labels, prior=divided.training_prior, **options)


def _mean(values: list[float]) -> float:
    return float(np.mean(values))
