"""The interval behind a judge's verdicts holds the truth as often as it says, and what cannot be read is refused."""

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from obil import InvalidInputError, prevalence_from_judge

PAGE = Path(__file__).parent.parent.parent / "docs" / "judges.md"
LABELS = [1] * 10 + [0] * 10
SEEN = ["yes"] * 8 + ["no"] * 3 + ["yes"] + ["no"] * 8


def drawn(n: int, prevalence: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Truth and verdicts of a judge with sensitivity .8 and specificity .9."""
    truth = rng.random(n) < prevalence
    return truth.astype(int), np.where(truth, rng.random(n) < 0.8, rng.random(n) < 0.1).astype(int)


def test_the_interval_holds_the_truth_though_labelled_items_have_another_prevalence() -> None:
    """200 times 90 % or more: fewer than 168 happens by chance once in 200 if it were 90 %; `judges` counts 10,000."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(200):
        labels, seen = drawn(60, 0.45, rng)
        _, verdicts = drawn(300, 0.15, rng)
        low, high = prevalence_from_judge(verdicts, seen, labels).interval[1]
        held += bool(low <= 0.15 <= high)
    assert held >= 168


def test_scores_in_bins_hold_the_truth_and_tell_more_than_one_cut() -> None:
    """150 times: fewer than 124 of 90 % happens once in 200."""
    rng, held, widths = np.random.default_rng(1), 0, []
    for _ in range(150):
        labels, truth = (rng.random(n) < p for n, p in ((80, 0.5), (400, 0.2)))
        seen, scores = (rng.normal(2.0 * y) for y in (labels, truth))
        binned = prevalence_from_judge(scores, seen, labels, bins=5).interval[1]
        cut = prevalence_from_judge(scores > 1.0, seen > 1.0, labels).interval[1]
        held += bool(binned[0] <= 0.2 <= binned[1])
        widths.append([np.ptp(binned), np.ptp(cut)])
    assert held >= 124
    binned_width, cut_width = np.mean(widths, axis=0)
    assert binned_width < cut_width


def test_judges_that_err_together_are_not_counted_twice() -> None:
    """200 times 90 %: fewer than 168 happens by chance once in 200. The second judge repeats nine verdicts of ten."""
    rng, held = np.random.default_rng(2), 0
    for _ in range(200):
        labels, seen = drawn(60, 0.4, rng)
        _, verdicts = drawn(300, 0.2, rng)
        second = [np.where(rng.random(len(one)) < 0.9, one, 1 - one) for one in (seen, verdicts)]
        found = prevalence_from_judge(
            np.stack([verdicts, second[1]], axis=1), np.stack([seen, second[0]], axis=1), labels
        )
        held += bool(found.interval[1, 0] <= 0.2 <= found.interval[1, 1])
    assert held >= 168


def test_a_second_judge_with_errors_of_its_own_narrows_the_interval() -> None:
    rng = np.random.default_rng(3)
    labels, truth = (rng.random(n) < p for n, p in ((400, 0.5), (2_000, 0.2)))

    def judges(of: np.ndarray) -> np.ndarray:
        return np.stack([rng.random(len(of)) < np.where(of, 0.7, 0.2) for _ in range(2)], axis=1)

    seen, verdicts = judges(labels), judges(truth)
    both = prevalence_from_judge(pd.DataFrame(verdicts), pd.DataFrame(seen), labels).interval[1]
    one = prevalence_from_judge(verdicts[:, 0], seen[:, 0], labels).interval[1]
    assert np.ptp(both) < 0.85 * np.ptp(one)


def test_a_random_sample_tells_more_and_one_that_is_none_is_warned_of() -> None:
    alike = ["yes"] * 90 + ["no"] * 110
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        narrow = prevalence_from_judge(alike, SEEN, LABELS, random_sample=True)
        wide = prevalence_from_judge(alike, SEEN, LABELS)
        prevalence_from_judge(["yes"] * 2 + ["no"] * 198, SEEN, LABELS)
    assert np.ptp(narrow.interval[1]) < np.ptp(wide.interval[1])
    with pytest.warns(UserWarning, match="differ more than by chance"):
        prevalence_from_judge(["yes"] * 2 + ["no"] * 198, SEEN, LABELS, random_sample=True)


def test_the_record_is_in_the_callers_classes() -> None:
    names = np.array(["good", "spam"])[LABELS]
    found = prevalence_from_judge(["yes"] * 30 + ["no"] * 70, SEEN, names, level=0.5)
    assert found.classes == ("good", "spam")
    assert (found.level, found.n_rows) == (0.5, 100)
    assert found.prior.sum() == pytest.approx(1.0)
    low, high = found.interval[1]
    assert low < found.prior[1] < high
    np.testing.assert_allclose(found.interval[0], [1.0 - high, 1.0 - low])
    assert "spam" in str(found)


def test_a_higher_level_is_wider() -> None:
    widths = [np.ptp(prevalence_from_judge(SEEN, SEEN, LABELS, level=level).interval[1]) for level in (0.5, 0.9, 0.99)]
    assert widths == sorted(widths)


def test_labels_of_one_class_are_enough_where_classes_are_0_and_1() -> None:
    found = prevalence_from_judge([0] * 95 + [1] * 5, [0] * 27 + [1], [0] * 28, random_sample=True)
    assert found.classes == (0, 1)
    assert 0.0 < found.interval[1, 1] < 0.15


def test_more_items_than_are_counted_are_scaled() -> None:
    many = prevalence_from_judge(np.repeat([0, 1], [70_000, 30_000]), [0] * 9 + [1] * 11, LABELS)
    few = prevalence_from_judge(np.repeat([0, 1], [14_000, 6_000]), [0] * 9 + [1] * 11, LABELS)
    assert many.n_rows == 100_000
    np.testing.assert_array_equal(many.interval, few.interval)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"verdicts": []}, "must hold a verdict on each item"),
        ({"verdicts": [["yes", "no"]] * 5}, "2 judges and labelled_verdicts of 1"),
        ({"verdicts": ["yes", None]}, "verdicts has no verdict on item 1"),
        ({"verdicts": [1.0, float("nan")]}, "verdicts has no verdict on item 1"),
        ({"verdicts": pd.Series(["yes", pd.NA])}, "verdicts has no verdict on item 1"),
        ({"verdicts": [["yes"], ["yes", "no"]]}, "single value"),
        ({"verdicts": np.linspace(0.0, 1.0, 50)}, "bins=5"),
        ({"labels": LABELS[:5]}, "20 verdicts and 5 labels"),
        ({"labels": ["a"] * 20}, "two classes, got 1"),
        ({"labels": list(range(20))}, "two classes, got 20"),
        ({"labels": np.array([0, "a"] * 10, dtype=object)}, "one kind"),
        ({"labels": [0.0, float("nan")] * 10}, "must be known"),
        ({"labels": [LABELS]}, r"shape \(1, 20\)"),
        ({"bins": 1}, "bins must be an integer"),
        ({"bins": 3}, r"verdicts must be numbers, got \[\['yes'\], \['no'\], "),
        ({"level": 1.0}, "level must lie"),
    ],
)
def test_what_cannot_be_read_is_refused(change: dict[str, Any], match: str) -> None:
    given: dict[str, Any] = {"verdicts": ["yes", "no"] * 10, "labelled_verdicts": SEEN, "labels": LABELS} | change
    with pytest.raises(InvalidInputError, match=match):
        prevalence_from_judge(given.pop("verdicts"), given.pop("labelled_verdicts"), given.pop("labels"), **given)


def test_the_page_runs_and_a_tracker_follows_a_prevalence_that_moves_by_the_verdicts_alone() -> None:
    rng = np.random.default_rng(4)
    labels, seen = drawn(600, 0.5, rng)
    days = [np.where(drawn(3_000, prevalence, rng)[1], "yes", "no") for prevalence in (0.1, 0.4)]
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL))
    names: dict[str, Any] = {"labels": labels, "labelled_verdicts": np.where(seen, "yes", "no"), "verdicts": days[0]}
    names["days"] = days
    exec(compile(code, "docs/judges.md", "exec"), names)
    first, (low, high) = names["found"].interval[1], names["online"].interval()[1]
    assert first[0] < 0.1 < first[1]
    assert low < 0.4 < high
    assert abs(names["online"].prior[1] - 0.4) < 0.1
