"""Models are uploaded, activated and rolled back while streams run; nothing uploaded is trusted."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import obil
from obil.errors import ModelFileError
from obil.service.refusals import ModelRefusedError, RefusedError, UnknownModelError
from obil.service.storage.store import open_store
from obil.service.streams import limited_load, model_registry
from obil.service.streams.limited_load import require_loadable
from obil.service.streams.model_registry import ModelRegistry, version_of
from obil.service.streams.operations import Rows, Sender
from obil.service.streams.stream_hub import StreamHub
from tests.service.models import gaussian_rows, saved_model
from tests.service.streams.test_model_archive import tar_of

ANN = Sender(by="ann")
Start = Callable[..., StreamHub]


def doubled(values: np.ndarray) -> np.ndarray:
    """Stand for code of one's own in a model."""
    return 2.0 * values


DOUBLED = f"{doubled.__module__}.doubled"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model(tmp_path_factory.mktemp("newer") / "model", seed=1)


@pytest.fixture
def start(folder: Path, tmp_path: Path) -> Iterator[Start]:
    """Start hubs as processes of their own would be, on one store."""
    hubs: list[StreamHub] = []

    def begin(served: Path = folder, **options: Any) -> StreamHub:
        store = open_store(str(tmp_path / "streams.db"))
        try:
            hubs.append(StreamHub(store, ModelRegistry(served, store, **options)))
        except BaseException:
            store.close()
            raise
        return hubs[-1]

    yield begin
    for hub in hubs:
        hub.close()


def archive_of(folder: Path) -> bytes:
    return tar_of(*((path.name, path.read_bytes()) for path in sorted(folder.iterdir())))


def upload(hub: StreamHub, folder: Path) -> str:
    return asyncio.run(hub.models.upload(archive_of(folder), ANN)).version


def decide(hub: StreamHub, n_rows: int, seed: int = 5) -> Any:
    rows, _ = gaussian_rows(n_rows, 0.4, seed)
    return asyncio.run(hub.decide("shop", Rows(rows, n_rows), ANN))


def page(hub: StreamHub) -> Any:
    return asyncio.run(hub.models.page())


def test_an_uploaded_model_decides_once_it_is_activated_and_the_prior_survives(start: Start, newer: Path) -> None:
    hub = start()
    first = decide(hub, 2_000).model
    prior = asyncio.run(hub.detail("shop")).prior["1"]
    version = upload(hub, newer)
    assert version == version_of({path.name: path.read_bytes() for path in newer.iterdir()})
    assert decide(hub, 1).model == first
    assert asyncio.run(hub.models.activate(version, ANN)).version == version
    after = decide(hub, 10)
    assert after.model == version
    np.testing.assert_allclose(after.decisions.effective_priors[0, 1], prior, atol=0.02)
    shown = page(hub)
    assert (shown.active, shown.previous) == (version, first)
    assert [(one.version, one.source, one.by, one.activated_by) for one in shown.models] == [
        (version, "upload", "ann", "ann"), (first, "folder", "service", "service"),
    ]  # fmt: skip


def test_a_rollback_activates_the_version_before_and_a_second_one_undoes_it(start: Start, newer: Path) -> None:
    hub = start()
    with pytest.raises(UnknownModelError, match="no other version was active"):
        asyncio.run(hub.models.roll_back(ANN))
    first, version = page(hub).active, upload(hub, newer)
    asyncio.run(hub.models.activate(version, ANN))
    decide(hub, 50)
    for expected in (first, version):
        assert asyncio.run(hub.models.roll_back(ANN)).version == expected
        assert decide(hub, 50).model == expected
    assert asyncio.run(hub.detail("shop")).rows == 150


def test_what_was_activated_stays_active_after_a_restart_until_the_folder_changes(
    start: Start, folder: Path, newer: Path, tmp_path: Path
) -> None:
    served = tmp_path / "served"
    shutil.copytree(folder, served)
    hub = start(served)
    first = page(hub).active
    version = upload(hub, newer)
    asyncio.run(hub.models.activate(version, ANN))
    hub.close()
    again = start(served)
    assert again.model_card.version == version
    assert decide(again, 1).model == version
    assert asyncio.run(again.reload_model(ANN)).version == first  # asked for
    asyncio.run(again.models.activate(version, ANN))
    again.close()
    shutil.rmtree(served)
    saved_model(served, seed=2)
    last = start(served)
    assert last.model_card.version not in {first, version}
    assert page(last).previous == version


