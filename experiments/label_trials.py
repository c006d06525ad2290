"""Try recalibrations that see features, a segment, the season or the views of a row, on late labels of real streams.

Each trial adds two experts to the default's nine (`experiments.label_mixture`). The streams are a development set.
"""

from typing import Any

import numpy as np
from scipy.special import logit

from experiments.label_inputs import encoded, fitted, leading, log_loss, recalibrated, season, segments
from experiments.label_mixture import Unlabelled, posteriors_with
from experiments.label_trials_page import DEFAULT, candidates_of, table
from experiments.runner import Cell, Settings
from experiments.wild import _with_labels, missing
from experiments.wild_streams import Deployed, deployed, stream_data
from obil.arrays import FloatArray, IntArray
from obil.online.online_classifier import OnlineClassifier
from obil.trackers import BayesBank, SafeTracker
from obil.trackers.label_learning import LARGEST_LOGIT

__all__ = ["cells", "figures", "missing", "run", "table"]

MEMORIES = [1_000.0, np.inf]  # in labels, of the two experts


def cells(settings: Settings) -> list[Cell]:
    """List the work: a set in its order, and shuffled, so that nothing moves."""
    return [cell for name in settings["sets"] for cell in ({"set": name}, {"set": name, "shuffled": True})]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Return the log losses of one stream relative to static, by how labels come, start weight and trial."""
    shuffled = bool(cell.get("shuffled"))
    most_rows = settings["shuffled_rows"] if shuffled else settings["most_rows"]
    stream = deployed(cell["set"], int(most_rows), shuffled=shuffled, seed=settings["seed"])
    start = stream.classifier.prior_
    guarded = SafeTracker.for_model(stream.classifier.model_).start(start)
    rows = Unlabelled(
        log_ratios=stream.log_ratios[:, 1],
        guarded=guarded.update_many(stream.log_ratios, evidence=stream.evidence)[:, 1],
        fast=BayesBank(start).path(np.ascontiguousarray(stream.evidence[:, 0]))[:-1, 1],
        start=float(start[1]),
    )
    static = log_loss(rows.log_ratios + logit(rows.start), stream.labels)
    parts = _inputs(cell, stream, settings)
    none = np.empty((len(stream.labels), 0))
    inputs = {trial: np.column_stack([none, *(parts[part] for part in of)]) for trial, of in settings["trials"].items()}
    losses: dict[str, float] = {}
    for rate, delay in settings["labels"][:1] if shuffled else settings["labels"]:
        asked = _asked(stream, rate, settings)
        for weight in settings["weights"]:
            for trial, of_trial in {DEFAULT: none, **inputs}.items():
                posteriors = posteriors_with(
                    rows, of_trial, stream.labels, asked, int(delay),
                    memories=[] if trial == DEFAULT else MEMORIES, weight=weight,
                    input_sd=settings["input_sd"],
                )  # fmt: skip
                loss = _loss_of(posteriors, stream) / static
                losses[f"{rate:g}.{delay}.{weight:g}.{trial}"] = loss
    if shuffled:
        return {"losses": losses}
    hindsight = {}
    for trial, of_trial in inputs.items():
        theta = fitted(rows.base, of_trial, stream.labels, input_sd=settings["input_sd"])
        hindsight[trial] = log_loss(recalibrated(rows.base, of_trial, theta), stream.labels) / static
    rate, delay = settings["labels"][0]
    asked = _asked(stream, rate, settings)
    posteriors = _with_labels(OnlineClassifier(stream.classifier), stream, asked, rate, delay)
    return {"losses": losses, "hindsight": hindsight, "tracker": _loss_of(posteriors, stream) / static}


def _asked(stream: Deployed, rate: float, settings: Settings) -> IntArray:
    return np.flatnonzero(np.random.default_rng(settings["seed"]).random(len(stream.labels)) < rate)


def _loss_of(posteriors: FloatArray, stream: Deployed) -> float:
    positive = np.where(stream.labels == 1, posteriors, 1.0 - posteriors)
    return float(-np.log(np.clip(positive, 1e-12, 1.0)).mean())


def _inputs(cell: Cell, stream: Deployed, settings: Settings) -> dict[str, FloatArray]:
    """Return the inputs of each row by what they are, (n, d) each."""
    held_out = stream.classifier.model_.holdout_
    data, n_training = stream_data(cell["set"]), len(stream.training_labels)
    n_features, thinned = stream.rows.shape[1], np.linspace(0, n_training - 1, settings["selection_rows"])
    every = np.unique(thinned.astype(np.int64))  # of the training rows, all of which are held out once, in their order
    base, labels = held_out.log_ratios[every, 1] + logit(stream.classifier.prior_[1]), held_out.labels[every]
    base = np.clip(base, -LARGEST_LOGIT, LARGEST_LOGIT)
    both, n_numbers = np.concatenate([stream.training_rows, stream.rows]), n_features - len(data.categorical)
    training, numbers = slice(0, n_training), range(n_numbers)

    def chosen(blocks: list[FloatArray], n_leading: int) -> list[FloatArray]:
        return [blocks[i][n_training:] for i in leading([one[every] for one in blocks], base, labels, n_leading)]

    features = [encoded(both[:, i], both[training, i], categorical=i not in numbers) for i in range(n_features)]
    fifths = [segments(both[:, i], both[training, i]) for i in numbers]
    cut = [encoded(one, one[training], categorical=True) for one in fifths]
    led, drawn = chosen(features, 8), np.random.default_rng(settings["seed"]).permutation(n_features)[:8]
    nothing = np.empty((len(stream.labels), 0))
    periods = [] if cell.get("shuffled") else settings["seasons"].get(cell["set"], [])
    return {
        **{str(n): np.column_stack(led[:n]) for n in (1, 3, 8)},
        "random": np.column_stack([features[i][n_training:] for i in drawn]),
        "segments": chosen(features[n_numbers:] or cut, 1)[0],
        "season": season(data, periods)[n_training:][: len(nothing)] if periods else nothing,
        "views": np.clip(stream.evidence[:, 1:, 1] - stream.evidence[:, :1, 1], -3.0, 3.0),
    }


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the log losses of each stream, their geometric mean and worst, and what the other streams choose."""
    found: dict[str, float] = {}
    in_order = {cell["set"]: result for cell, result in results if not cell.get("shuffled")}
    still = {cell["set"]: result for cell, result in results if cell.get("shuffled")}
    first = "{:g}.{}.".format(*settings["labels"][0])
    for name, result in in_order.items():
        found |= {f"{name}.{key}": loss for key, loss in result["losses"].items() if key.startswith(first)}
        found |= {f"{name}.hindsight.{trial}": loss for trial, loss in result["hindsight"].items()}
        found[f"{name}.tracker"] = result["tracker"]
    for of, every in (("all", in_order), ("still", still)):
        for key in next(iter(every.values()))["losses"]:
            own = np.array([result["losses"][key] for result in every.values()])
            plain = key.rsplit(".", 1)[0] + f".{DEFAULT}"
            default = np.array([result["losses"][plain] for result in every.values()])
            found |= {f"{of}.{key}.mean": float(np.exp(np.log(own).mean())), f"{of}.{key}.worst": float(own.max())}
            found[f"{of}.{key}.gain"] = 1.0 - float(np.exp(np.log(own / default).mean()))
            found[f"{of}.{key}.most_over_default"] = float((own / default).max())
    for trial in settings["trials"]:
        own = np.array([result["hindsight"][trial] for result in in_order.values()])
        found[f"all.hindsight.{trial}.mean"] = float(np.exp(np.log(own).mean()))
    return found | _left_out(in_order, settings)


def _left_out(in_order: dict[str, Any], settings: Settings) -> dict[str, float]:
    """Return the candidate that the other streams choose for each stream, by its number, and the log loss with it."""
    candidates = candidates_of(settings)
    found: dict[str, float] = {}
    losses = {name: np.array([result["losses"][key] for key in candidates]) for name, result in in_order.items()}
    for name, own in losses.items():
        others = np.array([losses[other] for other in losses if other != name] or [own])
        harmless = others.max(axis=0) <= settings["most_harm"]
        chosen = int(np.where(harmless, np.log(others).mean(axis=0), np.inf).argmin())
        found |= {f"{name}.left_out.candidate": float(chosen), f"{name}.left_out.log_loss": float(own[chosen])}
    every = np.array([found[f"{name}.left_out.log_loss"] for name in losses])
    found |= {"all.left_out.mean": float(np.exp(np.log(every).mean())), "all.left_out.worst": float(every.max())}
    default = np.array([own[0] for own in losses.values()])
    return found | {"all.left_out.gain": 1.0 - float(np.exp(np.log(every / default).mean()))}
