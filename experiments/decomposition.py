"""Say what each reading of Algorithm 1 costs: one change at a time, from our first reading to `member="paper"`.

The paper states five networks [128, 64, 32] with rectifiers, the class ratios, squared error, Adam at 1e-3, 100 epochs
with early stopping and weights from dropout. Where outputs start, how long a small problem trains, which rows say when
to stop and which calibrate is left open. AUPRC at the training prior; a plain network stands beside it.
"""

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

from experiments.baselines.network import network, prepare
from experiments.markdown import markdown_table
from experiments.one_thread import one_thread
from experiments.protocol import SET_NAMES, missing_networks_or_sets, present_sets, split_set
from experiments.runner import Cell, Settings
from experiments.significance import corrected_two_sided
from obil.arrays import FloatArray
from obil.estimators.obil_classifier import OBILClassifier
from obil.estimators.recipes import PAPER
from obil.networks.settings import NetworkKind

PLAIN, NOW = "plain network", 'cross-fitted, every row used: `member="paper"`'
FIRST, REFITTED = "first reading", "trained afresh on all rows of the problem"
HELD_OUT = 0.2  # of the rows, where nothing is cross-fitted

Results = list[tuple[Cell, dict[str, Any]]]


def _paper(**changes: Any) -> NetworkKind:
    """Return the paper's network with some settings of its training changed."""
    return replace(PAPER, training=replace(PAPER.training, **changes))


# each step keeps those before it
STEPS: dict[str, dict[str, Any]] = {
    FIRST: {"member": _paper(start_at_prior=False, epoch_steps=1, refit=False), "cv": HELD_OUT},
    "outputs start at the problem's log odds": {"member": _paper(epoch_steps=1, refit=False), "cv": HELD_OUT},
    "at least 50 steps an epoch": {"member": _paper(refit=False), "cv": HELD_OUT},
    REFITTED: {"member": _paper(), "cv": HELD_OUT},
    NOW: {"member": PAPER, "cv": 5},
}
# each alone changes REFITTED, which takes a fifth of the time of what is cross-fitted
OPEN: dict[str, dict[str, Any]] = {
    "at least 25 steps an epoch": {"member": _paper(epoch_steps=25)},
    "50 epochs, no early stopping": {"member": _paper(epochs=50, epoch_steps=1, patience=0)},
    "batch 32": {"member": _paper(batch_size=32)},
    "dropout .1": {"member": replace(PAPER, dropout=0.1)},
    "dropout .5": {"member": replace(PAPER, dropout=0.5)},
    "inputs by rank": {"member": replace(PAPER, inputs="quantile")},
    "equal weights": {"fusion": "mean"},
    "cross-entropy": {"loss": "cross_entropy"},
    "one network at the original ratio": {"ratios": "original", "n_members": 1},
}
VARIANTS = STEPS | {name: STEPS[REFITTED] | changes for name, changes in OPEN.items()}


def missing(settings: Settings) -> str | None:
    """Return why this experiment cannot run here, or None; a set that is not at hand is left out."""
    return missing_networks_or_sets(settings["sets"])


