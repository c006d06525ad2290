"""Time the ensemble, without views: its fit against one network, its decisions against scikit-learn and torch."""

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.estimators.obil_classifier import OBILClassifier
from obil.estimators.recipes import NETWORK
from obil.networks.inputs import fit_feature_map
from obil.networks.losses import cross_entropy
from obil.networks.members import fit_network
from obil.online.online_classifier import OnlineClassifier
from obil.resampling.associated import associated_problem
from obil.serving.networks.dense_network import DenseNetwork
from obil.trackers import BayesBank


def measure(settings: dict[str, Any]) -> dict[str, float]:
    """Return seconds and microseconds, each the fastest of a few runs taken in turns, and their ratios."""
    torch.set_num_threads(1)
    classes = GaussianClasses.spread(settings["separation"], n_features=settings["n_features"])
    prior = 1.0 / (1.0 + settings["imbalance"])
    training = classes.draw(np.full(settings["n_rows"], prior), random_state=0)
    X, y = training.features, training.labels
    figures = _fitting(X, y, settings["fits"])
    models = {
        member: OBILClassifier(member=member, views=False, random_state=0).fit(X, y) for member in ("mlp", "paper")
    }
    started = time.perf_counter()
    models["tabular"] = OBILClassifier(views=False, random_state=0).fit(X, y)
    figures["fit_tabular_seconds"] = time.perf_counter() - started
    figures["tabular_fit_over_one_network"] = figures["fit_tabular_seconds"] / figures["fit_one_network_seconds"]
    single = classes.draw(np.full(settings["single_rows"], prior), random_state=1).features
    many = classes.draw(np.full(settings["many_rows"], prior), random_state=2).features
    figures |= _single_rows(models, X, y, single, settings["repeats"])
    return figures | _many_rows(models, many)


def _fitting(X: FloatArray, y: Any, fits: int) -> dict[str, float]:
    """Time whole fits, and the fit of one network on all rows without resampling, over the same seeds."""

    def one_network(seed: int) -> None:
        labels = y.astype(np.int64)
        features = fit_feature_map(X, inputs=NETWORK.inputs)
        problem = associated_problem(labels, ratio=(labels == 0).sum() / labels.sum(), n_classes=2)
        fit_network(
            NETWORK, X, labels, problem, features=features, loss=cross_entropy(), n_classes=2, device="cpu", seed=seed
        )

    works: dict[str, Callable[[int], object]] = {
        "one_network": one_network,
        "mlp": lambda seed: OBILClassifier(member="mlp", random_state=seed).fit(X, y),
    }
    seconds = dict.fromkeys(works, 0.0)
    works["one_network"](0)  # what is compiled and imported on first use is not measured
    for seed in range(fits):  # machines have slow moments: sums over seeds, taken in turns, are compared
        for name, work in works.items():
            started = time.perf_counter()
            work(seed)
            seconds[name] += (time.perf_counter() - started) / fits
    return {
        "fit_over_one_network": seconds["mlp"] / seconds["one_network"],
    } | {f"fit_{name}_seconds": value for name, value in seconds.items()}


def _single_rows(
    models: dict[str, OBILClassifier], X: FloatArray, y: Any, rows: FloatArray, repeats: int
) -> dict[str, float]:
    peer = MLPClassifier([128, 64, 32], max_iter=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # its speed does not depend on how well it learned
        peer.fit(X, y)
    mlp, paper, tabular = (OnlineClassifier(models[member], **_bare()) for member in ("mlp", "paper", "tabular"))
    tables = [row[None] for row in rows]
    works: dict[str, Callable[[], object]] = {
        "mlp_classifier_row": lambda: [peer.predict_proba(table) for table in tables],
        "decide": lambda: [mlp.decide(row) for row in rows],
        "paper_decide": lambda: [paper.decide(row) for row in rows],
        "tabular_decide": lambda: [tabular.decide(row) for row in rows],
    }
    fastest = _fastest(works, repeats)
    micro = {name: 1e6 * seconds / len(rows) for name, seconds in fastest.items()}
    return {
        "decide_over_mlp_classifier_row": micro["decide"] / micro["mlp_classifier_row"],
        "paper_decide_over_mlp_classifier_row": micro["paper_decide"] / micro["mlp_classifier_row"],
        "tabular_decide_over_mlp_classifier_row": micro["tabular_decide"] / micro["mlp_classifier_row"],
    } | {f"{name}_microseconds": value for name, value in micro.items()}


def _many_rows(models: dict[str, OBILClassifier], rows: FloatArray) -> dict[str, float]:
    """Time deciding many rows against torch's forward pass of the same networks on inputs ready made."""
    figures: dict[str, float] = {}
    for member, prefix in (("mlp", ""), ("paper", "paper_")):
        online = OnlineClassifier(models[member], **_bare())
        works = _prepared(models[member], rows)
        works["decide_many"] = partial(online.decide_many, rows)
        fastest = _fastest(works, 3)
        forward = min(seconds for name, seconds in fastest.items() if name.startswith("forward"))
        figures |= {
            f"{prefix}decide_many_over_torch_forward": fastest["decide_many"] / forward,
            f"{prefix}decide_many_over_torch_forward_with_weights": fastest["decide_many"] / fastest["with_weights"],
            f"{prefix}torch_forward_seconds": forward,
            f"{prefix}decide_many_seconds": fastest["decide_many"],
        }
    part = rows[: len(rows) // 20]  # trees take their time: a twentieth of the rows tells it
    tabular = OnlineClassifier(models["tabular"], **_bare())
    seconds = 20.0 * _fastest({"tabular": lambda: tabular.decide_many(part)}, 1)["tabular"]
    return figures | {"tabular_decide_many_over_torch_forward": seconds / figures["torch_forward_seconds"]}


def _bare() -> dict[str, Any]:
    """Return settings that only score, decide and track: `decide` times what monitoring adds."""
    return {"tracker": BayesBank(), "monitor": False, "horizon": 0}


def _prepared(model: OBILClassifier, rows: FloatArray) -> dict[str, Callable[[], object]]:
    """Return torch's forward passes of the members by chunk size, and one with the network that weighs them."""
    members = [member.fitted_network for member in model.members_]
    networks = [member.network for member in members]
    gating = getattr(model.model_.scorer, "gating", None)
    weights = [] if gating is None else [_as_torch(gating.network)]
    inputs = torch.from_numpy(members[0].scorer.features.encode(rows))

    def forward(chunk: int, run: list[torch.nn.Module]) -> None:
        with torch.inference_mode():
            for part in inputs.split(chunk):
                for network in run:
                    network(part)

    passes = {f"forward_{chunk}": partial(forward, chunk, networks) for chunk in (512, 1_024, 2_048, 4_096, 8_192)}
    return {**passes, "with_weights": partial(forward, 2_048, networks + weights)}


def _as_torch(network: DenseNetwork) -> torch.nn.Module:
    layers: list[torch.nn.Module] = []
    for weights, biases in zip(network.weights, network.biases, strict=True):
        layer = torch.nn.Linear(*weights.shape)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(weights.T.copy()))
            layer.bias.copy_(torch.from_numpy(biases))
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def _fastest(works: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the fastest run of each in seconds, taken in turns: a slow moment of the machine hits all alike."""
    fastest = dict.fromkeys(works, np.inf)
    for _ in range(repeats):
        for name, work in works.items():
            started = time.perf_counter()
            work()
            fastest[name] = min(fastest[name], time.perf_counter() - started)
    return fastest
