"""Hold a plan, made from held-out scores, against streams of fresh rows: widths of the prior, savings, delays."""

from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.markdown import markdown_table
from experiments.protocol import present_sets, split_set
from experiments.runner import Cell, Settings
from experiments.scenarios import SCENARIOS, SIX
from obil import Costs, OnlineClassifier, RatioClassifier, RatioModel, plan
from obil.arrays import FloatArray, IntArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.evaluation.monitor_delays import MOST_MONITORED, monitor_delays
from obil.evaluation.scored_rows import ScoredRows
from obil.policies import CostPolicy
from obil.serving.holdout import Holdout
from obil.trackers import BayesBank
from obil.trackers.evidence import BinaryEvidence

SMALL = 1.0  # a planned saving per 1,000 rows below it is not compared
PATH_PRIORS = tuple(np.geomspace(0.005, 0.6, 12).tolist())  # between which savings of a path are interpolated
TEXT = """A logistic regression is fitted on one part of the rows and planned for; streams are drawn from the other
part, which neither fit nor plan has seen. Each figure is what streams gave over what was planned, both averaged over
{n_splits} splits, each with {n_streams} streams of {n_rows:,} rows. Width: of the {level:.0%} interval of the prior
without labels, at four priors around that of training. Saving: of costs 1 and {false_negative:g}, thresholds at the
true prior against the training prior's; on the six simulated scenarios along their paths, on real sets at those
priors. By the bank: the same, at the prior that the Bayes bank tracks from the training prior on, which lags behind a
prior that moves. Delay: median rows until the monitor's alarm, {n_monitored} streams, three changes of the scores.
Savings planned below {small:g} per 1,000 rows and changes that the monitor does not notice are left out.
"""


def cells(settings: Settings) -> list[Cell]:
    """List the models: Gaussian classes by separation, and those of real sets that are at hand."""
    simulated = [f"separation {separation:g}" for separation in settings["separations"]]
    return [
        {"model": name, "split": split}
        for name in (*simulated, *present_sets(settings["sets"]))
        for split in range(settings["n_splits"])
    ]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Return what was planned and what streams of fresh rows gave, by figure and condition."""
    settings = {**settings, "seed": settings["seed"] + cell["split"]}
    model, new, labels = _fitted(cell["model"], settings)
    scores = model.score(new)
    training = float(model.prior_[1])
    odds = np.array(settings["odds"]) * training / (1.0 - training)
    priors = (odds / (1.0 + odds)).tolist()
    costs = Costs(false_positive=1.0, false_negative=settings["false_negative"])
    planned = plan(model, priors=priors, costs=costs, level=settings["level"], random_state=settings["seed"])
    fresh = _Fresh(scores.log_ratios, scores.evidence_from(0), labels, settings)
    found: dict[str, Any] = {"width": {}, "saving": {}, "delay": {}}
    held_out = ScoredRows.of(model.evidence_holdout, model.prior_, 1, soft=True)
    for factor, one in zip(settings["odds"], planned.priors, strict=True):
        n_rows = int(np.clip(one.rows_to_know or settings["most_known"], 500, settings["most_known"]))
        low, high = held_out.interval(one.prior, n_rows, settings["level"])
        found["width"][f"{factor:g}"] = [high - low, fresh.width(one.prior, n_rows)]
    if cell["model"].startswith("separation"):
        along = plan(model, priors=PATH_PRIORS, costs=costs, random_state=settings["seed"])
        for name in SIX:
            path = SCENARIOS[name](settings["n_rows"])
            expected = np.interp(path, PATH_PRIORS, [one.saving for one in along.priors]).mean()
            found["saving"][name] = [float(expected), *fresh.savings(model, path, costs)]
    else:
        for factor, one in zip(settings["odds"], planned.priors, strict=True):
            path = np.full(settings["n_rows"], one.prior)
            found["saving"][f"{factor:g}"] = [one.saving, *fresh.savings(model, path, costs)]
    rows = Holdout(model.fold_scores(new)[:, 0], labels, np.ones(len(labels)))
    delays = monitor_delays(model, rows=rows, n_streams=settings["n_monitored"], random_state=1 + settings["seed"])
    for name, delay in planned.delays.items():
        found["delay"][name] = [delay, delays[name]]
    return found


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name each figure over its plan, and the least and the most of each kind."""
    runs: dict[tuple[str, str, str], list[list[float]]] = {}
    for cell, result in results:
        for kind, pairs in result.items():
            for name, values in pairs.items():
                condition = name if kind == "delay" or name in SIX else f"{name} x"
                own = [MOST_MONITORED if value is None else value for value in values]
                runs.setdefault((cell["model"], kind, condition), []).append(own)
    found: dict[str, float] = {}
    for (model, kind, name), values in runs.items():
        planned, simulated, *by_bank = np.mean(values, axis=0).tolist()
        if (kind == "saving" and planned < SMALL) or (kind == "delay" and planned >= MOST_MONITORED):
            continue
        found[f"{model}.{kind}.{name}"] = simulated / planned
        found |= {f"{model}.bank.{name}": one / planned for one in by_bank}
    for kind in ("width", "saving", "bank", "delay"):
        own = [value for name, value in found.items() if f".{kind}." in name]
        if own:
            found |= {f"{kind}.least": min(own), f"{kind}.most": max(own), f"{kind}.median": float(np.median(own))}
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    models = dict.fromkeys(name.partition(".width.")[0] for name in figures if ".width." in name)
    rows = []
    for model in models:
        cells_ = []
        for kind in ("width", "saving", "bank", "delay"):
            own = [value for name, value in figures.items() if name.startswith(f"{model}.{kind}.")]
            cells_.append(f"{min(own):.2f} to {max(own):.2f}" if own else "-")
        rows.append([model, *cells_])
    header = ["model", "width", "saving", "saving by the bank", "delay"]
    return f"{TEXT.format(**settings, small=SMALL)}\n{markdown_table(header, rows)}\n"


