"""Times: numbers and dates as people write them, and an error that names the cell."""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from obil.datasets.times import are_dates, as_times
from obil.errors import InvalidInputError

DAYS = pd.date_range("2024-11-05", periods=60, freq="D")
SECONDS = (DAYS - pd.Timestamp(0)) / pd.Timedelta(seconds=1)


@pytest.mark.parametrize(
    "form",
    ["%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%Y", "%m-%d-%Y", "%d %B %Y",
     "%d-%b-%Y", "%B %d, %Y", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M:%S", "%Y-%m-%dT%H:%M:%S"],
)  # fmt: skip
def test_dates_in_many_forms_are_times(form: str) -> None:
    texts = pd.Series(DAYS.strftime(form))
    np.testing.assert_array_equal(as_times(texts), SECONDS)
    assert are_dates(texts)


def test_leading_zeros_may_be_left_out() -> None:
    assert (np.diff(as_times(pd.Series(["9/5/2024", "9/30/2024", "10/1/2024"]))) > 0).all()


def test_months_are_times() -> None:
    months = pd.Series(["January 2025", "February 2025", "March 2025"])
    assert are_dates(months)
    assert (np.diff(as_times(months)) > 0).all()


def test_ambiguous_dates_are_dates_and_refused_as_times() -> None:
    texts = pd.Series(["03/03/2024", "03/04/2024", "05/06/2024"])
    assert are_dates(texts)
    with pytest.raises(InvalidInputError, match=r"is the day, got '03/04/2024' in row 2.*write them as 2024-12-31"):
        as_times(texts)
    same = pd.Series(["03/03/2024", "05/05/2024"])  # the same day either way
    assert np.diff(as_times(same)).tolist() == [63 * 86_400.0]


@pytest.mark.parametrize(
    "texts",
    [["3/4", "5/6"], ["ward 5", "ward 6"], ["31/31/2024", "01/02/2024"], ["a", "01/02/2024"], ["192.168.1", "10.0.0"],
     ["13/05/2024", "05/13/2024"]],
)  # fmt: skip
def test_other_text_is_no_date(texts: Sequence[str]) -> None:
    assert not are_dates(pd.Series(texts))


@pytest.mark.parametrize("form", ["number", "%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y"])
@pytest.mark.parametrize("wrong", ["oops", "2024-13-45", "99/99/2024"])
def test_the_cell_that_is_wrong_is_named_with_its_row(form: str, wrong: str) -> None:
    cells = [str(n) for n in range(60)] if form == "number" else DAYS.strftime(form).tolist()
    cells[50] = wrong
    with pytest.raises(InvalidInputError, match=rf"got '{re.escape(wrong)}' in row 51$"):
        as_times(pd.Series(cells))


def test_a_row_is_called_by_its_number_in_the_table_also_where_others_were_left_out() -> None:
    with pytest.raises(InvalidInputError, match=r"got 'oops' in row 8$"):
        as_times(pd.Series(["1", "oops", "3"], index=[0, 7, 9]))
    with pytest.raises(InvalidInputError, match=r"got none in 1 of 3, the first of them row 10$"):
        as_times(pd.Series(["1", "2", None], index=[0, 7, 9]))
    with pytest.raises(InvalidInputError, match=r"got 'oops' in row 2$"):
        as_times(pd.Series(["1", "oops", "3"], index=["a", "b", "c"]))


@pytest.mark.parametrize("values", [[True, False], [1, "oops"], [None, None], [("a", "b"), ("c", "d")]])
def test_what_can_be_no_time_is_refused_with_the_same_message(values: Sequence[object]) -> None:
    with pytest.raises(InvalidInputError, match="time"):
        as_times(pd.Series(values))
