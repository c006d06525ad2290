"""A figure that nothing bounds is "unknown", wherever it is shown."""

import math
from dataclasses import replace

import numpy as np
import pytest

from obil import Costs, OnlineClassifier, RatioClassifier
from obil.online.reports.performance_report import Estimate, Performance, PerformanceReport, Source
from obil.online.reports.unknown_figures import with_unknown_figures
from obil.trackers import BayesBank

SURE = Estimate(0.5, 0.4, 0.6, "expected")
WIDE = Estimate(0.5, 0.1, 0.7, "expected")
KNOWN = Performance(SURE, SURE, SURE, replace(SURE, source="counted"), SURE, 0.9, True, 0.0, 0.0)


def sources(found: Performance) -> dict[str, Source]:
    return {name: one.source for name, one in found.figures()}


def shown(performance: Performance, **figures: Estimate) -> Performance:
    return with_unknown_figures(replace(performance, **figures), least_cost=0.0)


def test_an_interval_wider_than_a_half_is_no_answer_and_is_kept() -> None:
    found = shown(KNOWN, recall=WIDE)
    assert math.isnan(found.recall.value)
    assert (found.recall.low, found.recall.high, found.recall.source) == (0.1, 0.7, "unknown")
    assert shown(KNOWN) == KNOWN
    assert shown(KNOWN, recall=Estimate(0.5, 0.25, 0.75, "both")).recall.source == "both"


def test_what_labels_give_or_was_counted_or_is_undefined_is_never_unknown() -> None:
    undefined = Estimate(math.nan, 0.0, 1.0, "expected")
    found = shown(KNOWN, precision=undefined, recall=replace(WIDE, source="labels"))
    assert sources(found) == {
        "precision": "expected", "recall": "labels", "F1": "expected", "alerts": "counted", "cost per row": "expected",
    }  # fmt: skip


@pytest.mark.parametrize(("high", "source"), [(1.0, "expected"), (1.1, "unknown")])
def test_a_cost_is_unknown_where_its_interval_is_wider_than_twice_the_cost(high: float, source: Source) -> None:
    found = shown(KNOWN, cost=Estimate(0.5, 0.0, high, "expected"))
    assert found.cost is not None
    assert found.cost.source == source


@pytest.mark.parametrize("name", ["precision", "recall"])
def test_f1_is_unknown_where_precision_or_recall_is(name: str) -> None:
    found = shown(KNOWN, **{name: WIDE})
    assert math.isnan(found.f1.value)
    assert (found.f1.low, found.f1.high, found.f1.source) == (0.4, 0.6, "unknown")


def test_a_cost_of_gains_and_losses_that_cancel_is_measured_by_its_own_size_and_not_by_what_could_be_earned() -> None:
    """A row can earn 20: an interval of 13 times the cost was an answer, for the cost lies 20 above the least."""
    cost = Estimate(-0.1, -0.8, 0.5, "expected")
    found = with_unknown_figures(replace(KNOWN, cost=cost), least_cost=-20.0)
    assert found.cost == replace(cost, value=pytest.approx(math.nan, nan_ok=True), source="unknown")
    narrow = Estimate(-4.0, -6.0, -2.0, "expected")
    assert with_unknown_figures(replace(KNOWN, cost=narrow), least_cost=-20.0).cost == narrow


def test_what_right_decisions_cost_is_no_reason_for_a_wide_interval() -> None:
    cost = Estimate(10.2, 10.0, 10.5, "expected")
    found = with_unknown_figures(replace(KNOWN, cost=cost), least_cost=10.0)
    assert found.cost is not None
    assert found.cost.source == "unknown"


def test_no_cost_of_a_stream_is_told_with_an_interval_wider_than_twice_its_size() -> None:
    """A gain of 20 for every positive found, at rare priors: it was told with an interval 88 times its size."""
    y = np.repeat([0, 1], [2_000, 60])
    model = RatioClassifier.from_scores(np.random.default_rng(0).normal(2.0 * y), y)
    costs = Costs(false_positive=1.0, false_negative=5.0, true_positive=-20.0)
    n_unknown = 0
    for prior in (0.002, 0.02, 0.2):
        online, rng = OnlineClassifier(model, costs=costs, tracker=BayesBank()), np.random.default_rng(1)
        for _ in range(4):
            online.decide_many(rng.normal(2.0 * (rng.random(500) < prior))[:, None])
            for found in online.performance():
                cost = found.cost
                assert cost is not None
                n_unknown += cost.source == "unknown"
                assert cost.source == "unknown" or cost.high - cost.low <= 2.0 * abs(cost.value)
                assert "unknown" not in (found.precision.source, found.recall.source) or found.f1.source == "unknown"
    assert 0 < n_unknown < 24


def test_the_text_says_unknown_and_which_labels_would_settle_it() -> None:
    found = shown(KNOWN, recall=WIDE)
    assert "recall unknown, F1 unknown, alerts" in found.describe()
    assert "recall and F1 cannot be known without labels here: feed back those of 30 alerts" in found.describe()


def test_the_table_and_the_page_of_a_notebook_say_unknown_with_its_interval() -> None:
    report = PerformanceReport(shown(KNOWN, recall=WIDE), KNOWN)
    lines = str(report).splitlines()
    row = next(line for line in lines if line.startswith("recall"))
    assert " ".join(row.split()) == "recall unknown 10 to 70 % 50 % 40 to 60 % expected"
    assert "recall and F1 cannot be known without labels here" in lines[-1]
    page = report._repr_html_()
    assert "<th>recall</th><td>unknown</td><td>10 to 70 %</td><td></td><td>50 %</td>" in page
    assert page.endswith("positives are among them</p>")