def cells(settings: Settings) -> list[Cell]:
    """List the work: one variant on one split of one set, what is compared first."""
    return [
        {"set": name, "split": split, "variant": variant}
        for variant in (PLAIN, *VARIANTS)
        for name in present_sets(settings["sets"])
        for split in range(settings["splits"])
    ]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Fit one variant and rank the held-out rows of its split."""
    split = split_set(cell["set"], cell["split"], settings["test_share"])
    started = time.perf_counter()
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a perceptron that would train longer
        if cell["variant"] == PLAIN:
            data = prepare(split)
            scores = network(split.seed).fit(data.rows, data.labels).predict_proba(data.test)[:, 1]
        else:
            common: dict[str, Any] = {
                "loss": "squared_error",
                "fusion": "dropout",
                "views": False,
                "device": settings["device"],
            }
            model = OBILClassifier(**(common | VARIANTS[cell["variant"]]), random_state=split.seed)
            scores = model.fit(split.train, split.train_labels).log_ratios(split.test)[:, 1]
    auprc = float(average_precision_score(split.test_labels, scores))
    from obil.networks.members import as_device  # tables are drawn without torch

    on_gpu = as_device(settings["device"]).startswith("cuda")
    return {"auprc": auprc, "seconds": time.perf_counter() - started, "on_gpu": on_gpu}


def figures(results: Results, settings: Settings) -> dict[str, float]:
    """Name the means over splits, their spread, and what each change adds with its p value."""
    found = {"on_gpu": float(np.mean([result["on_gpu"] for _, result in results]))}
    steps = list(STEPS)
    before = dict(zip(steps[1:], steps, strict=False)) | dict.fromkeys(OPEN, REFITTED) | {PLAIN: NOW}
    for name in dict.fromkeys(cell["set"] for cell, _ in results):
        own = {variant: _over_splits(results, name, variant, "auprc") for variant in (PLAIN, *VARIANTS)}
        for variant, values in own.items():
            found[f"auprc.{name}.{variant}"] = float(values.mean())
            found[f"sd.{name}.{variant}"] = float(values.std(ddof=1)) if len(values) > 1 else 0.0
            found[f"seconds.{name}.{variant}"] = float(_over_splits(results, name, variant, "seconds").mean())
            if variant in before:
                change = values - own[before[variant]]
                found[f"change.{name}.{variant}"] = float(change.mean())
                found[f"p.{name}.{variant}"] = corrected_two_sided(change, test_size=settings["test_share"])
        found |= {f"{of}.{name}.paper": found[f"{of}.{name}.{NOW}"] for of in ("auprc", "sd")}
    return found


def _over_splits(results: Results, name: str, variant: str, measure: str) -> FloatArray:
    own = [(cell["split"], r[measure]) for cell, r in results if cell["set"] == name and cell["variant"] == variant]
    return np.array([value for _, value in sorted(own)])


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    sets = [name for name in settings["sets"] if f"auprc.{name}.paper" in figures]

    def rows(variants: list[str], *, cumulative: bool) -> list[list[str]]:
        return [
            [
                ("+ " if cumulative and variant != FIRST else "") + variant,
                *(_cell(figures, name, variant) for name in sets),
                f"{np.mean([figures[f'auprc.{name}.{variant}'] for name in sets]):.3f}",
                f"{np.mean([figures[f'seconds.{name}.{variant}'] for name in sets]):.1f}",
            ]
            for variant in variants
        ]

    header = ["", *(SET_NAMES[name] for name in sets), "mean", "seconds"]
    return (
        f"AUPRC over {settings['splits']} splits with {settings['test_share']:.0%} held out, standard deviation from "
        "split to split in brackets, then what the change adds and its p value (two-sided, corrected for splits that "
        "overlap, not for how many changes there are). Seconds of a fit on a shared machine"
        f"{', networks of an ensemble together on a GPU' if figures['on_gpu'] else ''}.\n\n"
        '## From the first reading to `member="paper"`\n\nEach row keeps the changes above it.\n\n'
        + markdown_table(["one change at a time", *header[1:]], rows([*STEPS], cumulative=True))
        + "\nBeside it a plain network: one, [128, 64, 32], cross-entropy, all rows, 50 epochs; its difference is from "
        "the last row.\n\n"
        + markdown_table(header, rows([PLAIN], cumulative=False))
        + "\n## What the paper leaves open\n\nEach row alone changes the reading before cross-fitting (*"
        + REFITTED
        + "*); equal weights, cross-entropy and a single network are not left open, and are shown for comparison.\n\n"
        + markdown_table(["instead", *header[1:]], rows([*OPEN], cumulative=False))
    )


def _cell(figures: dict[str, float], name: str, variant: str) -> str:
    shown = f"{figures[f'auprc.{name}.{variant}']:.3f} ({figures[f'sd.{name}.{variant}']:.3f})"
    change = figures.get(f"change.{name}.{variant}")
    return shown if change is None else f"{shown}, {change:+.3f}, p {figures[f'p.{name}.{variant}']:.2f}"
