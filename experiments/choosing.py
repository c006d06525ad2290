"""Answer the questions of a user who must choose a loss, a member, how many of them and how to fuse them.

The paper answers four of them in a table (calibration critical, gradient stability, known costs, a pre-trained
backbone) without a measurement; `experiments.choices` has one file for each. What no data is at hand for is left out.
"""

import importlib
import importlib.util
from typing import Any

import numpy as np

from experiments.markdown import markdown_table
from experiments.real_sets import load_fashion_mnist
from experiments.runner import Cell, Settings
from obil.datasets.named_set import load_named
from obil.errors import InvalidInputError

SEPARATOR = " / "  # of the parts of a figure's name
Columns = dict[str, tuple[str, str]]  # measure -> its head in the table, and the format of its numbers
CALIBRATION: Columns = {
    "ece": ("ECE at 1/2", ".3f"),
    "offset": ("offset", "+.2f"),
    "slope": ("slope", ".2f"),
}
ENSEMBLE: Columns = {
    "auprc": ("AUPRC", ".3f"),
    "log_loss": ("log loss", ".4f"),
    "ece": ("ECE at 1/2", ".3f"),
    "seconds": ("fit, s", ".1f"),
}


def missing(settings: Settings) -> str | None:  # every experiment has it
    """Return why this experiment cannot run here, or None."""
    return None if importlib.util.find_spec("torch") else "networks are trained with torch: pip install 'obil[torch]'"


