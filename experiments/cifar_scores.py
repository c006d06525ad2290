"""Load the CIFAR-10 logits, divide their rows into calibration and stream rows, and recalibrate both."""

import os
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.calibration.calibrate import fit_calibrator
from obil.calibration.evidence_map import fit_evidence_map

TEST_FILE, HOLDOUT_FILE = "cifar10_resnet18_logits_test.npz", "cifar10_resnet18_logits_val.npz"
CALIBRATION = "vector"
PUBLISHED = "published"


class Labelled(NamedTuple):
    """All labelled rows: first those of the published calibration part, then those of the published test part."""

    scores: FloatArray  # (n, K) relative to class 0, the training prior divided out
    labels: IntArray  # (n,)
    n_calibration: int
    training_prior: FloatArray  # (K,)


class Divided(NamedTuple):
    """Recalibrated log ratios of the calibration and the stream rows, and what the bank reads the prior from."""

    calibration: FloatArray  # (m, K)
    calibration_labels: IntArray  # (m,)
    stream: FloatArray  # (n, K)
    stream_labels: IntArray  # (n,)
    evidence: FloatArray  # (n, K) of the stream rows
    choice: str  # of the evidence map, and by what figures
    gain: float  # of recalibration: log likelihood per stream row, in nats
    training_prior: FloatArray  # (K,)


def why_missing() -> str | None:
    """Return why the logits cannot be read here, or None."""
    folder = os.environ.get("OBIL_DATA")
    if not folder:
        return f"OBIL_DATA is not set: it names the folder that holds {TEST_FILE}"
    for name in (TEST_FILE, HOLDOUT_FILE):
        if not (Path(folder) / name).is_file():
            return f"{name} is not in {folder}, the folder named by OBIL_DATA"
    return None


@lru_cache(maxsize=1)
def load_labelled(folder: str) -> Labelled:
    """Return the labelled rows of both files."""
    with np.load(Path(folder) / TEST_FILE) as test, np.load(Path(folder) / HOLDOUT_FILE) as holdout:
        training_prior = test["p_train"] / test["p_train"].sum()
        logits = np.concatenate([holdout["val_preds"], test["test_preds"]]).astype(np.float64)
        labels = np.concatenate([holdout["val_y"], test["y"]]).astype(np.int64)
        # the logits are log posteriors at the training prior up to a constant per row, which cancels
        values = logits - np.log(training_prior)
        return Labelled(values - values[:, :1], labels, len(holdout["val_y"]), training_prior)


@lru_cache(maxsize=1)
def divide(folder: str, division: int | str, *, recalibrate: bool = True) -> Divided:
    """Return the rows of a random division, numbered, or of the published one, recalibrated on its calibration rows.

    Without recalibration the logits decide, and are the bank's evidence too.
    """
    rows = load_labelled(folder)
    order = np.arange(len(rows.labels))
    if division != PUBLISHED:
        order = np.random.default_rng(int(division)).permutation(order)
    fitted_on, streamed = order[: rows.n_calibration], order[rows.n_calibration :]
    scores, labels, ones = rows.scores[fitted_on], rows.labels[fitted_on], np.ones(len(fitted_on))
    new, new_labels = rows.scores[streamed], rows.labels[streamed]
    if not recalibrate:
        return Divided(scores, labels, new, new_labels, new, "calibrated", 0.0, rows.training_prior)
    calibrator = fit_calibrator(scores, labels, ones, method=CALIBRATION)
    evidence_map, choice = fit_evidence_map(scores, labels, ones, calibrator=calibrator, method=CALIBRATION)
    recalibrated = calibrator.apply(new)
    prior = np.bincount(labels) / len(labels)
    return Divided(
        calibration=calibrator.apply(scores),
        calibration_labels=labels,
        stream=recalibrated,
        stream_labels=new_labels,
        evidence=evidence_map.apply(new),
        choice=choice,
        gain=_log_likelihood(recalibrated, new_labels, prior) - _log_likelihood(new, new_labels, prior),
        training_prior=rows.training_prior,
    )


def _log_likelihood(log_ratios: FloatArray, labels: IntArray, prior: FloatArray) -> float:
    """Return the mean log likelihood of labels (n,), at the prior of the calibration rows."""
    logits = log_ratios + np.log(prior)
    own = logits[np.arange(len(labels)), labels]
    return float((own - np.logaddexp.reduce(logits, axis=1)).mean())
