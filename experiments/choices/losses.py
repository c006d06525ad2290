"""Train the same ensemble with each loss, and ask fresh rows how far its ratios are from the truth."""

from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from experiments.choices.measures import Measures, calibrated_variants, draw_fresh, draw_training, measured, prior_at
from obil.arrays import FloatArray, IntArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.datasets.named_set import load_named
from obil.datasets.splits import stratified_split
from obil.estimators.obil_classifier import OBILClassifier

LEAST_AREA = 0.7  # under the ROC: a network with less has learned next to nothing


def run(cell: dict[str, Any], settings: dict[str, Any]) -> dict[str, Measures]:
    """Return the measures of one loss on one draw, before and after calibration."""
    seed = cell["seed"]
    train, test, truth = _known(settings, seed) if cell["data"] == "known" else _named(cell["data"], seed)
    model = OBILClassifier(
        n_members=settings["loss_members"], loss=cell["loss"], member=cell["member"], fusion="mean", random_state=seed
    ).fit(*train)
    rows, labels = test
    prior = prior_at(settings["ratio"]) if cell["data"] == "known" else model.prior_
    scores = model.model_.scores(rows)
    readings = {"": (1.0, 0.0)}
    if cell["loss"] == "printed_logistic":  # the paper reads (1+o)/2 as the posterior: twice the log odds that it has
        training_priors = [member.fitted_network.scorer.training_prior for member in model.members_]
        readings[", read as printed"] = (2.0, float(np.mean([np.log(b[1] / b[0]) for b in training_priors])))
    areas = [roc_auc_score(labels, member.scorer.scores(rows)[:, 1]) for member in model.members_]
    stuck = float(np.mean(np.array(areas) < LEAST_AREA))
    found: dict[str, Measures] = {}
    for name, (scale, shift) in readings.items():
        for method, ratios in calibrated_variants(model.model_, scores, scale=scale, shift=shift).items():
            measures = measured(ratios, labels, prior) | {"stuck": stuck}
            if truth is not None:
                measures["rms"] = float(np.sqrt(np.mean((ratios[:, 1] - truth[:, 1]) ** 2)))
                measures["log_loss"] -= measured(truth, labels, prior)["log_loss"]
            found[f"{cell['loss']}{name}/{method}"] = measures
    return found


Rows = tuple[FloatArray, IntArray]


def _known(settings: dict[str, Any], seed: int) -> tuple[Rows, Rows, FloatArray | None]:
    classes = GaussianClasses.spread(settings["separation"], n_features=settings["features"])
    train = draw_training(classes, settings["n_rows"], settings["ratio"], seed)
    fresh = draw_fresh(classes, settings["fresh_rows"], seed)
    return (train.features, train.labels), (fresh.features, fresh.labels), fresh.log_ratios


def _named(name: str, seed: int) -> tuple[Rows, Rows, FloatArray | None]:
    rows, labels = loaded(name)
    split = stratified_split(labels, test_size=0.3, random_state=seed, rows=rows)
    return (rows[split.train], labels[split.train]), (rows[split.test], labels[split.test]), None


@lru_cache(maxsize=4)
def loaded(name: str) -> Rows:
    """Return a named set as a matrix and class numbers."""
    data = load_named(name)
    return data.features.to_numpy(dtype=np.float64), data.labels.astype(np.int64)
