"""A figure that nothing bounds is "unknown", wherever it is shown."""

import math
from dataclasses import replace

import pytest

from obil.online.reports.performance_report import Estimate, Performance, PerformanceReport, Source
from obil.online.reports.unknown_figures import with_unknown_figures

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


def test_the_text_says_unknown_and_which_labels_would_settle_it() -> None:
    found = shown(KNOWN, recall=WIDE)
    assert "recall unknown, F1" in found.describe()
    assert "recall cannot be known without labels here: feed back those of 30 alerts" in found.describe()


def test_the_table_and_the_page_of_a_notebook_say_unknown_with_its_interval() -> None:
    report = PerformanceReport(shown(KNOWN, recall=WIDE), KNOWN)
    lines = str(report).splitlines()
    row = next(line for line in lines if line.startswith("recall"))
    assert " ".join(row.split()) == "recall unknown 10 to 70 % 50 % 40 to 60 % expected"
    assert "recall cannot be known without labels here" in lines[-1]
    page = report._repr_html_()
    assert "<th>recall</th><td>unknown</td><td>10 to 70 %</td><td></td><td>50 %</td>" in page
    assert page.endswith("positives are among them</p>")
