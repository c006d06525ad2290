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
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logit
from sklearn.ensemble import HistGradientBoostingClassifier

from experiments.baselines.network import Prepared, network, prepare
from experiments.baselines.ours import ALGORITHM_2, BANK, SAFE, Follow
from experiments.baselines.trained import TRAINED
from experiments.markdown import markdown_table
from experiments.one_thread import one_thread
from experiments.protocol import present_sets, split_set
from experiments.runner import Cell, Settings
from obil.arrays import FloatArray
from obil.estimators.obil_classifier import OBILClassifier
from obil.estimators.ratio_classifier import RatioClassifier
from obil.prior import PriorTracker
from obil.prior.confusion import confusion_of_votes

MILLISECONDS = 1_000.0
VANILLA = "Vanilla"
Fit = Callable[[Prepared, int], Any]  # rows and a seed -> a fitted model
Works = dict[str, Callable[[], object]]


class Claim(NamedTuple):
    """What the paper says a method takes."""

    train: float  # seconds
    infer: float  # milliseconds
    adapt: float | None  # milliseconds


# table "Computational Cost (Mammography Dataset)", by the first word of a method
PAPER = {
    "Vanilla": Claim(12.0, 0.3, None),
    "SMOTE": Claim(45.0, 0.3, None),
    "RUSBoost": Claim(89.0, 1.5, None),
    "BBSE": Claim(12.0, 0.3, 50.0),
    "OBIL paper": Claim(67.0, 1.5, 0.01),
}


@dataclass(frozen=True, slots=True, eq=False)
class BlackBox:
    """The vanilla network with what held-out rows say of its soft votes: all that BBSE needs."""

    network: Any
    confusion: FloatArray  # (2, 2)

    @classmethod
    def fit(cls, data: Prepared, seed: int) -> "BlackBox":
        """Train on the fitting rows, and count the votes on those that validate."""
        fitted = network(seed).fit(data.rows[data.fit], data.labels[data.fit])
        votes = np.clip(fitted.predict_proba(data.rows[data.validation])[:, 1], 1e-9, 1.0 - 1e-9)
        even = np.stack([np.zeros(len(votes)), logit(votes)], axis=1)  # whose posterior at 1/2 is the vote
        return cls(fitted, confusion_of_votes(even, data.labels[data.validation], prior=0.5, soft=True))

    def predict_proba(self, rows: FloatArray) -> FloatArray:
        """Return the network's posteriors, (n, 2)."""
        return np.asarray(self.network.predict_proba(rows))

    def prior_of(self, votes: FloatArray) -> FloatArray:
        """Return the prior (2,) that explains the mean vote of a batch, (n, 2)."""
        shares = np.maximum(np.linalg.solve(self.confusion, votes.mean(axis=0)), 0.0)
        return np.asarray(shares / shares.sum())


def _baseline(name: str, setting: str) -> Fit:
    return lambda data, seed: TRAINED[name][setting](seed, 1.0).fit(data.rows, data.labels)


def _boosting(data: Prepared, seed: int) -> Any:
    model = RatioClassifier(HistGradientBoostingClassifier(random_state=seed), views=True, random_state=seed)
    return model.fit(data.rows, data.labels)


FITS: dict[str, Fit] = {
    VANILLA: lambda data, seed: network(seed).fit(data.rows, data.labels),
    "SMOTE": _baseline("SMOTE", "to 1, 5 neighbours"),
    "RUSBoost, 50 stumps": _baseline("RUSBoost", "50 stumps"),
    "RUSBoost, 10 networks": _baseline("RUSBoost", "10 networks"),
    "BBSE": BlackBox.fit,
    "OBIL paper": lambda data, seed: OBILClassifier(member="paper", random_state=seed).fit(data.rows, data.labels),
    "OBIL default": lambda data, seed: OBILClassifier(random_state=seed).fit(data.rows, data.labels),
    "boosting": _boosting,
}
TRACKERS: dict[str, dict[str, Follow]] = {
    "OBIL paper": {"Algorithm 2": ALGORITHM_2, "bank": BANK},
    "OBIL default": {"safe tracker": SAFE},
    "boosting": {"safe tracker": SAFE},
}


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
    if isinstance(model, BlackBox):
        batch = rows[: settings["batch_rows"]]
        votes = model.predict_proba(batch)
        works |= {"solve": lambda: model.prior_of(votes)}
        works |= {"score and solve": lambda: model.prior_of(model.predict_proba(batch))}
        counts |= {"solve": 1, "score and solve": 1}
    for tracker_name, follow in TRACKERS.get(name, {}).items():
        one, many = (follow(model.model_, float("nan")) for _ in range(2))
        method, scored = f"{name}, {tracker_name}", _scored(model, rows)
        works |= {
            f"adapt row.{method}": partial(_follow_one_by_one, one, *scored),
            f"adapt block.{method}": partial(many.update_many, scored[0], views=scored[1]),
        }
        counts |= {f"adapt row.{method}": len(rows), f"adapt block.{method}": len(rows)}
    return works, counts


