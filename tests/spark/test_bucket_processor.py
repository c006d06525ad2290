"""What a bucket reads, writes and keeps, with a dictionary in place of Spark's state store."""

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import obil
from obil.errors import InvalidStateError
from obil.spark.bucket_lines import ID, LABEL, RATIOS, TIME, RowLayout
from obil.spark.bucket_processor import GUARD, BucketProcessor
from obil.spark.columns import as_binary
from obil.spark.shipped_model import ShippedModel
from tests.online.cases import pair_model, pair_scores

KEY = "obil_key0"
LAYOUT = RowLayout(keys=(KEY,), n_classes=2, evidence=None, has_ids=True, has_labels=True, has_propensities=False)


class Store:
    """The map and the number of buckets that a state store would hold; it remembers which keys were touched."""

    def __init__(self) -> None:
        self.streams: dict[Any, Any] = {}
        self.n_buckets: Any = None
        self.read: list[Any] = []
        self.written: list[Any] = []

    def getMapState(self, *_: Any) -> Any:  # noqa: N802  # Spark's name
        return self

    def getValueState(self, *_: Any) -> Any:  # noqa: N802  # Spark's name
        return SimpleNamespace(get=lambda: self.n_buckets, update=lambda value: setattr(self, "n_buckets", value))

    def getValue(self, key: Any) -> Any:  # noqa: N802  # Spark's name
        self.read.append(key)
        return self.streams.get(key)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802  # Spark's name
        self.written.append(key)
        self.streams[key] = value


def processor(store: Store, *, n_buckets: int = 4) -> BucketProcessor:
    shipped = ShippedModel.of(pair_model())
    made = BucketProcessor(shipped, (), obil.OnlineClassifier(shipped.load()).state(), LAYOUT, n_buckets, None)
    made.init(store)  # type: ignore[arg-type]
    return made


def rows(keys: list[str], *, batch: int = 0) -> pd.DataFrame:
    ratios = np.column_stack([np.zeros(len(keys)), pair_scores(len(keys), 0.2, batch)])
    ids = [f"{batch}/{i}" for i in range(len(keys))]
    return pd.DataFrame({KEY: keys, TIME: range(len(keys)), ID: ids, LABEL: None, RATIOS: as_binary(ratios)})


def test_only_active_keys_are_read_and_written_once_each() -> None:
    store = Store()
    made = processor(store)
    list(made.handleInputRows((0,), iter([rows(["a", "b", "c", "a"])]), None))
    idle = {key: store.streams[key] for key in (("a",), ("c",))}
    store.read, store.written = [], []
    (decided,) = made.handleInputRows((0,), iter([rows(["b"] * 3, batch=1), rows(["b"], batch=2)]), None)
    assert (store.read, store.written, len(decided)) == ([("b",)], [("b",)], 4)
    assert {key: store.streams[key] for key in idle} == idle


def test_labels_alone_are_learned_and_decide_nothing() -> None:
    store = Store()
    made = processor(store)
    list(made.handleInputRows((0,), iter([rows(["a"])]), None))
    label = rows(["a"]).assign(**{LABEL: "fraud", RATIOS: None})
    assert list(made.handleInputRows((0,), iter([label]), None)) == []
    online = obil.OnlineClassifier.from_state(ShippedModel.of(pair_model()).load(), store.streams["a",][1])
    assert online.label_counts.labelled == 1


def test_the_guard_takes_the_number_of_buckets_once_and_refuses_another() -> None:
    store = Store()
    for _ in range(2):
        assert list(processor(store).handleInputRows((GUARD,), iter([rows(["a"])]), None)) == []
    assert (store.n_buckets, store.streams) == ((4,), {})  # its line is decided in the bucket of its key
    with pytest.raises(InvalidStateError, match=r"buckets=8, its checkpoint has 4.*Give buckets=4"):
        list(processor(store, n_buckets=8).handleInputRows((GUARD,), iter([rows(["a"])]), None))


def test_a_worker_keeps_no_stream_after_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    made, seen = processor(Store()), []
    restore = obil.OnlineClassifier.from_state.__func__  # type: ignore[attr-defined]

    def remembered(cls: Any, *arguments: Any, **settings: Any) -> Any:
        online = restore(cls, *arguments, **settings)
        seen.append(weakref.ref(online))
        return online

    monkeypatch.setattr(obil.OnlineClassifier, "from_state", classmethod(remembered))
    for batch in range(2):
        list(made.handleInputRows((0,), iter([rows([f"{batch}/{i}" for i in range(20)], batch=batch)]), None))
    gc.collect()
    assert len(seen) > 40
    assert not [one for one in seen if one() is not None]
