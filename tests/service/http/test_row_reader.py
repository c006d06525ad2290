import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from obil.estimators.ratio_classifier import RatioClassifier
from obil.service.http.request_bodies import rows_of_csv, rows_of_json
from obil.service.http.row_reader import RowReader
from obil.service.refusals import BadInputError
from obil.serving.ratio_model import RatioModel
from tests.service.conftest import ROW, payments


def read(model: RatioModel, **request: Any) -> Any:
    return rows_of_json(json.dumps(request).encode(), RowReader(model), max_rows=1_000)


@pytest.fixture(scope="module")
def bare_model() -> RatioModel:
    rows, labels = payments(400)
    return RatioClassifier(LogisticRegression()).fit(rows[["amount", "age"]].to_numpy(), labels).model_


@pytest.fixture(scope="module")
def named_model() -> RatioModel:
    rows, labels = payments(400)
    return RatioClassifier(LogisticRegression()).fit(rows[["amount", "age"]], labels).model_


def test_one_row_scores_as_the_encoder_has_it(model: RatioModel) -> None:
    assert model.encoder is not None
    expected = model.log_ratios({name: [value] for name, value in ROW.items()})

    for request in ({"row": ROW}, {"rows": [ROW]}, {"row": list(ROW.values())}):
        np.testing.assert_array_equal(model.log_ratios(read(model, **request).table), expected)


def test_many_rows_equal_each_row_alone(model: RatioModel) -> None:
    frame, _ = payments(50, seed=3)
    rows: list[dict[str, Any]] = frame.to_dict("records")
    rows[7]["country"] = "another"
    rows[8]["country"] = None
    rows[9]["amount"] = None
    rows[10]["country"] = ""

    together = read(model, rows=rows).table
    alone = np.concatenate([read(model, row=row).table for row in rows])

    np.testing.assert_array_equal(together, alone)
    assert model.encoder is not None
    np.testing.assert_array_equal(together, model.encoder.encode(pd.DataFrame(rows)))


def test_csv_gives_the_table_that_json_gives(model: RatioModel) -> None:
    frame, _ = payments(30, seed=4)
    frame.insert(0, "order", [f"{i:03}" for i in range(30)])
    body = frame.to_csv(index=False).encode()

    rows = rows_of_csv(body, RowReader(model), max_rows=100, id_column="order", keep_inputs=True)

    features = frame.drop(columns="order").to_dict("records")
    np.testing.assert_array_equal(rows.table, read(model, rows=features).table)
    assert rows.ids == [f"{i:03}" for i in range(30)]  # letter for letter: 007 is not 7
    assert rows.inputs == features


def test_keeps_inputs_only_when_asked(model: RatioModel) -> None:
    body = json.dumps({"row": ROW}).encode()

    assert rows_of_json(body, RowReader(model), max_rows=1).inputs is None
    assert rows_of_json(body, RowReader(model), max_rows=1, keep_inputs=True).inputs == [ROW]


def test_a_model_without_names_takes_arrays_and_refuses_names(bare_model: RatioModel) -> None:
    rows = read(bare_model, rows=[[1.5, 40], [2, 50.0]])

    np.testing.assert_array_equal(rows.table, [[1.5, 40.0], [2.0, 50.0]])
    assert rows.table.dtype == np.float64
    with pytest.raises(BadInputError, match="no column names"):
        read(bare_model, row={"amount": 1.5, "age": 40})
    with pytest.raises(BadInputError, match="2 features") as refused:
        read(bare_model, row=[1.5])
    assert refused.value.where == "rows"


def test_a_model_of_a_frame_scores_rows_in_any_order_of_names(named_model: RatioModel) -> None:
    table = read(named_model, row={"age": 40, "amount": 1.5}).table

    np.testing.assert_array_equal(named_model.log_ratios(table), named_model.log_ratios(np.array([[1.5, 40.0]])))
    with pytest.raises(BadInputError) as refused:
        read(named_model, row={"age": 40, "amount": {}})
    assert refused.value.where == "amount"


def test_null_is_refused_by_name_where_the_model_cannot_score_it(bare_model: RatioModel) -> None:
    with pytest.raises(BadInputError, match="cannot score rows where it is missing") as refused:
        read(bare_model, rows=[[1.0, 40.0], [1.0, None]])
    assert refused.value.where == "1"


def test_null_is_scored_where_the_model_can() -> None:
    rows, labels = payments(400)
    trees = RatioClassifier(HistGradientBoostingClassifier(max_iter=5))
    model = trees.fit(rows[["amount", "age"]].to_numpy(), labels).model_

    table = read(model, row=[None, 40]).table

    assert np.isnan(table[0, 0])
    assert np.isfinite(model.log_ratios(table)).all()


@pytest.mark.parametrize("cell", [True, "1", [1], {}, 10**400])
def test_names_the_column_and_the_row_to_blame(model: RatioModel, cell: object) -> None:
    with pytest.raises(BadInputError, match="row 3") as refused:
        read(model, rows=[ROW, ROW, ROW, {**ROW, "age": cell}])
    assert refused.value.where == "age"


def test_names_the_string_in_a_column_of_numbers_and_not_the_numbers_beside_it(model: RatioModel) -> None:
    table = b"amount,age,country\n3.2,41,DE\nten,3,FR\n"

    with pytest.raises(BadInputError, match="got 'ten' in row 1"):
        rows_of_csv(table, RowReader(model), max_rows=10)


def test_names_the_column_that_stands_where_one_is_missing(model: RatioModel) -> None:
    with pytest.raises(BadInputError, match="'amount' is missing in row 0, which has 'amont'"):
        read(model, row={"amont": 3.2, "age": 41, "country": "DE"})
