"""Time training, scoring and adapting, one thread each, beside the paper's table of computational cost.

Every time is the fastest of a few, taken in turns so that a slow moment of the machine hits all alike. Machines
differ: the ratios to the vanilla network's times in the same run are what can be compared.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from experiments import efficiency_page
from experiments.baselines.network import Prepared, network, prepare
from experiments.baselines.ours import ALGORITHM_2, BANK, SAFE, Follow
from experiments.baselines.trained import TRAINED
from experiments.efficiency_page import TRACKERS, VANILLA
from experiments.one_thread import one_thread
from experiments.paper_formulas import log_ratios_from_posterior
from experiments.protocol import present_sets, split_set
from experiments.runner import Cell, Settings
from obil.arrays import FloatArray
from obil.estimators.obil_classifier import OBILClassifier
from obil.estimators.ratio_classifier import RatioClassifier
from obil.trackers import BBSE, PriorTracker
from obil.trackers.bbse import confusion_of_predictions

table = efficiency_page.table
MILLISECONDS = 1_000.0
Fit = Callable[[Prepared, int], Any]  # rows and a seed -> a fitted model
Works = dict[str, Callable[[], object]]


@dataclass(frozen=True, slots=True, eq=False)
class BlackBox:
    """The vanilla network, and the confusion matrix of its posteriors on held-out rows: all that BBSE needs."""

    network: Any
    prior: float  # of the rows that fit
    confusion: FloatArray  # (2, 2)

    @classmethod
    def fit(cls, data: Prepared, seed: int) -> "BlackBox":
        """Train on the fitting rows, and count the predictions on the validation rows."""
        fitted, prior = network(seed).fit(data.rows[data.fit], data.labels[data.fit]), data.labels[data.fit].mean()
        held_out = log_ratios_from_posterior(fitted.predict_proba(data.rows[data.validation]), float(prior))
        predictions = confusion_of_predictions(held_out, data.labels[data.validation], prior=float(prior), soft=True)
        return cls(fitted, float(prior), predictions)

    def log_ratios(self, rows: FloatArray) -> FloatArray:
        """Return log ratios (n, 2), which `tracker` turns back into posteriors."""
        return log_ratios_from_posterior(self.network.predict_proba(rows), self.prior)

    def tracker(self, window: int) -> BBSE:
        """Return obil's BBSE over so many rows."""
        return BBSE(self.prior, confusion=self.confusion, training_prior=self.prior, soft=True, window=window)


def _baseline(name: str, setting: str) -> Fit:
    build = TRAINED[name][setting]  # now: a setting that the comparison gives up must not be found out in a full run
    return lambda data, seed: build(seed, 1.0).fit(data.rows, data.labels)


def _boosting(data: Prepared, seed: int) -> Any:
    model = RatioClassifier(HistGradientBoostingClassifier(random_state=seed), views=True, random_state=seed)
    return model.fit(data.rows, data.labels)


FITS: dict[str, Fit] = {
    VANILLA: lambda data, seed: network(seed).fit(data.rows, data.labels),
    "SMOTE": _baseline("SMOTE", "to 1, 5 neighbours"),
    "RUSBoost, 50 stumps": _baseline("RUSBoost", "50 stumps, to 1"),
    "RUSBoost, 10 networks": _baseline("RUSBoost", "10 networks, rate .1, to 1"),
    "BBSE": BlackBox.fit,
    "OBIL paper": lambda data, seed: OBILClassifier(member="paper", random_state=seed).fit(data.rows, data.labels),
    "OBIL default": lambda data, seed: OBILClassifier(random_state=seed).fit(data.rows, data.labels),
    "boosting": _boosting,
}
FOLLOWS: dict[str, Follow] = {"Algorithm 2": ALGORITHM_2, "bank": BANK, "safe tracker": SAFE}


def missing(settings: Settings) -> str | None:
    """Return why this experiment cannot run here, or None."""
    if find_spec("torch") is None:
        return "networks are trained with torch: pip install 'obil[torch]'"
    return None if present_sets([settings["set"]]) else f"{settings['set']} is not at hand: set OBIL_DATA"


