"""Stream CIFAR-10 rows under five label shifts, and compare trackers with the oracle that knows the prior.

The protocol is that of Wu et al. (2021): a label is drawn from the prior q_t, then a random test row of that
class; the decision is the largest softmax x prior / training prior, with the prior from before the row.
Held-out rows serve the confusion matrices. All trackers and the oracle see the same rows for a seed.
"""

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.markdown import markdown_table
from experiments.peers import FLHFTL, FTFWH, FTH, RLLS, ROGD
from obil.arrays import FloatArray, IntArray
from obil.errors import InvalidInputError
from obil.trackers import BBSE, Algorithm2, BayesBank, FixedPrior, OnlineEM, WindowEM
from obil.trackers.tracker import CompiledTracker

TEST_FILE, HOLDOUT_FILE = "cifar10_resnet18_logits_test.npz", "cifar10_resnet18_logits_val.npz"
FROM_PRIOR: dict[str, Callable[..., CompiledTracker]] = {
    tracker.__name__: tracker for tracker in (BayesBank, Algorithm2, OnlineEM, WindowEM, FixedPrior)
}
FROM_HOLDOUT: dict[str, Callable[..., CompiledTracker]] = {
    tracker.__name__: tracker.from_holdout for tracker in (BBSE, FTH, FTFWH, ROGD, FLHFTL, RLLS)
}
COMMON, RARE = 0.55, 0.05  # the prior of the one common class, and of each of the nine others
FIRST_CLASS, SECOND_CLASS = 3, 5  # cats, then dogs
HALF_PERIODS = {"period_1k": 1_000, "period_10k": 10_000}  # rows


class Scores(NamedTuple):
    """Log ratios and classes of the test and of the held-out rows, and the class prior of the training rows."""

    log_ratios: FloatArray  # (n, K)
    labels: IntArray  # (n,)
    holdout_log_ratios: FloatArray  # (m, K)
    holdout_labels: IntArray  # (m,)
    training_prior: FloatArray  # (K,)


def missing(settings: dict[str, Any]) -> str | None:  # every experiment has it
    """Return why this experiment cannot run here, or None."""
    folder = os.environ.get("OBIL_DATA")
    if not folder:
        return f"OBIL_DATA is not set: it names the folder that holds {TEST_FILE}"
    for name in (TEST_FILE, HOLDOUT_FILE):
        if not (Path(folder) / name).is_file():
            return f"{name} is not in {folder}, the folder named by OBIL_DATA"
    return None


