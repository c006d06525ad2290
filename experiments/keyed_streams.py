"""Decide real streams by segment: a fleet that learns a common level, separate trackers, and one tracker for all rows.

The column of the segments is left out of the model. The same true labels come late to all of them. As all segments of
these sets are there from the first rows on, a second question is asked as well: how a key fares that starts in the
middle of the stream, at the training prior or at the level of all other keys.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from experiments.markdown import markdown_table
from experiments.runner import Cell, Settings
from experiments.wild_streams import Deployed, deployed, stream_data
from obil.arrays import FloatArray, IntArray
from obil.bayes.posterior import posteriors_at
from obil.errors import InvalidInputError
from obil.online.fleet_level import FleetLevel
from obil.online.key_evidence import labelled_evidence
from obil.online.online_fleet import OnlineFleet
from obil.online.segments import estimate_segments

STATIC, COMMON, SEPARATE, FLEET = "static", "common", "separate", "fleet"
NEW_SEPARATE, NEW_FLEET = "new_separate", "new_fleet"  # keys that start in the middle
TEXT = """Log loss relative to that of the training prior, with {rate:.0%} of the labels {delay:,} rows late: one
tracker for all rows, a tracker for each segment (`OnlineFleet`), and the same with new keys at a common level, updated
every {update:,} rows (`common_level=True`). The column of the segments is left out of the model. The last two columns
are the mean over keys of the log loss of each, where it starts anew in the middle of the stream: at the training prior,
or at the level of all other keys in the first half.
"""


class LateLabels(NamedTuple):
    """The rows whose labels come, and before which row each does."""

    rows: IntArray
    before: IntArray
    rate: float  # of the rows, that are asked for

    @classmethod
    def drawn(cls, n_rows: int, settings: Settings) -> "LateLabels":
        """Return some rows at random, their labels late."""
        rows = np.flatnonzero(np.random.default_rng(settings["seed"]).random(n_rows) < settings["rate"])
        return cls(rows, rows + 1 + int(settings["delay"]), float(settings["rate"]))

    def among(self, kept: IntArray) -> "LateLabels":
        """Return the labels of a part of the rows, given in order, by their place there."""
        mine = np.isin(self.rows, kept)
        rows, before = (np.searchsorted(kept, places[mine]) for places in (self.rows, self.before))
        return LateLabels(rows, before, self.rate)


def missing(settings: Settings) -> str | None:
    """Return why this experiment cannot run here, or None."""
    try:
        for name, _ in settings["streams"]:
            stream_data(name)
    except InvalidInputError as error:
        return str(error)
    return None


def cells(settings: Settings) -> list[Cell]:
    """List the work: a set and the column of its segments."""
    return [{"set": name, "by": by} for name, by in settings["streams"]]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Decide the stream of one set by every method; return the log loss of each."""
    stream = deployed(cell["set"], int(settings["most_rows"]), without=cell["by"])
    keys = _keys(cell, settings, len(stream.labels))
    labels = LateLabels.drawn(len(keys), settings)
    fleet = OnlineFleet(stream.classifier, common_level=True)
    decided = {
        STATIC: posteriors_at(stream.log_ratios, np.tile(stream.classifier.prior_, (len(keys), 1)))[:, 1],
        COMMON: decide(OnlineFleet(stream.classifier), stream, np.zeros_like(keys), labels),
        SEPARATE: decide(OnlineFleet(stream.classifier), stream, keys, labels),
        FLEET: decide(fleet, stream, keys, labels, update=settings["update"]),
    }
    losses = {name: log_loss(found, stream.labels) for name, found in decided.items()}
    half = len(keys) // 2
    late, among = _part(stream, np.arange(half, len(keys))), labels.among(np.arange(half, len(keys)))
    new = {f"new_{name}": decided[name][half:] for name in (STATIC, COMMON)}
    new[NEW_SEPARATE] = decide(OnlineFleet(stream.classifier), late, keys[half:], among)
    new[NEW_FLEET] = _new_keys(stream, keys, labels)
    losses |= {name: _mean_of_keys(found, late.labels, keys[half:]) for name, found in new.items()}
    return {"losses": losses, "keys": len(np.unique(keys)), "rows": len(keys), "levels": len(fleet.common_levels)}


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the log losses relative to the training prior, and the fleet's relative to the other two."""
    found: dict[str, float] = {}
    for cell, result in results:
        key, losses = f"{cell['set']}.{cell['by']}", result["losses"]
        found |= {f"{key}.{name}": float(result[name]) for name in ("keys", "rows", "levels")}
        found[f"{key}.{STATIC}"] = losses[STATIC]
        found |= {f"{key}.{name}": losses[name] / losses[STATIC] for name in (COMMON, SEPARATE, FLEET)}
        found |= {
            f"{key}.{name}": losses[name] / losses[f"new_{STATIC}"]
            for name in (f"new_{COMMON}", NEW_SEPARATE, NEW_FLEET)
        }
    names = [f"{cell['set']}.{cell['by']}" for cell, _ in results]
    for prefix in ("", "new_"):
        for other in (SEPARATE, COMMON):
            ratios = [found[f"{name}.{prefix}{FLEET}"] / found[f"{name}.{prefix}{other}"] for name in names]
            found[f"{prefix}{FLEET}.against_{other}.worst"] = max(ratios)
            found[f"{prefix}{FLEET}.against_{other}.mean"] = float(np.mean(ratios))
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    rows = []
    for name, by in settings["streams"]:
        key = f"{name}.{by}"
        counts = [f"{figures[f'{key}.{one}']:,.0f}" for one in ("keys", "rows", "levels")]
        shown = [COMMON, SEPARATE, FLEET, NEW_SEPARATE, NEW_FLEET]
        rows.append([f"{name} by {by}", *counts, *(f"{figures[f'{key}.{one}']:.4f}" for one in shown)])
    header = [
        "stream", "keys", "rows", "levels", "one tracker", "separate", "common level", "new keys: separate",
        "new keys: common level",
    ]  # fmt: skip
    verdicts = [
        f"against {named} {figures[f'{prefix}{FLEET}.against_{other}.worst']:.4f} at worst and "
        f"{figures[f'{prefix}{FLEET}.against_{other}.mean']:.4f} on average"
        for prefix, other, named in (
            ("", SEPARATE, "separate trackers"), ("", COMMON, "one tracker"), ("new_", SEPARATE, "new separate keys"),
        )
    ]  # fmt: skip
    verdict = f"Log loss with a common level, {'; '.join(verdicts)}."
    return f"{TEXT.format(**settings)}\n{markdown_table(header, rows)}\n{verdict}\n"


