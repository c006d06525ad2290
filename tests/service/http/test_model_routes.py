"""A model is uploaded over HTTP where the operator allows it, then activated, and rolled back."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from obil.service import Client, ServiceError
from obil.service.http.app import create_app
from obil.service.service_settings import ServiceSettings
from tests.service import conftest
from tests.service.conftest import Served
from tests.service.models import saved_model
from tests.service.serving import serving
from tests.service.streams.test_model_archive import tar_of
from tests.service.streams_on_disk import StreamsOnDisk

TAR = {"content-type": "application/x-tar"}
SMALL = tar_of(("manifest.json", b"{}"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model(tmp_path_factory.mktemp("model") / "model")


@contextmanager
def app_of(folder: Path, tmp_path: Path, **settings: Any) -> Iterator[Any]:
    streams = StreamsOnDisk(folder, tmp_path / "streams.db")
    yield create_app(streams, ServiceSettings(**settings))
    streams.close()


def test_models_cannot_be_uploaded_unless_the_operator_allows_it(make_served: Any) -> None:
    answer = make_served().client.post("/v1/models", content=SMALL, headers=TAR)
    assert (answer.status_code, answer.json()["code"]) == (403, "uploads_off")


def test_an_archive_that_is_wrong_is_refused_by_its_kind(served: Served) -> None:
    for content, headers, code in (
        (SMALL, {"content-type": "application/zip"}, "unsupported_type"),
        (b"PK", TAR, "not_understood"),
        (tar_of(("../manifest.json", b"{}")), TAR, "bad_input"),
        (SMALL, TAR, "model_refused"),
        (tar_of(("a", bytes(1_000_001))), TAR, "too_large"),
    ):
        answer = served.client.post("/v1/models", content=content, headers=headers)
        assert answer.json()["code"] == code, answer.text
    assert "raise upload_bytes" in answer.json()["detail"]  # a model cannot be sent in parts
    assert len(served.client.get("/v1/models").json()["models"]) == 1


def test_an_upload_may_be_larger_than_rows_and_rows_no_larger_than_before(make_served: Any) -> None:
    served = make_served(upload_bytes=500_000, max_body_bytes=1_000)
    assert served.client.post("/v1/models", content=bytes(100_000), headers=TAR).status_code == 422
    for method, path in (("POST", "/v1/streams/shop/decisions"), ("GET", "/v1/models"), ("POST", "/v1/models/")):
        assert served.client.request(method, path, content=bytes(100_000), headers=TAR).status_code == 413


def test_uploads_activates_and_rolls_back_with_the_client(folder: Path, tmp_path: Path) -> None:
    newer = saved_model(tmp_path / "newer", seed=1)
    with (
        app_of(folder, tmp_path, upload_bytes=10_000_000) as app,
        serving(app) as address,
        Client(address) as client,
    ):
        first = client.model().version
        card = client.upload_model(newer)
        assert client.model().version == first
        assert client.model(card.version) == card
        assert [one.version for one in client.models().models] == [card.version, first]
        assert client.activate_model(card.version).version == client.model().version == card.version
        assert client.stream("shop").decide([0.1, 0.2, 0.3]).model == card.version
        assert client.models().previous == first
        assert client.roll_back_model().version == first
        with pytest.raises(ServiceError) as refused:
            client.delete_model(card.version)
        assert (refused.value.status, refused.value.code) == (409, "model_refused")
        with pytest.raises(ServiceError) as refused:
            client.activate_model("0" * 16)
        assert (refused.value.status, refused.value.code) == (404, "unknown_model")
        third = client.upload_model(saved_model(tmp_path / "third", seed=2))
        client.delete_model(third.version)
        assert len(client.models().models) == 2


def test_a_folder_that_tar_packs_is_taken(folder: Path, tmp_path: Path) -> None:
    tar = shutil.which("tar")
    if tar is None:
        pytest.skip("tar is not installed")
    newer = saved_model(tmp_path / "newer", seed=1)
    archive = subprocess.run([tar, "-cf", "-", "-C", str(newer), "."], capture_output=True, check=True).stdout
    with app_of(folder, tmp_path, upload_bytes=10_000_000) as app:
        answer = conftest.Client(app).post("/v1/models", content=archive, headers=TAR)
    assert answer.status_code == 201, answer.text
