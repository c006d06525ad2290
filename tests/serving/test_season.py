"""The season of a row against sines and cosines of its calendar, for every kind of time."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pytest

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.serving.row_inputs import N_WAVES
from obil.serving.season import season_of

NOON = datetime(2024, 2, 29, 12, 30)  # a Thursday


def by_calendar(time: datetime) -> FloatArray:
    """Return the eight waves by hand, from the hour, the weekday and the day; years are of 365.2425 days."""
    hour = time.hour + time.minute / 60.0
    days = (time - datetime(1970, 1, 1)).total_seconds() / 86_400.0
    weekday = (time.weekday() - 3) % 7 + hour / 24.0  # 1970 began with a Thursday
    parts = [(hour / 24.0, 2), (weekday / 7.0, 1), (days / 365.2425, 1)]
    angles = [2.0 * np.pi * k * part for part, harmonics in parts for k in range(1, harmonics + 1)]
    return np.array([wave(angle) for angle in angles for wave in (np.sin, np.cos)])


@pytest.mark.parametrize(
    "at",
    [
        NOON,
        [NOON],
        NOON.replace(tzinfo=UTC),
        NOON.replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=9))),
        np.datetime64("2024-02-29T12:30"),
        np.array(["2024-02-29T12:30:00.000000000"], dtype="M8[ns]"),
        pd.Series([pd.Timestamp(NOON)]),
        pd.Series([pd.Timestamp(NOON, tz="UTC")]),
        pd.DatetimeIndex([NOON]),
        pd.Timestamp(NOON),
        NOON.replace(tzinfo=UTC).timestamp(),
        [NOON.replace(tzinfo=UTC).timestamp()],
        np.array([int(NOON.replace(tzinfo=UTC).timestamp())]),
    ],
    ids=lambda at: f"{type(at).__name__}",
)
def test_every_kind_of_time_gives_where_it_stands_in_the_day_the_week_and_the_year(at: Any) -> None:
    np.testing.assert_allclose(season_of(at, 1), by_calendar(NOON)[None], rtol=0, atol=1e-9)


def test_waves_come_back_after_their_period_also_before_1970() -> None:
    for start in (datetime(1960, 5, 5, 3), datetime(2030, 1, 1)):
        season = season_of([start, start + timedelta(days=1), start + timedelta(days=7)], 3)
        np.testing.assert_allclose(season[1, :4], season[0, :4], atol=1e-9)
        np.testing.assert_allclose(season[2, :6], season[0, :6], atol=1e-9)
        assert abs(season[1, 4:6] - season[0, 4:6]).max() > 0.1


def test_one_time_is_that_of_all_rows_and_a_missing_one_gives_zeros() -> None:
    np.testing.assert_array_equal(season_of(NOON, 3), np.repeat(season_of(NOON, 1), 3, axis=0))
    for missing in (
        [np.nan, 0.0],
        [None, NOON],
        [pd.NaT, pd.Timestamp(NOON)],
        np.array(["NaT", "2024-01-01"], "M8[s]"),
    ):
        season = season_of(missing, 2)
        assert season.shape == (2, N_WAVES)
        assert not season[0].any()
        assert season[1].any()


@pytest.mark.parametrize("at", ["2024-02-29", [NOON, "x"], [NOON] * 3, [[0.0, 1.0]], 1e13, np.inf, True, {}, b"x"])
def test_what_is_no_time_of_each_row_is_refused(at: Any) -> None:
    with pytest.raises(InvalidInputError, match="at must"):
        season_of(at, 2)
