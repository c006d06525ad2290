"""Tables of any kind are matched by column name, and give the same bits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import obil

pytest.importorskip("polars")
pytest.importorskip("pyarrow")


def as_polars(frame: pd.DataFrame) -> Any:
    import polars

    return polars.DataFrame(as_dict(frame), strict=False)


def as_pyarrow(frame: pd.DataFrame) -> Any:
    import pyarrow

    return pyarrow.table(as_dict(frame))


def as_dict(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Columns as lists, None where a value is missing."""
    return {name: [None if pd.isna(cell) else cell for cell in frame[name]] for name in frame.columns}


KINDS = {"polars": as_polars, "pyarrow": as_pyarrow, "dict": as_dict}
Convert = Callable[[pd.DataFrame], Any]


@pytest.fixture(params=KINDS)
def convert(request: pytest.FixtureRequest) -> Convert:
    return KINDS[request.param]


def payments(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Amounts, some missing, whole numbers, and a country that is sometimes missing."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(n) < 0.3
    amount = rng.normal(2.0 * fraud, 1.0)
    amount[rng.random(n) < 0.1] = np.nan
    country = rng.choice(["AT", "CH", "DE"], n).astype(object)
    country[rng.random(n) < 0.1] = np.nan
    frame = pd.DataFrame({"amount": amount, "items": rng.integers(1, 9, n), "country": country})
    return frame, np.where(fraud, "fraud", "ok")


def pipeline() -> Any:
    categories = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="none"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    columns = make_column_transformer((categories, ["country"]), remainder="passthrough")
    return obil.RatioClassifier(
        make_pipeline(columns, HistGradientBoostingClassifier(max_iter=10)), cv=3, random_state=0
    )


def ensemble() -> Any:
    return obil.OBILClassifier(member="trees", n_members=2, random_state=0)


@pytest.mark.parametrize("build", [pipeline, ensemble])
def test_every_kind_of_table_gives_the_same_bits(build: Callable[[], Any], convert: Convert, tmp_path: Any) -> None:
    frame, labels = payments(400, 0)
    rows, truth = payments(200, 1)
    shuffled = convert(rows[["country", "amount", "items"]])
    expected = build().fit(frame, labels)
    found = build().fit(convert(frame), labels)
    np.testing.assert_array_equal(found.log_ratios(convert(rows)), expected.log_ratios(rows))
    np.testing.assert_array_equal(
        found.predict_proba(convert(rows), prior=0.1), expected.predict_proba(rows, prior=0.1)
    )
    np.testing.assert_array_equal(found.predict(convert(rows)), expected.predict(rows))
    np.testing.assert_array_equal(found.model_.log_ratios(shuffled), expected.model_.log_ratios(rows))
    np.testing.assert_array_equal(obil.estimate_prior(found, shuffled).prior, obil.estimate_prior(expected, rows).prior)
    assert str(obil.verify(found, convert(rows), truth)) == str(obil.verify(expected, rows, truth))
    online, reference = obil.OnlineClassifier(found), obil.OnlineClassifier(expected)
    np.testing.assert_array_equal(online.decide_many(shuffled).posteriors, reference.decide_many(rows).posteriors)
    one = rows.iloc[:1]
    given = as_dict(one) if convert is as_dict else convert(one)
    given = {name: values[0] for name, values in given.items()} if convert is as_dict else given
    assert online.decide(given).posterior.tolist() == reference.decide(one).posterior.tolist()
    obil.save(expected, tmp_path / "model")
    np.testing.assert_array_equal(obil.load(tmp_path / "model").log_ratios(shuffled), expected.log_ratios(rows))


def test_a_backtest_takes_any_table(convert: Convert) -> None:
    frame, labels = payments(600, 0)
    found = obil.backtest(pipeline(), convert(frame), labels, time=np.arange(600))
    expected = obil.backtest(pipeline(), frame, labels, time=np.arange(600))
    assert found["safe"].log_loss == expected["safe"].log_loss


def test_a_missing_column_is_named(convert: Convert) -> None:
    frame, labels = payments(400, 0)
    model = pipeline().fit(frame, labels).model_
    with pytest.raises(obil.InvalidInputError, match="columns are missing: country; there are amount, items"):
        model.log_ratios(convert(frame[["amount", "items"]]))


def test_what_is_no_table_in_memory_is_refused() -> None:
    import polars

    frame, labels = payments(400, 0)
    model = pipeline().fit(frame, labels).model_
    with pytest.raises(obil.InvalidInputError, match="LazyFrame is not a table that can be read"):
        model.log_ratios(polars.LazyFrame(as_dict(frame)))