def test_another_process_on_the_store_follows(start: Start, newer: Path) -> None:
    one, two = start(), start()
    decide(one, 30)
    version = upload(one, newer)
    asyncio.run(one.models.activate(version, ANN))
    assert decide(two, 1).model == version  # at once, from the store
    two.follow_model()
    assert two.model_card.version == version
    asyncio.run(two.models.roll_back(ANN))
    one.follow_model()
    assert one.model_card.version == decide(one, 1).model != version
    assert two.models is not one.models
    assert page(one) == page(two)


def test_uploading_twice_changes_nothing(start: Start, newer: Path, folder: Path) -> None:
    hub = start()
    upload(hub, newer)
    before = page(hub)
    upload(hub, newer)
    assert page(hub) == before
    upload(hub, folder)  # what is active already
    assert page(hub) == before


def untrusted_model(target: Path) -> Path:
    """Save a model with a function that only `trusted` lets in."""
    rows, labels = gaussian_rows(3_000, 0.1, 0)
    pipeline = make_pipeline(FunctionTransformer(doubled), LogisticRegression())
    obil.save(obil.RatioClassifier(pipeline, views=False, random_state=0).fit(rows, labels), target)
    return target


def test_an_uploaded_model_does_not_inherit_trust(start: Start, tmp_path: Path) -> None:
    untrusted = untrusted_model(tmp_path / "untrusted")
    hub = start(trusted=[DOUBLED])
    before = page(hub)
    with pytest.raises(ModelRefusedError, match="types that are not on the list"):
        upload(hub, untrusted)
    assert page(hub) == before
    hub.close()
    vouched = start(untrusted, trusted=[DOUBLED])  # the operator's own folder may hold it
    assert vouched.model_card.version != before.active


def test_an_upload_is_loaded_without_trust_even_where_the_limited_process_is_fooled(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    untrusted = untrusted_model(tmp_path / "untrusted")
    monkeypatch.setattr(limited_load, "require_loadable", lambda _folder: None)
    with pytest.raises(ModelRefusedError, match="types that are not on the list"):
        upload(start(trusted=[DOUBLED]), untrusted)


def test_a_stored_upload_is_loaded_without_trust_by_every_process(start: Start, folder: Path, tmp_path: Path) -> None:
    untrusted = untrusted_model(tmp_path / "untrusted")
    files = {path.name: path.read_bytes() for path in untrusted.iterdir()}
    hub = start(trusted=[DOUBLED])
    with open_hub_store(tmp_path) as store, store.writing() as session:  # as if it had come past the checks
        session.add_model(version_of(files), files, source="upload", at=1.0, by="x")
    with pytest.raises(ModelRefusedError, match="types that are not on the list"):
        asyncio.run(hub.models.activate(version_of(files), ANN))
    assert decide(hub, 1).model == page(hub).active != version_of(files)


def open_hub_store(tmp_path: Path) -> Any:
    from contextlib import closing

    return closing(open_store(str(tmp_path / "streams.db")))


def other_classes(target: Path) -> Path:
    rows, labels = gaussian_rows(3_000, 0.1, 0)
    obil.save(
        obil.RatioClassifier(LogisticRegression(), views=False).fit(rows, np.array(["no", "yes"])[labels]), target
    )
    return target


def other_columns(target: Path) -> Path:
    rows, labels = gaussian_rows(3_000, 0.1, 0)
    obil.save(obil.RatioClassifier(LogisticRegression(), views=False).fit(rows[:, :2], labels), target)
    return target


def named_columns(target: Path) -> Path:
    return saved_model(target, named=True)


def uncalibrated(target: Path) -> Path:
    rows, labels = gaussian_rows(3_000, 0.1, 0)
    obil.save(obil.RatioClassifier(LogisticRegression(), views=False).fit(rows, labels[::-1]), target)
    return target


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (other_classes, "classes"),
        (other_columns, "columns of the active one"),
        (named_columns, "columns of the active one"),
        (uncalibrated, "deployment gate refuses"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(
    start: Start, tmp_path: Path, make: Callable[[Path], Path], reason: str
) -> None:
    hub = start()
    before = page(hub)
    with pytest.raises(ModelRefusedError, match=reason):
        upload(hub, make(tmp_path / "other"))
    assert page(hub) == before


def change(target: Path, name: str, content: bytes | None) -> Path:
    if content is None:
        (target / name).unlink()
    else:
        (target / name).write_bytes(content)
    return target


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("manifest.json", None, "no manifest"),
        ("manifest.json", b"[" * 100_000, "damaged"),
        ("manifest.json", b'{"kind": "ratio_model", "format": 99}', "format 99"),
        ("arrays.safetensors", b"\xff" * 100, "changed or cut short"),
        ("arrays.safetensors", None, "lacks the file"),
        ("payload.pkl", b"cos\nsystem\n(S'true'\ntR.", "does not list"),
    ],
)
def test_a_damaged_model_is_refused_and_nothing_of_it_is_stored(
    start: Start, newer: Path, tmp_path: Path, name: str, content: bytes | None, reason: str
) -> None:
    hub = start()
    before = page(hub)
    shutil.copytree(newer, tmp_path / "bad")
    with pytest.raises(ModelRefusedError, match=reason):
        upload(hub, change(tmp_path / "bad", name, content))
    assert page(hub) == before


