"""Write the tables of the CIFAR-10 stream: random divisions, the published one, and many classes."""

from typing import Any

import numpy as np
from scipy.stats import t as student

from experiments import peers
from experiments.markdown import markdown_table
from experiments.significance import holm

LEVEL = 0.05
OVERLAP = 10_000 / 15_000  # stream rows to calibration rows


def cifar_stream_page(figures: dict[str, float], settings: dict[str, Any]) -> str:
    """Return the page as Markdown."""
    parts = [_random_divisions(figures, settings), _published(figures, settings), _many_classes(figures, settings)]
    return "\n".join(parts)


def _random_divisions(figures: dict[str, float], settings: dict[str, Any]) -> str:
    shifts = settings["shifts"]
    rows = [
        ["oracle, error in %", *(f"{figures[f'oracle.error.{shift}']:.3f}" for shift in shifts)],
        ["**Bayes bank**, error in %", *(f"{figures[f'bank.error.{shift}']:.3f}" for shift in shifts)],
    ]
    for tracker in settings["run"]:
        if tracker != "bank":
            cells = []
            for shift in shifts:
                difference, error = (figures[f"{tracker}.{name}.{shift}"] for name in ("difference", "se"))
                text = f"{difference:+.3f} ± {error:.3f}"
                mark = {1.0: "", 0.0: " =", -1.0: " **below**"}[figures[f"{tracker}.verdict.{shift}"]]
                cells.append(text + mark)
            rows.append([settings["trackers"][tracker]["name"], *cells])
    below, clear = figures["peers.significantly_below_bank"], figures["bank.shifts_below_every_peer"]
    wide_below, wide_clear = overlap_corrected(figures, settings)
    return (
        "## Random divisions\n\n"
        f"The 25,000 labeled rows are divided {settings['n_divisions']} times at random into 15,000 calibration and "
        f"10,000 stream rows; each division has one stream of {settings['n_rows']:,} rows for each shift. Scores are "
        "recalibrated by vector scaling on the calibration rows, for the oracle, the bank and all others alike "
        f"(log likelihood of the stream rows {figures['recalibration.gain']:+.4f} nats per row). The bank reads the "
        "prior from an evidence map of the same rows "
        f"(bins, or bins mixed with the calibrated ratio, in {100.0 * figures['evidence.not_calibrated']:.0f} % of the "
        "divisions).\n\n"
        "**Error less that of the bank, percentage points**, mean ± standard error over the divisions. `=`: not "
        "significant, **below**: the bank is significantly worse (two-sided paired t-test, 5 % after Holm over "
        "methods and shifts). The divisions draw on the same rows, so the standard errors are those of another "
        "division and stream, not of another network.\n\n"
        + markdown_table(["method", *(shift.replace("_", " ") for shift in shifts)], rows)
        + f"\nPeers significantly below the bank, over all shifts: {below:.0f}. Shifts on which the bank is "
        f"significantly below every peer: {clear:.0f} of {len(shifts)}. With the wider errors of Nadeau and Bengio "
        f"(2003), which allow for the overlap of the divisions: {wide_below} and {wide_clear}.\n"
    )


def overlap_corrected(figures: dict[str, float], settings: dict[str, Any]) -> tuple[int, int]:
    """Return how often a peer is below the bank, and on how many shifts the bank is below all, errors widened.

    The variance of a mean over n overlapping divisions is that of one times 1/n + stream rows / calibration rows.
    """
    n_divisions = settings["n_divisions"]
    names = [tracker for tracker in settings["run"] if settings["trackers"][tracker]["kind"] in peers.__all__]
    differences, errors = (
        np.array([[figures[f"{tracker}.{name}.{shift}"] for shift in settings["shifts"]] for tracker in names])
        for name in ("difference", "se")
    )
    wide = np.maximum(errors * np.sqrt(1.0 + n_divisions * OVERLAP), 1e-12)
    p_values = 2.0 * student.sf(np.abs(differences) / wide, n_divisions - 1)
    clear = holm(p_values.ravel()).reshape(p_values.shape) < LEVEL
    below, above = clear & (differences < 0.0), clear & (differences > 0.0)
    return int(below.sum()), int(above.all(axis=0).sum())


def _published(figures: dict[str, float], settings: dict[str, Any]) -> str:
    shifts = settings["shifts"]
    rows = []
    for prefix, note in (("published.", ""), ("without.", ", without recalibration")):
        for tracker in ("oracle", *settings["run_published"]):
            name = "oracle" if tracker == "oracle" else settings["trackers"][tracker]["name"]
            rows.append([name + note, *(f"{figures[f'{prefix}{tracker}.error.{shift}']:.3f}" for shift in shifts)])
    with_it, without = (
        figures[f"{prefix}fth.error.constant"] - figures[f"{prefix}oracle.error.constant"]
        for prefix in ("published.", "without.")
    )
    return (
        "## The published division\n\n"
        f"**Error in %**, mean of {settings['n_published']} streams from the published 15,000 and 10,000 rows: one "
        "draw of what is above. Do not rank methods by it: it misranks. Under the constant prior, the error of follow "
        "the history (FTH) less that of the oracle, which knows the prior, is there "
        f"{without:+.3f} points with the logits as published, and {with_it:+.3f} with recalibrated scores. Below 0, an "
        "estimate that is wrong in the right direction for these rows is better than the truth.\n\n"
        + markdown_table(["method", *(shift.replace("_", " ") for shift in shifts)], rows)
    )


def _many_classes(figures: dict[str, float], settings: dict[str, Any]) -> str:
    rows = []
    for n_classes, n_rows in settings["many_classes"]:
        values = {
            name: figures[f"many.{n_classes}.{name}"]
            for name in ("oracle", "bank", "fixed", "microseconds", "kilobytes")
        }
        rows.append(
            [
                f"{n_classes:,}",
                f"{n_rows:,}",
                f"{values['oracle']:.2f}",
                f"{values['bank']:+.3f}",
                f"{values['fixed']:+.3f}",
                f"{values['microseconds']:.1f}",
                f"{values['kilobytes']:.0f}",
            ]
        )
    header = ["classes", "rows", "oracle, error in %", "bank, points above", "equal prior, points above"]
    return (
        "## Many classes\n\n"
        f"Normal classes with exact ratios, any two equally far apart; {settings['n_many']} streams each. The class of "
        "rank r has a prior in proportion to 1/r for a third of the rows, over the next third the ranks move to "
        "another order, and stay there. The bank starts at equal priors. Time is that of the fastest stream, on a "
        "machine with other work; memory is that of the bank's state.\n\n"
        + markdown_table([*header, "µs per row", "kB of state"], rows)
    )
