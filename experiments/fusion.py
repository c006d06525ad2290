"""Hold the paper's weights of members, which come from dropout variance, against how well the members rank rows.

Each member of Algorithm 1 scores the test rows and has a dropout variance on them. The weights are the paper's,
exp(-variance / tau), at the temperature that the fit chose, or at the median variance where it chose equal weights.
Fusions of the same members are compared by AUPRC on the same test rows. Training prior, no prior shift.
"""

from typing import Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import spearmanr
from sklearn.metrics import average_precision_score
from threadpoolctl import threadpool_limits

from experiments.markdown import markdown_table
from experiments.protocol import missing_networks_or_sets, present_sets, require_set
from experiments.runner import Cell, Settings
from obil.arrays import FloatArray
from obil.calibration.fuse import dropout_weights
from obil.datasets.splits import stratified_split
from obil.estimators.ensemble_fit import variance_of
from obil.estimators.obil_classifier import OBILClassifier

FUSIONS = {
    "weights": "geometric, weighted by dropout variance (the paper)",
    "geometric": "geometric, equal weights",
    "arithmetic": "arithmetic, equal weights",
    "median": "median of the log ratios",
    "without": "geometric, equal weights, without the worst member",
    "best": "the best member alone, in hindsight",
}


def missing(settings: Settings) -> str | None:
    """Return why this experiment cannot run here, or None; a set that is not at hand is left out."""
    return missing_networks_or_sets(settings["sets"])


def cells(settings: Settings) -> list[Cell]:
    """List the work: one fit on one split of one set."""
    return [
        {"set": name, "split": split} for split in range(settings["splits"]) for name in present_sets(settings["sets"])
    ]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Fit Algorithm 1's ensemble; measure its members, their weights and their fusions on rows they have not seen."""
    data, seed = require_set(cell["set"]), cell["split"]
    rows, labels = data.features.to_numpy(dtype=np.float64), data.labels.astype(np.int64)
    train, test = stratified_split(labels, test_size=settings["test_share"], random_state=seed, rows=rows)
    with threadpool_limits(1):
        model = OBILClassifier(member=settings["member"], views=False, random_state=seed)
        model.fit(rows[train], labels[train])
        scores = np.stack([member.scorer.scores(rows[test])[:, 1] for member in model.members_], axis=1)
        variances = np.stack(
            [variance_of(m, rows[test], n_passes=settings["passes"], seed=seed) for m in model.members_], axis=1
        )
    temperature = model.fusion_temperature_
    if temperature is None or not np.isfinite(temperature):
        temperature = float(np.median(variances))
    return measured(scores, variances, labels[test], temperature)


def measured(scores: FloatArray, variances: FloatArray, labels: Any, temperature: float) -> dict[str, Any]:
    """Return each member's AUPRC and mean weight, their rank correlation, and the AUPRC of each fusion.

    `scores` and `variances` are (n, M): log ratios of class 1, and their variance over dropout passes.
    """
    weights = dropout_weights(variances, temperature)
    areas = np.array([average_precision_score(labels, column) for column in scores.T])
    others = np.delete(scores, int(np.argmin(areas)), axis=1)
    fused = {
        "weights": (weights * scores).sum(axis=1),
        "geometric": scores.mean(axis=1),
        "arithmetic": logsumexp(scores, axis=1),
        "median": np.median(scores, axis=1),
        "without": others.mean(axis=1),
    }
    found = {name: float(average_precision_score(labels, column)) for name, column in fused.items()}
    mean_weights = weights.mean(axis=0)
    return found | {
        "best": float(areas.max()),
        "areas": areas.tolist(),
        "mean_weights": mean_weights.tolist(),
        "correlation": float(spearmanr(mean_weights, areas).statistic),
        "worst_weight": float(mean_weights[np.argmin(areas)]),
    }


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the correlations of weights with AUPRC, and the mean AUPRC of each fusion by set."""
    correlations = np.array([result["correlation"] for _, result in results])
    found: dict[str, float] = {
        "fits": float(len(results)),
        "negative": float((correlations < 0.0).sum()),
        "correlation.mean": float(correlations.mean()),
        "worst_weight.mean": float(np.mean([result["worst_weight"] for _, result in results])),
        "equal_weight": 1.0 / len(results[0][1]["areas"]),
        "geometric.below_median": float(sum(r["geometric"] < r["median"] for _, r in results)),
        "geometric.below_without": float(sum(r["geometric"] < r["without"] for _, r in results)),
    }
    for name in dict.fromkeys(cell["set"] for cell, _ in results):
        own = [result for cell, result in results if cell["set"] == name]
        found[f"correlation.{name}"] = float(np.mean([result["correlation"] for result in own]))
        found[f"negative.{name}"] = float(sum(result["correlation"] < 0.0 for result in own))
        for fusion in FUSIONS:
            values = [result[fusion] for result in own]
            found |= {f"auprc.{name}.{fusion}": float(np.mean(values)), f"least.{name}.{fusion}": float(min(values))}
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write AUPRC by set and fusion, and how the weights go with the members' AUPRC."""
    sets = [name for name in settings["sets"] if f"correlation.{name}" in figures]
    n_splits = settings["splits"]
    lines = [
        f"**Fusing the members of Algorithm 1.** Mean AUPRC over {n_splits} splits (in brackets: the worst split), "
        f'`member="{settings["member"]}"`, test rows at the training prior.\n',
        markdown_table(
            ["fusion", *sets],
            [
                [text, *(f"{figures[f'auprc.{s}.{key}']:.3f} ({figures[f'least.{s}.{key}']:.3f})" for s in sets)]
                for key, text in FUSIONS.items()
            ],
        ),
        "**Weights against AUPRC.** Rank correlation, over the members of one fit, of a member's mean weight "
        "exp(-variance / tau) with its own AUPRC: were dropout variance a measure of error, it would be positive.\n",
        markdown_table(
            ["", *sets],
            [
                ["mean rank correlation", *(f"{figures[f'correlation.{s}']:+.2f}" for s in sets)],
                [f"fits of {n_splits} where it is negative", *(f"{figures[f'negative.{s}']:.0f}" for s in sets)],
            ],
        ),
        f"It is negative in {figures['negative']:.0f} of {figures['fits']:.0f} fits; mean "
        f"{figures['correlation.mean']:+.2f}. The worst member of a fit has a mean weight of "
        f"{figures['worst_weight.mean']:.2f}, where equal weights give {figures['equal_weight']:.2f}. The geometric "
        f"mean with equal weights is below the median of the same members in {figures['geometric.below_median']:.0f} "
        f"fits, and below itself without the worst member in {figures['geometric.below_without']:.0f}.\n",
    ]
    return "\n".join(lines)
