"""The report is one safe page that says what the gate said and what an alert is worth."""

import re
import stat
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

from obil.bayes.costs import Costs
from obil.calibration.gate import Gate
from obil.errors import InvalidInputError
from obil.evaluation.report import report_page, write_report
from obil.evaluation.verify import Verification, verify
from obil.policies import CostPolicy, FBetaPolicy, GMeanPolicy, Policy, PrecisionFloor
from obil.policies.notation import policy_from_text
from obil.serving.holdout import Holdout
from tests.calibration.rows import held_out, three_classes

QUICK = Gate(n_simulations=30)
HOSTILE = ['<script>alert("x")</script>', '"><img src=x onerror=alert(1)>']


def model_of(rows: Holdout, classes: list[object], *, names: tuple[str, ...] | None = None) -> SimpleNamespace:
    return SimpleNamespace(
        classes_=np.array(classes, dtype=object),
        prior_=rows.prior,
        holdout_=rows,
        log_ratios=np.asarray,
        feature_names=names,
    )


def page_of(
    rows: Holdout,
    classes: list[object],
    *,
    policy: Policy | None = None,
    names: tuple[str, ...] | None = None,
) -> tuple[str, Verification]:
    model = model_of(rows, classes, names=names)
    found = verify(model, rows.log_ratios, model.classes_[rows.labels], gate=QUICK)
    return report_page(model, found, policy=policy), found


def parsed(page: str) -> ElementTree.Element:
    return ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))


