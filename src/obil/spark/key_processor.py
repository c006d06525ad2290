"""Run one online classifier per key inside Spark's state store: its rows in time order, its labels in between."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from obil.errors import InvalidStateError
from obil.online.decision import Decisions
from obil.online.online_classifier import OnlineClassifier
from obil.serving.ratio_model import RatioModel, Scores
from obil.spark.columns import class_values, from_binary, vector_values
from obil.spark.shipped_model import ShippedModel

STREAM = "stream"  # one state variable: one read and one write per key
STATE = "model string, data binary"
TIME, ID, LABEL, PROPENSITY = "obil_time", "obil_id", "obil_label", "obil_propensity"
RATIOS, EVIDENCE = "obil_ratios", "obil_evidence"
DECIDED = ("log_ratio", "effective_prior", "posterior", "threshold", "decision", "trusted")
FINGERPRINT = 16  # characters of a model's fingerprint that a key keeps


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Which of the optional columns a query has."""

    n_classes: int
    evidence: tuple[int, int] | None  # folds, and 1 + views + inputs; None where log ratios are the evidence
    has_ids: bool
    has_labels: bool
    has_propensities: bool


class KeyProcessor(StatefulProcessor):
    """Restore the stream of a key, decide its rows, and store it; Spark commits all keys at once."""

    def __init__(
        self,
        shipped: ShippedModel,
        replaced: tuple[ShippedModel, ...],
        fresh: bytes,
        layout: RowLayout,
        key_columns: list[str],
        expire_after_ms: int | None,
    ) -> None:
        self._shipped, self._replaced, self._fresh = shipped, replaced, fresh
        self._layout, self._key_columns, self._expire_after_ms = layout, key_columns, expire_after_ms
        self._restorer: KeyRestorer | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state variable."""
        self._state = handle.getValueState(STREAM, STATE, self._expire_after_ms)

    def handleInputRows(  # noqa: N802  # Spark's name
        self, key: Any, rows: Iterator[Any], timerValues: Any
    ) -> Iterator[Any]:
        """Decide the rows of one key in a micro-batch."""
        if self._restorer is None:
            self._restorer = KeyRestorer(self._shipped, self._replaced, self._fresh)
        known = self._state.get()
        online = self._restorer.fresh() if known is None else self._restorer.restored(str(known[0]), bytes(known[1]))
        chunks = list(rows)
        table = chunks[0] if len(chunks) == 1 else pd.concat(chunks, ignore_index=True)
        for columns in decided_rows(online, table, self._layout):
            n_rows = len(columns["decision"])
            keys = {name: [value] * n_rows for name, value in zip(self._key_columns, key, strict=True)}
            yield pd.DataFrame(keys | columns, copy=False)  # consolidating columns would cost more than deciding
        self._state.update((self._restorer.name, online.state()))

    def close(self) -> None:
        """Do nothing: the state is in the state store."""


class KeyRestorer:
    """Restore the stream of a key, with the settings and the model of the running query.

    Idle keys may still refer to a replaced model, of an earlier run; `fresh` is the state of a new key's stream.
    """

    def __init__(self, shipped: ShippedModel, replaced: Sequence[ShippedModel], fresh: bytes) -> None:
        self.model = shipped.load()
        self.name = shipped.fingerprint[:FINGERPRINT]
        self._replaced = {old.fingerprint[:FINGERPRINT]: old for old in replaced}
        self._fresh = fresh
        self._policy = self.fresh().policy

    def fresh(self) -> OnlineClassifier:
        """Return the stream of a new key."""
        return OnlineClassifier.from_state(self.model, self._fresh)

    def restored(self, name: str, stream: bytes) -> OnlineClassifier:
        """Return the stream of a key, saved under the named model."""
        if name == self.name:
            return self._opened(self.model, stream)
        if name not in self._replaced:
            raise InvalidStateError(
                f"the state of this key belongs to model {name}, the query runs {self.name}: name the replaced model "
                "in replaces=[...]"
            )
        online = self._opened(self._replaced[name].load(), stream)
        online.model = self.model
        return online

    def _opened(self, model: RatioModel, stream: bytes) -> OnlineClassifier:
        # the policy belongs to the query, not to the key: costs may change between two runs
        return OnlineClassifier.from_state(model, stream, policy=self._policy)


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
            ratios = from_binary(table[RATIOS].to_numpy()[rows], layout.n_classes)
            evidence = ratios[:, None, None]
            if layout.evidence is not None:
                evidence = from_binary(table[EVIDENCE].to_numpy()[rows], *layout.evidence, layout.n_classes)
            names = None if ids is None else ids[rows].tolist()
            decisions = online.decide_scores(Scores(ratios, evidence), ids=names)
            yield {TIME: times[rows], ID: list(decisions.ids), **decided_columns(decisions)}


def decided_columns(decisions: Decisions) -> dict[str, Any]:
    """Return decisions as columns."""
    n_rows = len(decisions)
    return {
        "log_ratio": vector_values(decisions.log_ratios),
        "effective_prior": vector_values(decisions.effective_priors),
        "posterior": vector_values(decisions.posteriors),
        "threshold": decisions.thresholds if decisions.thresholds is not None else np.full(n_rows, np.nan),
        "decision": class_values(decisions.labels),
        "trusted": decisions.trusted,
    }


def _content(table: Any, layout: RowLayout) -> list[Any]:
    """Return what else orders lines, so that a repeated Spark task decides them as before."""
    labels = [np.array([str(label) for label in table[LABEL]], dtype=object)] if layout.has_labels else []
    propensities = [table[PROPENSITY].to_numpy(dtype=np.float64)] if layout.has_propensities else []
    columns = [RATIOS, *([] if layout.evidence is None else [EVIDENCE])]
    return [*propensities, *labels, *(np.array([v or b"" for v in table[name]], dtype=object) for name in columns)]


def _runs(order: npt.NDArray[np.int64], is_label: npt.NDArray[np.bool_]) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the longest stretches of `order` that are all rows, or all labels."""
    if len(order):
        yield from np.split(order, np.flatnonzero(np.diff(is_label[order].astype(np.int8))) + 1)


def _feed_back(online: OnlineClassifier, labels: Any, layout: RowLayout) -> None:
    propensities = labels[PROPENSITY].fillna(1.0).tolist() if layout.has_propensities else [1.0] * len(labels)
    for name, label, propensity in zip(labels[ID].tolist(), labels[LABEL].tolist(), propensities, strict=True):
        online.feedback(name, label, propensity=propensity)