def cells(settings: Settings) -> list[Cell]:
    """List the work: all of it in one cell, since times of different moments cannot be compared."""
    return [{"split": settings["split"]}]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Return the fewest seconds of training, of scoring a row, and of adapting to one."""
    split = split_set(settings["set"], cell["split"], settings["test_share"])
    data = prepare(split)
    models: dict[str, Any] = {}

    def training(name: str) -> Callable[[], object]:
        return lambda: models.update({name: FITS[name](data, split.seed)})

    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # networks stop after a number of epochs, as they are told to
        found = fastest({f"train.{name}": training(name) for name in settings["models"]}, settings["train_repeats"])
        drawn = np.random.default_rng(split.seed).integers(len(data.test), size=settings["block_rows"])
        works: Works = {}
        per_row: dict[str, int] = {}
        for name, model in models.items():
            own, counts = _works(name, model, data.test[drawn], settings)
            works |= own
            per_row |= counts
        seconds = fastest(works, settings["repeats"])
    found |= {name: seconds[name] / per_row[name] for name in works}
    rounds = {f"rounds.{name}": len(model.estimators_) for name, model in models.items() if name.startswith("RUSBoost")}
    return found | rounds


def _works(name: str, model: Any, rows: FloatArray, settings: Settings) -> tuple[Works, dict[str, int]]:
    """Return what is timed of a fitted model, and by how many its seconds are divided."""
    single = [row[None] for row in rows[: settings["single_rows"]]]
    works: Works = {
        f"row.{name}": lambda: [_scored(model, row) for row in single],
        f"block.{name}": lambda: _scored(model, rows),
    }
    counts = {f"row.{name}": len(single), f"block.{name}": len(rows)}
    scored = _scored(model, rows)
    if isinstance(model, BlackBox):
        batch, bbse = rows[: settings["batch_rows"]], model.tracker(settings["batch_rows"])
        ratios = model.log_ratios(batch)
        works |= {"solve": lambda: bbse.update_many(ratios)}
        works |= {"score and solve": lambda: bbse.update_many(model.log_ratios(batch))}
        counts |= {"solve": 1, "score and solve": 1}
    for tracker in TRACKERS.get(name, ()):
        one, many = (_tracker(tracker, model, settings) for _ in range(2))
        method = f"{name}, {tracker}"
        works |= {
            f"adapt row.{method}": partial(_follow_one_by_one, one, *scored),
            f"adapt block.{method}": partial(many.update_many, scored[0], evidence=scored[1]),
        }
        counts |= {f"adapt row.{method}": len(rows), f"adapt block.{method}": len(rows)}
    return works, counts


def _tracker(name: str, model: Any, settings: Settings) -> PriorTracker:
    if isinstance(model, BlackBox):
        return model.tracker(settings["batch_rows"])
    return FOLLOWS[name](model.model_, float("nan"))


def _scored(model: Any, rows: FloatArray) -> tuple[FloatArray, FloatArray | None]:
    """Return what deciding rows needs of a model: posteriors or log ratios, (n, 2), and evidence of the prior."""
    if isinstance(model, BlackBox):
        return model.log_ratios(rows), None
    if not hasattr(model, "model_"):
        return model.predict_proba(rows), None
    scores = model.model_.score(rows)
    return scores.log_ratios, scores.evidence_from(0)


def _follow_one_by_one(tracker: PriorTracker, log_ratios: FloatArray, evidence: FloatArray | None) -> None:
    if evidence is None:
        for row in log_ratios:
            tracker.update(row)
        return
    for row, own in zip(log_ratios, evidence, strict=True):
        tracker.update(row, evidence=own)


def fastest(works: Works, repeats: int) -> dict[str, float]:
    """Return the fewest seconds each work took, taken in turns.

    >>> list(fastest({"nothing": lambda: None}, 2))
    ['nothing']
    """
    found = dict.fromkeys(works, np.inf)
    for _ in range(repeats):
        for name, work in works.items():
            started = time.perf_counter()
            work()
            found[name] = min(found[name], time.perf_counter() - started)
    return found


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the times, seconds to train and milliseconds a row for all else, and their ratios to the vanilla network's.

    The time that adapting to a row takes is held against that of scoring one.
    """
    ((_, seconds),) = results
    found: dict[str, float] = {}
    for name, value in seconds.items():
        work, _, _ = name.partition(".")
        found[name] = value if work in ("train", "rounds") else MILLISECONDS * value
        if work in ("train", "row", "block"):
            found[f"{name} over {VANILLA}"] = value / seconds[f"{work}.{VANILLA}"]
        if work in ("adapt row", "adapt block"):
            found[f"{name} over {VANILLA}"] = value / seconds[f"{work.removeprefix('adapt ')}.{VANILLA}"]
    return found
