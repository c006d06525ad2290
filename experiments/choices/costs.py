"""Decide at known costs with plain and cost-weighted squared error; the expected cost is exact, row by row."""

from typing import Any

import numpy as np
from scipy.special import expit, logit

from experiments.choices.measures import Measures, calibrated_variants, draw_fresh, draw_training
from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses, Stream
from obil.estimators.obil_classifier import OBILClassifier
from obil.networks.losses import cost_weighted_squared_error


def run(cell: dict[str, Any], settings: dict[str, Any]) -> dict[str, Measures]:
    """Return the expected cost over the oracle's, in percent, of each method at each cost ratio and prior."""
    seed = cell["seed"]
    classes = GaussianClasses.spread(settings["separation"], n_features=settings["features"])
    rows = draw_training(classes, settings["n_rows"], settings["ratio"], seed)
    fresh = draw_fresh(classes, settings["cost_rows"], seed)
    priors = [1.0 / (1.0 + settings["ratio"]), *settings["cost_priors"]]
    plain = _methods(rows, fresh, 1.0, settings, seed)
    found: dict[str, Measures] = {}
    for cost_ratio in settings["cost_ratios"]:
        weighted = plain if cost_ratio == 1.0 else _methods(rows, fresh, cost_ratio, settings, seed)
        methods = {
            "plain, none": plain["right/none"],
            "plain, affine": plain["right/affine"],
            "weighted, divided out, none": weighted["right/none"],
            "weighted, divided out, affine": weighted["right/affine"],
            "the paper's, none": weighted["twice/none"],
            "the paper's, temperature": weighted["twice/temperature"],
            "the paper's, affine": weighted["twice/affine"],
        }
        for method, ratios in methods.items():
            found.setdefault(method, {}).update(
                {f"Qc={cost_ratio:g} P={prior:.3g}": _excess(ratios, fresh, cost_ratio, prior) for prior in priors}
            )
    return found


def _methods(rows: Stream, fresh: Stream, weight: float, settings: dict[str, Any], seed: int) -> dict[str, FloatArray]:
    """Return the fresh rows' log ratios, (n, 2), with the cost weight divided out, and with only the training prior."""
    model = OBILClassifier(
        n_members=settings["cost_members"],
        loss=cost_weighted_squared_error(weight),
        member="mlp",
        fusion="mean",
        random_state=seed,
    ).fit(rows.features, rows.labels)
    scores = model.model_.scores(fresh.features)
    right = calibrated_variants(model.model_, scores)
    twice = calibrated_variants(model.model_, scores, shift=-float(np.log(weight)))
    return {f"right/{method}": ratios for method, ratios in right.items()} | {
        f"twice/{method}": ratios for method, ratios in twice.items()
    }


def _excess(log_ratios: FloatArray, fresh: Stream, cost_ratio: float, prior: float) -> float:
    """Return the expected cost of deciding by `log_ratios` over that by the true ones, less 1, in percent."""
    true = fresh.log_ratios[:, 1]
    posterior = expit(true + logit(prior))
    # rows drawn with as many of each class stand for rows at another prior with this weight
    weights = (prior * expit(true) + (1.0 - prior) * expit(-true)) * 2.0
    threshold = np.log(cost_ratio) - logit(prior)

    def cost(alerts: Any) -> float:
        return float(np.mean(weights * np.where(alerts, cost_ratio * (1.0 - posterior), posterior)))

    return 100.0 * (cost(log_ratios[:, 1] > threshold) / cost(true > threshold) - 1.0)
