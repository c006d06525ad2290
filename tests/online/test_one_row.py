"""One row comes in whatever form a caller has it, and a wrong one is refused with the reason."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from obil.errors import InvalidInputError
from obil.estimators.ratio_classifier import RatioClassifier
from obil.online.one_row import one_row


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"a": 1, "b": 2, "z": 3}, "got 'z' not among them"),
        ({"a": 1}, "got 'b' missing"),
        ({"a": 1, "B": 2, 7: 3}, "got 'b' missing and '7', 'B' not among them"),
    ],
)
def test_columns_that_differ_are_named_and_no_empty_list_is(row: dict[object, int], said: str) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"])
    model = RatioClassifier(LogisticRegression()).fit(table, np.arange(80) % 2).model_
    with pytest.raises(InvalidInputError, match="columns and no others, ") as error:
        one_row(row, model)
    assert str(error.value).endswith(said)