def test_a_manifest_cannot_name_a_file_elsewhere(start: Start, newer: Path, tmp_path: Path) -> None:
    shutil.copytree(newer, tmp_path / "bad")
    manifest = json.loads((newer / "manifest.json").read_text())
    manifest["files"]["../../etc/passwd"] = "0" * 64
    with pytest.raises(ModelRefusedError, match="lacks the file"):
        upload(start(), change(tmp_path / "bad", "manifest.json", json.dumps(manifest).encode()))


def test_a_model_is_given_little_time_and_memory(newer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelFileError, match="took more than"):
        require_loadable(newer, seconds=0.05)
    with pytest.raises(ModelFileError):
        require_loadable(newer, memory=150_000_000, seconds=5.0)  # libraries wait for memory in vain, or end
    monkeypatch.setattr(limited_load, "_PASSED_ON", ())
    monkeypatch.setenv("OBIL_SERVICE_STORE", "postgresql://user:secret@host/db")
    require_loadable(newer)


@pytest.mark.parametrize(
    ("wanted", "error"), [("bytearray(10**9)", "MemoryError"), ("open('big', 'wb').write(bytes(10**8))", "OSError")]
)
def test_the_limited_process_has_no_more_than_it_is_given(tmp_path: Path, wanted: str, error: str) -> None:
    code = f"from {limited_load.__name__} import _limit\n_limit(60.0, 900_000_000)\n{wanted}"
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert error in ran.stderr


def test_only_uploads_that_were_never_active_can_be_deleted(start: Start, newer: Path) -> None:
    hub = start()
    first, version = page(hub).active, upload(hub, newer)
    for wrong in (first, "0" * 16):
        with pytest.raises(RefusedError):
            asyncio.run(hub.models.remove(wrong))
    asyncio.run(hub.models.remove(version))
    assert [one.version for one in page(hub).models] == [first]
    with pytest.raises(UnknownModelError):
        asyncio.run(hub.models.activate(version, ANN))
    upload(hub, newer)
    asyncio.run(hub.models.activate(version, ANN))
    decide(hub, 3)
    asyncio.run(hub.models.roll_back(ANN))
    with pytest.raises(ModelRefusedError, match="never active"):
        asyncio.run(hub.models.remove(version))


def test_the_store_keeps_a_limited_number_of_uploads(
    start: Start, newer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_registry, "MOST_UPLOADS", 1)
    hub = start()
    version = upload(hub, newer)
    upload(hub, newer)  # the same again
    with pytest.raises(ModelRefusedError, match="delete one"):
        upload(hub, saved_model(tmp_path / "third", seed=3))
    asyncio.run(hub.models.activate(version, ANN))
    upload(hub, saved_model(tmp_path / "fourth", seed=4))


def test_a_model_with_categories_may_bring_others(tmp_path: Path, start: Start) -> None:
    def table(countries: list[str], seed: int) -> Path:
        rows, labels = gaussian_rows(2_000, 0.2, seed)
        frame = pd.DataFrame({"amount": rows[:, 0], "country": np.resize(countries, 2_000)})
        from obil.estimators.table_fit import fit_table

        obil.save(fit_table(frame, labels, model="logistic").model, tmp_path / f"table{seed}")
        return tmp_path / f"table{seed}"

    hub = start(table(["DE", "FR"], 1))
    version = upload(hub, table(["FR", "PL", "DE"], 2))
    assert asyncio.run(hub.models.activate(version, ANN)).version == version