def _fitted(name: str, settings: Settings) -> tuple[RatioModel, FloatArray, IntArray]:
    """Return a model, and fresh rows with their labels."""
    if name.startswith("separation"):
        classes = GaussianClasses.spread(float(name.split()[1]), n_features=settings["n_features"])
        prior, seed = settings["training_prior"], settings["seed"]
        train = classes.draw(np.full(settings["training_rows"], prior), random_state=seed)
        fresh = classes.draw(np.full(settings["fresh_rows"], 0.3), random_state=seed + 1)
        X, y, new, labels = train.features, train.labels, fresh.features, fresh.labels
    else:
        split = split_set(name, settings["seed"], 0.5)
        X, new = split.train.to_numpy(np.float64), split.test.to_numpy(np.float64)
        y, labels = split.train_labels, split.test_labels
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression())
    classifier = RatioClassifier(pipeline, random_state=settings["seed"])
    return classifier.fit(X, y).model_, new, labels


class _Fresh:
    """Rows that neither fit nor plan has seen."""

    def __init__(self, log_ratios: FloatArray, evidence: FloatArray, labels: IntArray, settings: Settings) -> None:
        self._log_ratios, self._evidence, self._labels = log_ratios, evidence, labels
        self._by_class = [np.flatnonzero(labels == k) for k in range(2)]
        self._n_streams, self._level, self._seed = settings["n_streams"], settings["level"], settings["seed"]

    def _drawn(self, path: FloatArray, seed: int) -> IntArray:
        rng = np.random.default_rng([self._seed, seed])
        is_positive = rng.random(len(path)) < path
        negative, positive = (rng.choice(own, len(path)) for own in self._by_class)
        return np.where(is_positive, positive, negative)

    def width(self, prior: float, n_rows: int) -> float:
        """Return the mean width of the interval of the prior, from so many rows without labels."""
        path, widths = np.full(n_rows, prior), []
        for seed in range(self._n_streams):
            evidence = BinaryEvidence.of(self._evidence[self._drawn(path, seed), 0])
            widths.append(float(np.ptp(evidence.estimate(level=self._level).interval[1])))
        return float(np.mean(widths))

    def savings(self, model: RatioModel, path: FloatArray, costs: Costs) -> tuple[float, float]:
        """Return savings per 1,000 rows against the training prior's threshold: at the true prior, and by the bank."""
        static, *best = CostPolicy(costs).bind(None).log_thresholds([model.prior_[1], *path])
        saved = []
        for seed in range(self._n_streams):
            rows = self._drawn(path, seed)
            online = OnlineClassifier(model, costs=costs, tracker=BayesBank(), monitor=False, horizon=0)
            adapted = online.decide_log_ratios(self._log_ratios[rows], evidence=self._evidence[rows][:, :1]).numbers
            labels, scores, matrix = self._labels[rows], self._log_ratios[rows, 1], costs.matrix
            fixed, known = ((scores > threshold).astype(np.int64) for threshold in (static, np.array(best)))
            saved.append([(matrix[fixed, labels] - matrix[one, labels]).mean() for one in (known, adapted)])
        at_prior, by_bank = 1_000.0 * np.mean(saved, axis=0)
        return float(at_prior), float(by_bank)
