import asyncio
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

import obil
from obil.service.storage.store import open_store
from obil.service.streams.model_registry import ModelRegistry
from obil.service.streams.operations import Rows, Sender
from obil.service.streams.replay import replay
from obil.service.streams.stream_hub import StreamHub
from tests.service.models import gaussian_rows
from tests.service.postgres import open_test_store


def test_rows_without_features_are_stored_and_replayed_as_they_were_decided(tmp_path: Path) -> None:
    classifier = obil.RatioClassifier(HistGradientBoostingClassifier(max_iter=10, random_state=0), random_state=0)
    model = classifier.fit(*gaussian_rows(2_000, 0.2, 0)).model_
    obil.save(model, tmp_path / "model")
    rows, _ = gaussian_rows(600, 0.4, 1)
    rows[::5] = np.nan
    online = obil.OnlineClassifier(model)
    expected = online.decide_many(rows)
    url = str(tmp_path / "streams.db")
    store = open_test_store(url)
    hub = StreamHub(store, ModelRegistry(tmp_path / "model", store))
    try:
        for part in np.split(np.arange(600), [1, 200, 207]):
            decided = asyncio.run(hub.decide("shop", Rows(rows[part], len(part), None), Sender())).decisions
            np.testing.assert_array_equal(decided.effective_priors, expected.effective_priors[part])
    finally:
        hub.close()
    store = open_store(url)
    try:
        row = store.stream("shop")
        assert row is not None
        replayed = replay(None, store.log(row.id), ModelRegistry(tmp_path / "model", store).get)
    finally:
        store.close()
    assert replayed.state() == online.state()
