"""Decide the rows of one key in time order, with its delayed labels in between."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from obil.online.decision import Decisions
from obil.online.online_classifier import OnlineClassifier
from obil.spark.decision_columns import class_values, from_binary, vector_values

TIME, ID, LABEL, PROPENSITY = "obil_time", "obil_id", "obil_label", "obil_propensity"
RATIOS, VIEWS = "obil_ratios", "obil_views"
DECIDED = ("log_ratio", "prior", "posterior", "threshold", "decision", "trusted")


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Which of the optional columns a query has."""

    n_classes: int
    n_views: int
    has_ids: bool
    has_labels: bool
    has_propensities: bool


def decided_rows(online: OnlineClassifier, table: Any, layout: RowLayout) -> Iterator[dict[str, Any]]:
    """Decide the rows of a micro-batch and pass its labels on, by time; yield columns for each run of rows."""
    times = table[TIME].to_numpy()
    ids = table[ID].to_numpy() if layout.has_ids else None
    is_label = table[LABEL].notna().to_numpy() if layout.has_labels else np.zeros(len(table), dtype=bool)
    order = np.lexsort((*_content(table, layout), *([] if ids is None else [ids]), is_label, times))
    for rows in _runs(order, is_label):
        if is_label[rows[0]]:
            _feed_back(online, table.iloc[rows], layout)
        else:
            part = table[RATIOS].to_numpy()[rows]
            views = table[VIEWS].to_numpy()[rows] if layout.n_views else None
            decisions = online.decide_log_ratios(
                from_binary(part, layout.n_classes),
                views=None if views is None else from_binary(views, layout.n_views, layout.n_classes),
                ids=None if ids is None else ids[rows].tolist(),
            )
            yield {TIME: times[rows], ID: list(decisions.ids), **decided_columns(decisions)}


def decided_columns(decisions: Decisions) -> dict[str, Any]:
    """Return decisions as columns."""
    n_rows = len(decisions)
    return {
        "log_ratio": vector_values(decisions.log_ratios),
        "prior": vector_values(decisions.priors),
        "posterior": vector_values(decisions.posteriors),
        "threshold": decisions.thresholds if decisions.thresholds is not None else np.full(n_rows, np.nan),
        "decision": class_values(decisions.labels),
        "trusted": decisions.trusted,
    }


def _content(table: Any, layout: RowLayout) -> list[Any]:
    """Return what else orders lines, so that a repeated Spark task decides them as before."""
    labels = [np.array([str(label) for label in table[LABEL]], dtype=object)] if layout.has_labels else []
    propensities = [table[PROPENSITY].to_numpy(dtype=np.float64)] if layout.has_propensities else []
    columns = [RATIOS, *([VIEWS] if layout.n_views else [])]
    return [*propensities, *labels, *(np.array([v or b"" for v in table[name]], dtype=object) for name in columns)]


def _runs(order: npt.NDArray[np.int64], is_label: npt.NDArray[np.bool_]) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the longest stretches of `order` that are all rows, or all labels."""
    if len(order):
        yield from np.split(order, np.flatnonzero(np.diff(is_label[order].astype(np.int8))) + 1)


def _feed_back(online: OnlineClassifier, labels: Any, layout: RowLayout) -> None:
    propensities = labels[PROPENSITY].fillna(1.0).tolist() if layout.has_propensities else [1.0] * len(labels)
    for name, label, propensity in zip(labels[ID].tolist(), labels[LABEL].tolist(), propensities, strict=True):
        online.feedback(name, label, propensity=propensity)