def _scored(model: Any, rows: FloatArray) -> tuple[FloatArray, FloatArray | None]:
    """Return what deciding rows needs of a model: posteriors or log ratios, (n, 2), and the views where it has any."""
    if not hasattr(model, "model_"):
        return model.predict_proba(rows), None
    return model.log_ratios(rows), model.model_.views(rows) if model.model_.view_members else None


def _follow_one_by_one(tracker: PriorTracker, log_ratios: FloatArray, views: FloatArray | None) -> None:
    if views is None:
        for row in log_ratios:
            tracker.update(row)
        return
    for row, own in zip(log_ratios, views, strict=True):
        tracker.update(row, views=own)


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


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:  # noqa: ARG001
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


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    models = settings["models"]
    claims = {name: PAPER.get(name.partition(",")[0]) for name in models}
    costs = [
        [
            name,
            *(_claimed(claim.train, PAPER[VANILLA].train) if (claim := claims[name]) else ("", "")),
            f"{figures[f'train.{name}']:.3g}",
            _times(figures[f"train.{name} over {VANILLA}"]),
            *(_claimed(claim.infer, PAPER[VANILLA].infer) if claim else ("", "")),
            f"{figures[f'row.{name}']:.3g}",
            _times(figures[f"row.{name} over {VANILLA}"]),
            f"{figures[f'block.{name}']:.2g}",
            _times(figures[f"block.{name} over {VANILLA}"]),
        ]
        for name in models
    ]
    trackers = [(name, tracker) for name in models for tracker in TRACKERS.get(name, {})]
    adapting = [
        [
            f"{name}, {tracker}",
            f"{PAPER[name].adapt:g}" if tracker == "Algorithm 2" else "",
            f"{figures[f'adapt row.{name}, {tracker}']:.2g}",
            _times(figures[f"adapt row.{name}, {tracker} over {VANILLA}"]),
            f"{figures[f'adapt block.{name}, {tracker}']:.2g}",
            _times(figures[f"adapt block.{name}, {tracker} over {VANILLA}"]),
        ]
        for name, tracker in trackers
    ]
    rounds = (f"`{name}` kept {figures[f'rounds.{name}']:.0f}" for name in models if f"rounds.{name}" in figures)
    head = (
        f"Seconds to train on {settings['set']}, and milliseconds a row to score and to adapt, on one thread: the "
        f"fastest of {settings['train_repeats']} runs (training) or {settings['repeats']} (the rest), taken in turns. "
        f"Machines differ, so read the columns x: they are over {VANILLA}'s in the same run. The paper's columns are "
        f"its claims. Rows are scored one at a time, and in a block of {settings['block_rows']:,}, by scikit-learn's "
        "`predict_proba` or our `log_ratios`; boosting also scores the four views that its tracker looks at. "
        f"{VANILLA} is scikit-learn's network with 128, 64 and 32 units, 50 epochs; a member of `OBIL paper` trains "
        "for up to 100, and 30 dropout passes weigh it. BBSE trains on three quarters of the rows; the "
        "others tell how its votes err. `boosting` is "
        "`RatioClassifier(HistGradientBoostingClassifier())`: five folds, one fit on all rows, and the views. RUSBoost "
        f"(imbalanced-learn) ends when a round errs on half the weight: {', '.join(rounds)} rounds.\n"
    )
    follow_head = (
        f"Adapting to a row once it is scored. The columns x are over {VANILLA}'s time to score a row, one at a time "
        "or in a block.\n"
    )
    batch = (
        f"BBSE (soft votes) adapts to a batch: {settings['batch_rows']:,} rows take {figures['solve']:.2g} ms "
        f"to solve for the prior once they are scored, {figures['solve'] / settings['batch_rows']:.1g} ms a row, and "
        f"{figures['score and solve']:.2g} ms with scoring them. The paper's claim is {PAPER['BBSE'].adapt:g} ms.\n"
    )
    columns = [
        "model",
        "train, s, paper",
        "x, paper",
        "train, s",
        "x",
        "a row, ms, paper",
        "x, paper",
        "a row, ms",
        "x",
    ]
    return "\n".join(
        [
            head,
            markdown_table([*columns, "in a block, ms", "x"], costs),
            follow_head,
            markdown_table(["tracker", "a row, ms, paper", "a row, ms", "x", "in a block, ms", "x"], adapting),
            batch,
        ]
    )


def _claimed(value: float, vanilla: float) -> tuple[str, str]:
    return f"{value:g}", _times(value / vanilla)


def _times(ratio: float) -> str:
    return f"{ratio:.2g}" if ratio < 10.0 else f"{ratio:.0f}"