def cells(settings: Settings) -> list[Cell]:
    """List the work: one fit, or one family of members, on one draw or split."""
    sets = [name for name in settings["sets"] if _at_hand(name)]
    first = settings["first_seed"]
    work: list[Cell] = [
        {"part": "losses", "data": data, "member": member, "loss": loss, "seed": first + seed}
        for data in ("known", *(["mammography"] if "mammography" in sets else []))
        for member, losses in settings["losses"].items()
        for loss in losses
        for seed in range(settings["loss_seeds"][member])
    ]
    work.append({"part": "gradients", "question": "slopes", "seed": first})
    work += [
        {"part": "gradients", "question": "runs", "ratio": ratio, "start": start, "optimizer": optimizer, "loss": loss,
         "seed": first + seed}
        for ratio, start, optimizer in settings["gradient_runs"]
        for loss in settings["gradient_losses"]
        for seed in range(settings["gradient_seeds"])
    ]  # fmt: skip
    work += [{"part": "costs", "seed": first + seed} for seed in range(settings["cost_seeds"])]
    if _at_hand("fashion_mnist"):
        work += [
            {"part": "backbone", "start": start, "loss": loss, "seed": first + seed}
            for start in settings["image_starts"]
            for loss in settings["image_losses"]
            for seed in range(settings["image_seeds"])
        ]
    work += [
        {"part": "ensembles", "data": name, "family": family, "seed": first + split}
        for name in sets
        for family in settings["families"]
        for split in range(settings["splits"])
    ]
    return work


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Measure one cell."""
    found: dict[str, Any] = importlib.import_module(f"experiments.choices.{cell['part']}").run(cell, settings)
    return found


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the means over seeds, and after `sd` their standard deviations."""
    gathered: dict[str, list[float]] = {}
    for cell, result in results:
        place = [f"{value:g}" if isinstance(value, float) else value for key, value in cell.items() if key != "seed"]
        for variant, measures in result.items():
            for measure, value in measures.items():
                gathered.setdefault(SEPARATOR.join([*place, variant.replace("/", SEPARATOR), measure]), []).append(
                    value
                )
    found: dict[str, float] = {}
    for name, values in gathered.items():
        found[name] = float(np.mean(values))
        found[f"sd {name}"] = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown, one section a question."""
    parts = [
        "Means over seeds, in brackets the standard deviation from seed to seed. ECE at 1/2 is the calibration error "
        "with both classes weighted equally (10 bins); offset is what recalibrating fresh rows would still add to the "
        "log ratio with the slope held at 1, slope what it would multiply it by (ideal: 0 and 1).\n"
    ]
    parts += _loss_tables(figures, settings) + _gradient_tables(figures, settings) + _cost_table(figures, settings)
    parts += _backbone_table(figures, settings) + _ensemble_tables(figures, settings)
    left_out = [
        what
        for what, place in {
            "mammography by loss": ["losses", "mammography"],
            "the backbone (Fashion-MNIST)": ["backbone"],
            **{f"members on {name}": ["ensembles", name] for name in settings["sets"]},
        }.items()
        if not _groups(figures, place)
    ]
    if left_out:
        parts.append(f"Left out, since the data was not at hand: {', '.join(left_out)}.\n")
    return "\n".join(parts)


def _loss_tables(figures: dict[str, float], settings: Settings) -> list[str]:
    seeds = ", ".join(f"{count} for `{member}`" for member, count in settings["loss_seeds"].items())
    parts = [
        "## Loss and calibration\n",
        f"{settings['loss_members']} networks, fused by their mean. Seeds: {seeds}. Calibration: on the 20 % of the "
        "rows that no network saw. Stuck: the fraction of networks whose area under the ROC is below .7.\n",
    ]
    heads = {
        "known": f"**Known ratios**: {settings['n_rows']:,} rows of two Gaussian classes {settings['separation']:g} "
        f"apart in {settings['features']} features, {settings['ratio']:g} negatives a positive. RMS: of the log ratio "
        "against the truth, on fresh rows with as many of each class. Excess: log loss at the training prior above "
        "that of the true ratios, x 1,000.\n",
        "mammography": "**Mammography**, 30 % of the rows held out. Log loss at the training prior.\n",
    }
    for data, head in heads.items():
        extra: Columns = {"log_loss": ("log loss", ".4f"), "auprc": ("AUPRC", ".3f")}
        if data == "known":
            extra = {"rms": ("RMS", ".2f"), "log_loss": ("excess", "milli")}
        extra |= {"stuck": ("stuck", "share")}
        rows = [
            [
                f"`{member}`",
                loss,
                method,
                *_numbers(figures, ["losses", data, member, own, loss, method], CALIBRATION | extra),
            ]
            for member, own, loss, method in _groups(figures, ["losses", data])
        ]
        if rows:
            columns = ["member", "loss", "calibration", *(name for name, _ in (CALIBRATION | extra).values())]
            parts += [head, markdown_table(columns, rows)]
    return parts


def _gradient_tables(figures: dict[str, float], settings: Settings) -> list[str]:
    slopes = ["z=0", "z=-2", "z=-4", "z=-6"]
    rows = [
        [loss, *(f"{figures[SEPARATOR.join(['gradients', 'slopes', loss, at])]:.2g}" for at in slopes)]
        for (loss,) in _groups(figures, ["gradients", "slopes"])
    ]
    columns: Columns = {
        "first_gradient": ("first gradients", ".2g"),
        "epochs": (f"epochs to {settings['enough']:.0%}", ".1f"),
        "reached": ("runs that got there", "share"),
        "learned": (f"learned in {settings['gradient_epochs']}", ".2f"),
        "one_side": ("all on one side", "share"),
        "diverged": ("diverged", "share"),
    }
    learned = [
        [
            ratio,
            start,
            optimizer,
            loss,
            *_numbers(figures, ["gradients", "runs", ratio, start, optimizer, loss, loss], columns),
        ]
        for ratio, start, optimizer, loss, _ in _groups(figures, ["gradients", "runs"])
    ]
    return [
        "## Gradients\n",
        "**How hard a loss pulls** a positive row up whose output is z, o = tanh(z): -dC/dz.\n",
        markdown_table(["loss", *(at.replace("=", " = ") for at in slopes)], rows),
        f"**How a network learns** ({settings['n_rows']:,} rows with known ratios, no rebalancing; the paper's "
        f"network, batches of 128, {settings['gradient_seeds']} seeds). Learned: the log loss gained over saying the "
        "prior, as a fraction of what the true ratios gain, on fresh rows (-1: as much lost, or more). Saturated: "
        "every output starts near z = -6; at the prior: all start at the class prior. "
        "All on one side: no fresh row beyond a posterior of 1/2, or none below (the true ratios put some on both). "
        "Diverged: the outputs are no numbers any more.\n",
        markdown_table(["IR", "start", "optimizer", "loss", *(name for name, _ in columns.values())], learned),
    ]


def _cost_table(figures: dict[str, float], settings: Settings) -> list[str]:
    groups = _groups(figures, ["costs"])
    if not groups:
        return []
    at = dict.fromkeys(name.split(SEPARATOR)[-1] for name in figures if name.startswith(f"costs{SEPARATOR}"))
    columns: Columns = {name: (name, "+.1f") for name in at}
    rows = [[method, *_numbers(figures, ["costs", method], columns)] for (method,) in groups]
    return [
        "## Known costs\n",
        f"Expected cost over that of deciding by the true ratios, %; {settings['cost_members']} networks (`mlp`), "
        f"{settings['cost_seeds']} seeds, the same known ratios. Qc is the cost of a false alarm over that of a miss, "
        "P the prior at deployment. Weighted: squared error with Qc on the negatives. The paper's: only the "
        "training prior is divided out, and Qc is in the threshold too.\n",
        markdown_table(["trained, calibrated", *at], rows),
    ]


def _backbone_table(figures: dict[str, float], settings: Settings) -> list[str]:
    columns = {name: ENSEMBLE[name] for name in ("auprc", "log_loss", "ece")} | {"offset": CALIBRATION["offset"]}
    rows = [
        [start, loss, method, *_numbers(figures, ["backbone", start, loss, method], columns)]
        for start, loss, method in _groups(figures, ["backbone"])
    ]
    if not rows:
        return []
    return [
        "## A pre-trained backbone\n",
        f"Fashion-MNIST: a small ConvNet, pre-trained on {settings['backbone_rows']:,} images of five classes, told "
        f"{settings['image_positives']} shirts from {settings['image_negatives']:,} pullovers, dresses, coats and "
        f"ankle boots, which it had not seen; {settings['image_seeds']} seeds, one network at the balance the rows "
        "have unless weighted, 30 % of them set aside to calibrate. Only the convolutions come from pre-training. Test "
        "images; AUPRC and log loss at the training prior.\n",
        markdown_table(["start", "loss", "calibration", *(name for name, _ in columns.values())], rows),
    ]


def _ensemble_tables(figures: dict[str, float], settings: Settings) -> list[str]:
    parts = [
        "## Members, fusion, problems\n",
        f"`mlp` networks, cross-entropy, {settings['splits']} splits (seeds from {settings['first_seed']}), 30 % test; "
        "affine calibration on 20 % of the training rows. Undersample, oversample, weight: how the problems at the "
        "paper's ratios are made; original: every network sees all rows as they are. Log loss at the "
        "training prior. Seconds are of one core, for members, dropout passes and fusion.\n",
    ]
    shown = False
    for name in settings["sets"]:
        groups = _groups(figures, ["ensembles", name])
        rows = [
            [family, variant, *_numbers(figures, ["ensembles", name, family, variant], ENSEMBLE)]
            for family, variant in groups
            if not variant.startswith("difference")
        ]
        if rows:
            shown = True
            parts += [
                f"**{name}**\n",
                markdown_table(["problems", "members, fusion", *(head for head, _ in ENSEMBLE.values())], rows),
            ]
    columns: Columns = {"auprc": ("AUPRC", "+.4f"), "log_loss": ("log loss", "+.5f"), "ece": ("ECE at 1/2", "+.4f")}
    rows = [
        [
            name,
            family,
            variant.removeprefix("difference, "),
            *_numbers(figures, ["ensembles", name, family, variant], columns),
        ]
        for name, family, variant in _groups(figures, ["ensembles"])
        if variant.startswith("difference")
    ]
    if rows:
        parts += [
            "**What fusion changes**, split by split, with the same members:\n",
            markdown_table(["set", "problems", "difference", *(head for head, _ in columns.values())], rows),
        ]
    return parts if shown else []


def _groups(figures: dict[str, float], place: list[str]) -> list[tuple[str, ...]]:
    """Return what follows `place` in the names of figures, but for the measure, each once and in order."""
    start = SEPARATOR.join([*place, ""])
    found = (tuple(name.removeprefix(start).split(SEPARATOR)[:-1]) for name in figures if name.startswith(start))
    return list(dict.fromkeys(found))


def _numbers(figures: dict[str, float], place: list[str], columns: Columns) -> list[str]:
    """Return the figures at a place as text: mean and standard deviation."""
    texts = []
    for measure, (_, form) in columns.items():
        name = SEPARATOR.join([*place, measure])
        mean, spread = figures[name], figures[f"sd {name}"]
        if form == "share":
            texts.append(f"{mean:.0%}")
        elif form == "milli":
            texts.append(f"{1_000 * mean:.2f} ({1_000 * spread:.2f})")
        else:
            texts.append(f"{mean:{form}} ({spread:{form.removeprefix('+')}})")
    return texts


def _at_hand(name: str) -> bool:
    try:
        _ = load_fashion_mnist("test") if name == "fashion_mnist" else load_named(name)
    except InvalidInputError:
        return False
    return True