def cells(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the units of work: one tracker on one shift with one seed, the oracle among the trackers."""
    return [
        {"shift": shift, "seed": seed, "tracker": tracker}
        for shift in settings["shifts"]
        for seed in settings["seeds"]
        for tracker in ("oracle", *settings["run"])
    ]


def run(cell: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the error of one tracker on one stream, in percent."""
    scores = _load_scores(os.environ["OBIL_DATA"])
    path = prior_path(cell["shift"], settings["n_rows"], n_classes=scores.training_prior.size)
    rows = draw_rows(path, scores.labels, random_state=cell["seed"])
    log_ratios = scores.log_ratios[rows]
    if cell["tracker"] == "oracle":
        priors = path
    else:
        priors = _build(settings["trackers"][cell["tracker"]], scores).update_many(log_ratios)
    decided = np.argmax(log_ratios + np.log(priors), axis=1)
    return {"error": 100.0 * float(np.mean(decided != scores.labels[rows]))}


def figures(results: list[tuple[dict[str, Any], dict[str, Any]]], settings: dict[str, Any]) -> dict[str, float]:
    """Return error and excess error a tracker and shift, and on how many shifts each is below the bank.

    Both are percentage points, means over the seeds. `peers.most_wins` is the largest number of shifts on
    which one peer at one fixed setting is below the bank; `peers.most_clear_wins` counts only what is below
    by more than two standard errors of the paired difference. `others` are all trackers but the bank.
    """
    errors = {(cell["tracker"], cell["shift"], cell["seed"]): float(result["error"]) for cell, result in results}
    found: dict[str, float] = {}
    for tracker in ("oracle", *settings["run"]):
        for shift in settings["shifts"]:
            found[f"{tracker}.error.{shift}"] = _mean([errors[tracker, shift, seed] for seed in settings["seeds"]])
            if tracker != "oracle":
                excess = [errors[tracker, shift, seed] - errors["oracle", shift, seed] for seed in settings["seeds"]]
                found[f"{tracker}.excess.{shift}"] = _mean(excess)
    others = [tracker for tracker in settings["run"] if tracker != "bank"]
    for tracker in others:
        found[f"{tracker}.wins"] = found[f"{tracker}.clear_wins"] = 0.0
        for shift in settings["shifts"]:
            pairs = [errors[tracker, shift, seed] - errors["bank", shift, seed] for seed in settings["seeds"]]
            noise = float(np.std(pairs, ddof=1) / np.sqrt(len(pairs))) if len(pairs) > 1 else np.inf
            found[f"{tracker}.wins"] += _mean(pairs) < 0.0
            found[f"{tracker}.clear_wins"] += _mean(pairs) < -2.0 * noise
    peers = [tracker for tracker in others if settings["trackers"][tracker].get("peer", False)]
    for group, names in (("peers", peers), ("others", others)):
        for wins in ("wins", "clear_wins"):
            found[f"{group}.most_{wins}"] = max((found[f"{name}.{wins}"] for name in names), default=0.0)
    return found


def table(figures: dict[str, float], settings: dict[str, Any]) -> str:
    """Return the excess errors as a Markdown table, with the oracle's own errors in its first row."""
    shifts = settings["shifts"]
    header = ["tracker", *(shift.replace("_", " ") for shift in shifts), "below the bank", "clearly"]
    rows = [["oracle (error, %)", *(f"{figures[f'oracle.error.{shift}']:.2f}" for shift in shifts), "", ""]]
    for tracker in settings["run"]:
        name = settings["trackers"][tracker].get("name", tracker)
        wins = ["", ""] if tracker == "bank" else [f"{figures[f'{tracker}.{w}']:.0f}" for w in ("wins", "clear_wins")]
        rows.append([name, *(f"{figures[f'{tracker}.excess.{shift}']:.3f}" for shift in shifts), *wins])
    title = (
        f"**Error beyond the oracle's, percentage points**, {len(settings['seeds'])} seeds of {settings['n_rows']:,} "
        "rows; on how many shifts below the bank, and below by more than two standard errors of the difference.\n\n"
    )
    return title + markdown_table(header, rows)


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


@lru_cache(maxsize=1)
def _load_scores(folder: str) -> Scores:
    with np.load(Path(folder) / TEST_FILE) as test, np.load(Path(folder) / HOLDOUT_FILE) as holdout:
        training_prior = test["p_train"] / test["p_train"].sum()
        return Scores(
            log_ratios=_log_ratios(test["test_preds"], training_prior),
            labels=test["y"].astype(np.int64),
            holdout_log_ratios=_log_ratios(holdout["val_preds"], training_prior),
            holdout_labels=holdout["val_y"].astype(np.int64),
            training_prior=training_prior,
        )


def _log_ratios(logits: FloatArray, training_prior: FloatArray) -> FloatArray:
    # the logits are log posteriors at the training prior up to a constant a row, which cancels
    values = logits.astype(np.float64) - np.log(training_prior)
    return np.asarray(values - values[:, :1])


def _build(setting: dict[str, Any], scores: Scores) -> CompiledTracker:
    """Return the tracker that a table of the TOML names, started at the training prior."""
    kind = setting["kind"]
    options = {name: value for name, value in setting.items() if name not in ("kind", "name", "peer")}
    if kind in FROM_PRIOR:
        return FROM_PRIOR[kind](scores.training_prior, **options)
    return FROM_HOLDOUT[kind](scores.holdout_log_ratios, scores.holdout_labels, prior=scores.training_prior, **options)


def _mean(values: list[float]) -> float:
    return float(np.mean(values))
