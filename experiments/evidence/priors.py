"""Estimate the prior of shifted streams of mammography with nine models: they should all find the truth."""

from typing import Any

import numpy as np

from experiments.mammography import MODELS
from experiments.markdown import markdown_table
from experiments.protocol import named_set
from experiments.runner import Cell, Settings
from obil.datasets.shift_protocol import shifted_streams
from obil.datasets.splits import stratified_split
from obil.errors import InvalidInputError
from obil.estimators.ratio_classifier import RatioClassifier
from obil.trackers.pass_search import estimate_from_rows

TOLERANCE = 0.05  # beside two standard errors


def cells(settings: Settings) -> list[Cell]:
    """List the work: one model on one split."""
    return [{"model": model, "split": split} for split in range(settings["splits"]) for model in settings["models"]]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Fit one model on one split, and estimate the priors of streams drawn from the held-out rows."""
    data, seed = named_set("mammography"), cell["split"]
    if data is None:
        raise InvalidInputError("mammography was at hand and is no more")
    rows, labels = data.features.to_numpy(), data.labels.astype(np.int64)
    together = rows if settings["duplicates_together"] else None
    split = stratified_split(labels, test_size=settings["test_share"], random_state=seed, rows=together)
    model = RatioClassifier(MODELS[cell["model"]](seed), random_state=seed).fit(rows[split.train], labels[split.train])
    evidence = model.model_.evidence_rows(rows[split.test])
    streams = shifted_streams(
        labels[split.test], train_prior=model.prior_, factors=settings["factors"], n_draws=settings["draws"],
        n_rows=settings["n_rows"], random_state=seed,
    )  # fmt: skip
    found: dict[str, list[float]] = {}
    for stream in streams:
        # what `estimate_prior` finds, without scoring a row again whenever it is drawn again
        estimate = estimate_from_rows(evidence[stream.rows])
        found.setdefault(str(stream.factor), []).append(float(estimate.prior[1]) / stream.prior)
    assert model.model_.evidence is not None
    return {key: float(np.mean(values)) for key, values in found.items()} | {"choice": model.model_.evidence.choice}


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the mean and standard error of each model, how many are off, and how far the models are apart."""
    found: dict[str, float] = {}
    for factor in map(str, settings["factors"]):
        means, off = [], 0
        for model in settings["models"]:
            values = [result[factor] for cell, result in results if cell["model"] == model]
            mean, error = float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))
            found[f"mean.{factor}.{model}"], found[f"se.{factor}.{model}"] = mean, error
            off += abs(mean - 1.0) > 2.0 * error + TOLERANCE
            means.append(mean)
        found[f"off.{factor}"] = float(off)
        found[f"spread.{factor}"] = max(means) - min(means)
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the ratios as Markdown."""
    factors = [str(factor) for factor in settings["factors"]]
    rows = [
        [model, *(f"{figures[f'mean.{f}.{model}']:.3f} ({figures[f'se.{f}.{model}']:.3f})" for f in factors)]
        for model in settings["models"]
    ]
    rows.append(["largest - smallest", *(f"{figures[f'spread.{f}']:.3f}" for f in factors)])
    rows.append(["beyond 2 standard errors + 5 %", *(f"{figures[f'off.{f}']:.0f}" for f in factors)])
    header = [f"{float(f):g} Qp (odds of the positives x {1.0 / float(f):g})" for f in factors]
    return (
        "## Prior over truth\n\n"
        f"Mammography, {settings['splits']} splits ({settings['test_share']:.0%} of the rows held out, duplicates "
        f"{'on one side' if settings['duplicates_together'] else 'anywhere'}). The prior that `estimate_prior` finds "
        f"in {settings['n_rows']:,} held-out rows drawn at another imbalance ratio than Qp, the training rows', over "
        "the true prior: mean and, in brackets, its standard error.\n\n" + markdown_table(["model", *header], rows)
    )
