from pathlib import Path

import numpy as np
import pytest

import obil
from obil.estimators.table_fit import fit_table
from obil.service.http.app import create_app
from obil.service.http.request_bodies import rows_of_json
from obil.service.http.row_reader import RowReader
from obil.service.refusals import BadInputError, ModelChangedError
from obil.service.service_settings import ServiceSettings
from obil.service.streams.operations import Rows
from obil.service.streams.scoring import score
from obil.serving.ratio_model import RatioModel
from tests.service.conftest import ROW, Client, payments
from tests.service.streams_on_disk import StreamsOnDisk

BODY = b'{"row": {"amount": 3.2, "age": 41, "country": "DE"}}'


@pytest.fixture(scope="module")
def newer() -> RatioModel:
    """Fit a model in which the same categories have other codes."""
    rows, labels = payments(1_500, seed=1)
    rows.loc[:300, "country"] = "AT"
    return fit_table(rows, labels, model="logistic").model


def test_scores_rows_only_by_a_model_that_reads_them_alike(model: RatioModel, newer: RatioModel) -> None:
    rows = rows_of_json(BODY, RowReader(model), max_rows=10)
    np.testing.assert_array_equal(score(rows, model)[0], model.log_ratios(rows.table))
    with pytest.raises(ModelChangedError, match="send it again"):
        score(rows, newer)


def test_a_row_is_refused_whatever_error_the_model_raises(model: RatioModel) -> None:
    class Failing:
        encoder = feature_names = None

        def score(self, table: object) -> None:
            raise RuntimeError("no such level")

    with pytest.raises(BadInputError, match="cannot be scored: no such level"):
        score(Rows(np.zeros((1, 3)), 1), Failing())


def test_a_row_is_read_again_when_another_process_has_changed_the_model(
    model: RatioModel, newer: RatioModel, model_folder: Path, tmp_path: Path
) -> None:
    obil.save(newer, tmp_path / "newer")
    first = StreamsOnDisk(model_folder, tmp_path / "streams.db")
    client = Client(create_app(first, ServiceSettings()))
    where = "/v1/streams/shop/decisions"
    assert client.post(where, json={"row": ROW}).status_code == 200
    second = StreamsOnDisk(tmp_path / "newer", tmp_path / "streams.db")  # takes over for all
    try:
        answer = client.post(where, json={"row": ROW})
        assert (answer.status_code, answer.json()["model"]) == (200, second.model_card.version)
        own = score(rows_of_json(BODY, RowReader(newer), max_rows=10), newer)[0][0, 1]
        assert answer.json()["decisions"][0]["log_ratio"] == pytest.approx(own)
        assert client.get("/v1/streams/shop").json()["rows"] == 2
    finally:
        first.close()
        second.close()