def text_of(element: ElementTree.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def operating_rows(page: str) -> list[list[str]]:
    tables = [table for table in parsed(page).iter("table") if table.get("class") == "numbers"]
    return [[text_of(cell) for cell in row] for table in tables for row in table.iter("tr")]


ROWS = held_out(2_000, 0.1, 0)


@pytest.fixture(scope="module")
def page() -> str:
    return page_of(ROWS, ["ok", "fraud"])[0]


def test_the_page_is_well_formed_and_in_sections(page: str) -> None:
    tree = parsed(page)
    assert tree.get("lang") == "en"
    assert [text_of(heading) for heading in tree.iter("h1")] == ["Model report"]
    assert len(list(tree.iter("h2"))) == 5
    levels = [int(element.tag[1]) for element in tree.iter() if re.fullmatch(r"h\d", str(element.tag))]
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_the_page_asks_nothing_of_any_other_host(page: str) -> None:
    assert not re.search(r"(?i)https?:|//\w|url\(|@import|src=|href=", page.partition("</title>")[2])
    assert "default-src 'none'" in page
    assert not list(parsed(page).iter("script"))


def test_a_screen_reader_gets_headers_and_alternative_text_for_every_plot(page: str) -> None:
    tree = parsed(page)
    plots = [plot for plot in tree.iter("svg") if plot.get("aria-hidden") != "true"]
    assert len(plots) == 3
    assert all(plot.get("role") == "img" and len(plot.get("aria-label") or "") > 40 for plot in plots)
    for table in tree.iter("table"):
        assert text_of(next(table.iter("caption")))
        scopes = [header.get("scope") for header in table.iter("th")]
        assert set(scopes) == {"col", "row"}


def test_the_page_says_what_the_gate_said() -> None:
    for bias, headline in ((0.0, "May I use this model? Yes"), (2.0, "May I use this model? No")):
        page, found = page_of(held_out(2_000, 0.1, 0, bias=bias), ["ok", "fraud"])
        text = text_of(parsed(page))
        assert headline in text
        assert " ".join(found.verdict.sentence.split()) in text
        assert all(reason[1:] in text for reason in found.verdict.reasons)


def test_the_page_leads_with_what_the_model_may_be_used_for_and_at_which_threshold() -> None:
    policy = CostPolicy(Costs(false_positive=1, false_negative=20))
    first = next(parsed(page_of(ROWS, ["ok", "fraud"], policy=policy)[0]).iter("section"))
    text = text_of(first)
    assert [text_of(heading) for heading in first.iter("h3")] == ["For what?", "At which threshold?"]
    assert "To alert on fraud at a prevalence that moves" in text
    assert re.search(r"alert above a probability of 4\.8 %\. That alerts [\d.]+ % of the rows", text)
    assert "offset" not in text.partition("The figures behind it")[0].partition("For what?")[2].lower()


def test_a_refused_model_is_given_no_threshold() -> None:
    page, found = page_of(held_out(2_000, 0.1, 0, bias=2.0), ["ok", "fraud"])
    assert found.verdict.decision == "refuse"
    text = text_of(next(parsed(page).iter("section")))
    assert "At most to rank rows: it separates ok from fraud (AUC 0." in text
    assert "At which threshold?" not in text


def test_huge_factors_are_written_out() -> None:
    page, _ = page_of(held_out(2_000, 0.1, 0, bias=54.0), ["ok", "fraud"])
    text = text_of(parsed(page))
    assert "by a factor of more than a million" in text
    assert not re.search(r"\de[+-]\d", text)


@pytest.mark.parametrize("names", [None, ("<b>age</b>", "a&b")])
def test_names_from_a_file_are_text_and_never_markup(names: tuple[str, ...] | None) -> None:
    page, _ = page_of(ROWS, HOSTILE, names=names)
    tree = parsed(page)
    assert not {"script", "img", "b"} & {element.tag for element in tree.iter()}
    assert all(not key.startswith("on") for element in tree.iter() for key in element.attrib)
    assert HOSTILE[0] in text_of(tree)
    if names:
        assert "<b>age</b>" in text_of(tree)


@pytest.mark.parametrize("hostile", ["\x00\x1b[31m", "\ud800", "\u202egnp", "$verdict", "a" * 500, "{0}", ""])
def test_odd_class_names_leave_the_page_whole(hostile: str) -> None:
    page, _ = page_of(ROWS, ["ok", hostile])
    page.encode("utf-8")
    assert len(list(parsed(page).iter("h2"))) == 5
    assert "\x00" not in page
    assert "\u202e" not in page


def test_a_browser_sees_the_same_tags_as_a_strict_parser(page: str) -> None:
    class Counter(HTMLParser):
        tags = 0

        def handle_starttag(self, tag: str, attrs: object) -> None:
            self.tags += 1

    counter = Counter()
    counter.feed(page)
    assert counter.tags == sum(1 for _ in parsed(page).iter())


def test_the_training_prior_is_one_of_the_priors_and_marked(page: str) -> None:
    marked = [text_of(row[0]) for row in parsed(page).iter("tr") if row.get("class") == "marked"]
    assert len(marked) == 1
    assert marked[0].endswith("(training)")
    assert [row[0] for row in operating_rows(page)][1:3] == ["0.1 %", "0.2 %"]


def test_costs_move_the_thresholds() -> None:
    dear = CostPolicy(Costs(false_positive=1, false_negative=9))
    equal, changed = (operating_rows(page_of(ROWS, [0, 1], policy=policy)[0]) for policy in (None, dear))
    assert equal[-1][1] == "+0.00 (50 %)"
    assert changed[-1][1] == "-2.20 (10 %)"


@pytest.mark.parametrize("text", ["f1", "fbeta:2", "gmean", "recall:0.9", "precision:0.8", "budget:0.01"])
def test_every_policy_has_a_page(text: str) -> None:
    page, _ = page_of(ROWS, [0, 1], policy=policy_from_text(text))
    assert "The threshold" in page
    assert "Costs are counted as 1 for every error." in page


def test_a_floor_that_cannot_be_met_is_said_to_alert_nothing() -> None:
    page, _ = page_of(held_out(2_000, 0.1, 0, separation=1.0), [0, 1], policy=PrecisionFloor(0.95))
    first = operating_rows(page)[1]
    assert first[1] == "none"
    assert first[4] == "n/a"
    assert "nothing is alerted there" in page


def test_three_classes_have_a_table_each_and_two_plots_each() -> None:
    rows = three_classes(1_500, 0)
    for policy in (None, FBetaPolicy(), GMeanPolicy()):
        page, _ = page_of(rows, ["a", "b", "c"], policy=policy)
        tree = parsed(page)
        assert [text_of(heading) for heading in tree.iter("h3")][-3:] == ["Class a", "Class b", "Class c"]
        assert sum(table.get("class") == "numbers" for table in tree.iter("table")) == 3
        assert len(list(tree.iter("svg"))) == 6


def test_the_same_rows_give_the_same_bytes(page: str) -> None:
    assert page_of(ROWS, ["ok", "fraud"])[0] == page


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    model = model_of(ROWS, ["ok", "fraud"])
    path = tmp_path / "report.html"
    path.write_text("older")
    with pytest.raises(InvalidInputError, match="the classes are"):
        write_report(model, ROWS.log_ratios, ROWS.labels, path)
    assert path.read_text() == "older"
    write_report(model, ROWS.log_ratios, model.classes_[ROWS.labels], path)
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert path.stat().st_mode & stat.S_IRUSR
    assert [found.name for found in tmp_path.iterdir()] == ["report.html"]
    for wrong in (tmp_path, tmp_path / "nowhere" / "report.html"):
        with pytest.raises(InvalidInputError, match="a file in a folder that exists"):
            write_report(model, ROWS.log_ratios, model.classes_[ROWS.labels], wrong)