def decide(
    fleet: OnlineFleet, stream: Deployed, keys: IntArray, labels: LateLabels, *, update: int | None = None
) -> FloatArray:
    """Return P(positive) as it was decided, (n,); the common level is updated every so many rows."""
    n_rows, names = len(keys), stream.classifier.classes_
    due: dict[int, list[int]] = {}
    for row, before in zip(labels.rows.tolist(), labels.before.tolist(), strict=True):
        due.setdefault(before, []).append(row)
    updates = set() if update is None else set(range(update, n_rows, update))
    cuts = sorted({0, n_rows, *updates, *(before for before in due if before < n_rows)})
    posteriors = np.empty(n_rows)
    for start, stop in pairwise(cuts):
        if start in updates:
            fleet.update_common_level()
        for row in due.get(start, []):
            fleet.feedback(int(keys[row]), row, names[stream.labels[row]], propensity=labels.rate)
        part = slice(start, stop)
        posteriors[part] = fleet.decide_log_ratios(
            stream.log_ratios[part], keys=keys[part], evidence=stream.evidence[part], ids=range(start, stop)
        ).posteriors[:, 1]
    return posteriors


def log_loss(posteriors: FloatArray, labels: IntArray) -> float:
    """Return the mean log loss of P(positive)."""
    return float(-np.log(np.clip(np.where(labels == 1, posteriors, 1.0 - posteriors), 1e-12, 1.0)).mean())


def _mean_of_keys(posteriors: FloatArray, labels: IntArray, keys: IntArray) -> float:
    """Return the mean over keys of the log loss of each: a new key is one more of them, however many rows it has."""
    return float(np.mean([log_loss(posteriors[keys == key], labels[keys == key]) for key in np.unique(keys)]))


def _new_keys(stream: Deployed, keys: IntArray, labels: LateLabels) -> FloatArray:
    """Decide the second half of each key as a new key that starts at the level of all others in the first half."""
    half = len(keys) // 2
    first, late_keys = np.arange(half), keys[half:]
    others = OnlineFleet(stream.classifier)
    decide(others, _part(stream, first), keys[:half], labels.among(first))
    summaries = {key: others[key].tracker.label_summary() for key in others}  # type: ignore[attr-defined]
    counts = {key: summary.counts for key, summary in summaries.items() if summary is not None}
    posteriors = np.empty(len(late_keys))
    for key in np.unique(late_keys).tolist():
        without = {other: own for other, own in counts.items() if other != key}
        level = FleetLevel.of(estimate_segments(labelled_evidence(without)))
        own = np.flatnonzero(late_keys == key)
        mine = _part(stream, half + own)
        fleet = OnlineFleet(stream.classifier, common_level=[level])
        posteriors[own] = decide(fleet, mine, late_keys[own], labels.among(half + own))
    return posteriors


def _part(stream: Deployed, rows: IntArray) -> Deployed:
    kept = {name: getattr(stream, name)[rows] for name in ("log_ratios", "evidence", "rows", "labels")}
    return stream._replace(**kept)


def _keys(cell: Cell, settings: Settings, n_rows: int) -> IntArray:
    """Return the number of the segment of each row of the stream."""
    data = stream_data(cell["set"])
    n_all = min(len(data.labels), int(settings["most_rows"]))
    column = data.features[cell["by"]].iloc[n_all - n_rows : n_all].astype(str)
    return np.unique(column.to_numpy(), return_inverse=True)[1].astype(np.int64)
