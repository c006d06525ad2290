"""One report serves all who wait for it, and reports take a bounded part of the processor."""

import asyncio
import time
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

import obil
from obil.service.storage.writing import Point
from obil.service.streams.history_figures import HistoryFigures
from obil.service.streams.report_budget import ReportBudget
from obil.trackers.calibration_spread import evidence_variance
from tests.service.models import saved_model


class Reports:
    """Counts the reports that are made."""

    def __init__(self, budget: ReportBudget, *, seconds: float = 0.0, cost: float = 0.0) -> None:
        self._budget, self._seconds, self._cost = budget, seconds, cost
        self.n_made = 0

    async def make(self) -> int:
        self.n_made += 1
        number = self.n_made
        await asyncio.sleep(self._seconds)
        self._budget.charge(self._cost)
        return number


def test_all_who_wait_get_one_report_and_none_that_began_before_they_asked() -> None:
    budget = ReportBudget()
    reports = Reports(budget, seconds=0.05)

    async def ask() -> tuple[Any, Any]:
        first = asyncio.create_task(budget.read("shop", reports.make))
        await asyncio.sleep(0.01)
        later = await asyncio.gather(*(budget.read("shop", reports.make) for _ in range(12)))
        return await first, later

    assert asyncio.run(ask()) == (1, [2] * 12)
    assert asyncio.run(budget.read("shop", reports.make)) == 3


def test_reports_take_no_more_than_their_fraction_once_a_burst_is_used_up() -> None:
    budget = ReportBudget(fraction=0.5, burst=0.1)
    reports = Reports(budget, cost=0.1)

    async def ask() -> float:
        started = time.monotonic()
        for number in range(5):
            await budget.read(number, reports.make)
        return time.monotonic() - started

    # the first two begin on credit, each of the others waits for 0.1 s / 0.5
    assert 0.55 < asyncio.run(ask()) < 1.2


def test_a_report_that_fails_is_told_to_all_who_waited_and_made_again_for_the_next() -> None:
    budget = ReportBudget()
    reports = Reports(budget)

    async def fail() -> int:
        raise ValueError("away")

    async def ask() -> None:
        told = await asyncio.gather(*(budget.read("shop", fail) for _ in range(3)), return_exceptions=True)
        assert [str(one) for one in told] == ["away"] * 3
        assert await budget.read("shop", reports.make) == 1

    asyncio.run(ask())


def test_a_reader_who_leaves_does_not_take_the_report_from_the_others() -> None:
    budget = ReportBudget()
    reports = Reports(budget, seconds=0.05)

    async def ask() -> int:
        leaves = asyncio.create_task(budget.read("shop", reports.make))
        stays = asyncio.create_task(budget.read("shop", reports.make))
        await asyncio.sleep(0.01)
        leaves.cancel()
        return await stays

    assert asyncio.run(ask()) == 1


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("model") / "model"
    saved_model(folder)
    return obil.load(folder)


def point_at(prior: float, log_threshold: float | None = 0.5) -> Point:
    return Point(100, 1.0, prior, prior * 0.8, prior * 1.2, log_threshold, 10, 2, 0.0)


@pytest.mark.parametrize("prior", [0.003, 0.05, 0.21, 0.4])
def test_an_interval_is_widened_by_the_spread_at_its_own_prior(model: Any, prior: float) -> None:
    found = HistoryFigures(model).of(point_at(prior), 1)
    spread = float(np.sqrt(np.asarray(evidence_variance(model, np.array([1.0 - prior, prior])))[-1]))
    extra = (1.6448536269514722 * spread) ** 2
    centre, lower, upper = logit([prior, prior * 0.8, prior * 1.2])
    # the spread is interpolated between priors half a logit apart
    assert found.low == pytest.approx(expit(centre - np.hypot(centre - lower, np.sqrt(extra))), rel=0.03)
    assert found.high == pytest.approx(expit(centre + np.hypot(upper - centre, np.sqrt(extra))), rel=0.03)
    assert found.threshold == pytest.approx(expit(0.5 + logit(prior)))


def test_figures_are_computed_once_for_each_point(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = HistoryFigures(model)
    points = [point_at(prior, threshold) for prior in (0.1, 0.2) for threshold in (None, 0.1, 0.9)]
    before = [figures.of(point, 1) for point in points]
    monkeypatch.setattr("obil.service.streams.history_figures.DecidedHoldout.of", None)
    monkeypatch.setattr("obil.service.streams.history_figures.evidence_variance", None)
    assert [figures.of(point, 1) for point in points] == before
    assert before[0].precision is None
    assert all(0.0 < one.precision < 1.0 and 0.0 < one.recall < 1.0 for one in before[1:3])
