"""The change report says what moved, since when and what to do, by rules that each have a test."""

import json
import math
import re
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from obil.errors import InvalidInputError, InvalidStateError
from obil.online.online_classifier import OnlineClassifier
from obil.online.reports import change_advice as rules
from obil.online.reports.change_point import change_point
from obil.online.reports.change_text import as_percent_range
from obil.online.reports.explain import explain
from obil.online.reports.stream_facts import ROWS_TO_TELL, MonitorFacts, StreamFacts, facts_of
from obil.online.state.history import StreamHistory
from obil.online.state.stream_memory import NO_ALARM
from obil.serving.ratio_model import Scores
from obil.trackers import Algorithm2, FixedPrior, SafeTracker
from obil.trackers.label_summary import LabelSummary
from tests.online.cases import pair_model, pair_scores, pair_stream, triangle_model, triangle_scores
from tests.online.row_by_row import add_row
from tests.online.state.damaged import with_record

PAIR, TRIANGLE = pair_model(), triangle_model()
QUIET = MonitorFacts(20_000, -1.0, math.log(200.0), None, "No difference.")
ALARM = QUIET._replace(log_evidence=9.0, alarm_row=13_000, difference="20 % of the recent rows are odd.")
GOOD_LABELS = LabelSummary(1_000, 1.0, 0.25, 1.03, 0.08, np.array([980.0, 20.0]), np.array([0.98, 0.02]))


def facts(**parts: Any) -> StreamFacts:
    known: dict[str, Any] = {
        "class_names": ("ok", "fraud"), "positive": 1, "n_rows": 20_000, "level": 0.9,
        "start_prior": np.array([0.98, 0.02]), "prior": np.array([0.98, 0.02]),
        "interval": np.array([[0.977, 0.983], [0.017, 0.023]]),
        "start_log_threshold": math.log(49.0), "log_threshold": math.log(49.0), "monitor": QUIET,
    }  # fmt: skip
    return StreamFacts(**known | parts)


def risen(**parts: Any) -> StreamFacts:
    known: dict[str, Any] = {
        "prior": np.array([0.949, 0.051]),
        "interval": np.array([[0.937, 0.958], [0.042, 0.063]]),
        "log_threshold": math.log(0.949 / 0.051),
    }
    return facts(**known | parts)


def history_of(*levels: tuple[int, float], alarm_at: int | None = None) -> StreamHistory:
    """Return the history of a stream with these lengths and prevalences."""
    history = StreamHistory(2)
    row = 0
    for n, prevalence in levels:
        for _ in range(n):
            evidence = 10.0 if alarm_at is not None and row >= alarm_at else -1.0
            add_row(history, [1.0 - prevalence, prevalence], 3.0, row % 100 < 100 * prevalence, log_evidence=evidence)
            row += 1
    return history


def moved_history() -> StreamHistory:
    return history_of((12_400, 0.02), (7_600, 0.05))


def test_a_prevalence_that_moved_and_came_back_is_not_called_unchanged() -> None:
    report = explain(facts(), history_of((6_000, 0.06), (14_000, 0.02)))
    assert report.sentences[0] == (
        "The prevalence of 'fraud' has moved and is back: it is 2.0 % (90 %: 1.7 to 2.3 %), in training it was 2.0 %, "
        "and until about row 6,100 it was 5.9 % on average."
    )
    assert not report.changed


def test_where_nothing_changed_one_sentence_says_so() -> None:
    report = explain(facts(), history_of((20_000, 0.02)))
    assert report.paragraph == (
        "Nothing has changed in 20,000 rows: the prevalence of 'fraud' is 2.0 % (90 %: 1.7 to 2.3 %), in training it "
        "was 2.0 %."
    )
    assert (report.action, report.changed, report.changed_since) == ("nothing", False, None)
    assert report.reasons == ()


def test_a_rise_that_nothing_contradicts_needs_nothing() -> None:
    report = explain(risen(), moved_history())
    assert report.paragraph == (
        "The prevalence of 'fraud' rose from 2.0 % in training to 5.1 % (90 %: 4.2 to 6.3 %), since about row 12,300. "
        "The evidence that a row needs to be alerted fell from 49:1 to 19:1, and alerts went from 2.0 % to 5.0 % "
        "of the rows. Nothing in the scores contradicts a change of the class prior alone. "
        "Nothing to do: the threshold has followed."
    )
    assert report.action == "nothing"
    assert abs((report.changed_since or 0) - 12_400) <= 256
    assert report.prior_then == 0.02
    assert report.prior_now == 0.051
    assert report.interval == (0.042, 0.063)


def test_a_rise_that_the_monitor_rejects_asks_for_labels() -> None:
    report = explain(risen(monitor=ALARM), history_of((12_400, 0.02), (7_600, 0.05), alarm_at=12_900))
    assert report.action == "get labels"
    assert not report.trusted
    assert (
        "no change of the class prior explains the scores any more (alarm at row 13,000, evidence 8,103:1; it built up "
        in (report.paragraph)
    )
    assert "this figure and its threshold are not to be trusted. 20 % of the recent rows are odd." in report.paragraph
    assert (
        "none has come. Get labels: about 1,500 rows picked at random would tell, each fed back by " in report.paragraph
    )


def test_an_alarm_without_a_change_of_the_prior_is_no_quiet_stream() -> None:
    report = explain(facts(monitor=ALARM))
    assert report.action == "get labels"
    assert "Nothing has changed" not in report.paragraph
    assert "decisions by scores alone are not to be trusted" in report.paragraph


def test_only_labels_of_rows_since_an_alarm_settle_it_and_only_if_some_are_rare() -> None:
    known = facts(monitor=ALARM, labels=GOOD_LABELS)
    assert explain(known).action == "get labels"  # 1,000 labels, of rows before it
    one_sided = explain(facts(monitor=ALARM, labels=GOOD_LABELS, labels_since_alarm=(319, 1)))
    assert one_sided.action == "get labels"
    assert "only 320 have come, too few of the rarest class to tell" in one_sided.paragraph
    report = explain(facts(monitor=ALARM, labels=GOOD_LABELS, labels_since_alarm=(960, 40)))
    assert report.action == "nothing"
    assert "1,000 labels of rows since then have come, and they bear the scores out." in report.paragraph
    assert report.paragraph.endswith("Nothing to do as long as labels keep coming.")


def test_a_slope_that_labels_find_off_asks_for_recalibration() -> None:
    labels = GOOD_LABELS._replace(slope=0.7, slope_sd=0.07, counts=np.array([900.0, 40.0]))
    report = explain(facts(labels=labels), history_of((20_000, 0.02)))
    assert report.action == "recalibrate"
    assert report.by_labels
    assert report.prior_now == pytest.approx(40.02 / 941.0)
    assert report.paragraph.startswith(
        "By labels, the prevalence of 'fraud' rose from 2.0 % in training to 4.3 % (90 %: 3.3 to"
    )
    assert "should be multiplied by 0.70 (+- 0.07). Recalibrate on recent labelled rows" in report.paragraph


def test_the_weight_of_recalibrations_asks_for_recalibration_too() -> None:
    report = explain(facts(labels=GOOD_LABELS._replace(recalibration_weight=0.7)))
    assert report.action == "recalibrate"
    assert "their weight is 70 %" in report.paragraph


def test_labels_that_contradict_the_scores_ask_for_recalibration_and_slow_scores_do_not() -> None:
    contradicted = GOOD_LABELS._replace(unlabelled_prior=np.array([0.93, 0.07]))
    report = explain(facts(labels=contradicted))
    assert report.action == "recalibrate"
    assert "at 7.0 %, the last labels put it at 2.0 %" in report.paragraph
    ahead = GOOD_LABELS._replace(counts=np.array([900.0, 100.0]), unlabelled_prior=np.array([0.96, 0.04]))
    assert explain(facts(labels=ahead)).action == "nothing"


def test_scores_that_have_lost_their_meaning_ask_for_retraining() -> None:
    report = explain(facts(labels=GOOD_LABELS._replace(slope=0.2, slope_sd=0.05)))
    assert report.action == "retrain"
    assert "a row tells about 4.0 % of what it told in training" in report.paragraph
    unsure = GOOD_LABELS._replace(slope=0.45, slope_sd=0.1)
    assert explain(facts(labels=unsure)).action == "recalibrate"


def test_few_labels_overrule_nothing() -> None:
    few = GOOD_LABELS._replace(n_labels=99, slope=0.2, slope_sd=0.05, recalibration_weight=0.9)
    assert explain(facts(labels=few)).action == "nothing"


def test_views_that_disagree_ask_for_labels() -> None:
    report = explain(facts(n_views=3, disagreement=rules.VIEWS_ALARM + 0.4))
    assert report.action == "get labels"
    assert f"disagree on the prevalence by {rules.VIEWS_ALARM + 0.4:.1f} standard deviations" in report.paragraph
    assert "Nothing has changed" not in report.paragraph
    assert explain(facts(n_views=3, disagreement=rules.VIEWS_ALARM - 0.1)).action == "nothing"


def test_what_nothing_checks_asks_for_labels() -> None:
    report = explain(risen(monitor=None), moved_history())
    assert report.action == "get labels"
    assert "about 370 rows picked at random would tell" in report.paragraph
    assert explain(risen(monitor=None, n_views=3), moved_history()).action == "nothing"


def test_a_monitor_that_saw_too_little_says_when_to_look_again() -> None:
    report = explain(risen(n_rows=12_800), history_of((12_000, 0.02), (800, 0.05)))
    assert report.action == "nothing"
    assert report.changed_since is not None
    again = 12_800 + ROWS_TO_TELL - (12_800 - report.changed_since)
    assert report.paragraph.endswith(
        f"too early to tell whether more than the class prior changed: look again after row {again:,}. Until then "
        "there is nothing to do: the threshold has followed."
    )


def test_evidence_that_builds_up_is_mentioned() -> None:
    report = explain(facts(monitor=QUIET._replace(log_evidence=math.log(40.0))))
    assert report.action == "nothing"
    assert "is building up: 40:1 (alarm at 200:1); look again soon. Nothing to do yet." in report.paragraph


def test_the_weight_of_labels_is_reported() -> None:
    prior = np.array([0.949, 0.051])
    labels = GOOD_LABELS._replace(counts=1_000 * prior, unlabelled_prior=prior)
    assert "1,000 labels have come, and they decide." in explain(risen(labels=labels), moved_history()).paragraph
    said = explain(risen(labels=labels._replace(label_weight=0.44)), moved_history()).paragraph
    assert "1,000 labels have come, and their weight is 44 %." in said


def test_a_row_without_a_label_is_not_called_labelled() -> None:
    prior = np.array([0.949, 0.051])
    labels = GOOD_LABELS._replace(n_labels=4_999, counts=1_000 * prior, unlabelled_prior=prior)
    said = explain(risen(labels=labels, n_unlabeled=4_027), moved_history()).paragraph
    assert "972 labels, and 4,027 rows taken for a class because no label came, have come, and they decide." in said
    online = OnlineClassifier(PAIR, horizon=50, unlabeled_as="negative", monitor=False)
    stream = pair_stream(300, 0.2, 5)
    for row, ratios in enumerate(stream.log_ratios):
        online.decide_log_ratios(ratios[None])
        if stream.labels[row] == 1:
            online.feedback(row, PAIR.classes_[1])
    found = facts_of(online)
    assert found.labels is not None
    assert found.labels.n_labels == 250
    assert found.n_unlabeled == 250 - stream.labels[:250].sum()


def test_a_range_that_reaches_almost_nothing_or_all_has_no_string_of_digits() -> None:
    assert as_percent_range(2.5e-8, 0.039733975) == "0.00 to 3.97 %"
    assert as_percent_range(1.7e-5, 1.0 - 1e-8) == "0.0 to 100.0 %"
    assert as_percent_range(0.017, 0.026) == "1.7 to 2.6 %"
    assert as_percent_range(0.0123, 0.26) == "1.2 to 26.0 %"


def test_a_small_move_is_no_news_however_sure() -> None:
    """The constant's reason: a threshold off by MATERIAL costs less than 1 % more."""
    prior = np.array([0.977, 0.023])
    sure = np.array([[0.9765, 0.9775], [0.0225, 0.0235]])
    assert not explain(facts(prior=prior, interval=sure)).changed
    for separation in (1.5, 2.5):
        for prevalence in (0.01, 0.05, 0.2):
            best = math.log((1.0 - prevalence) / prevalence)
            costs = []
            for shift in (0.0, rules.MATERIAL, -rules.MATERIAL):
                cut = (best + shift) / separation + separation / 2.0
                costs.append((1.0 - prevalence) * norm.sf(cut) + prevalence * norm.cdf(cut - separation))
            assert max(costs) < 1.01 * costs[0]


def test_a_move_inside_the_interval_is_not_sure() -> None:
    wide = np.array([[0.90, 0.985], [0.015, 0.10]])
    assert not explain(risen(interval=wide)).changed
    report = explain(risen(interval=None))
    assert report.changed
    assert "(this tracker gives no interval)" in report.paragraph


def test_a_stream_that_began_so_has_no_date() -> None:
    report = explain(risen(), history_of((20_000, 0.05)))
    assert report.changed_since == 0
    assert "from the first rows on" in report.paragraph
    catching_up = history_of((2_000, 0.04), (18_000, 0.052))  # an estimate that started at 2 % and follows
    assert explain(risen(), catching_up).changed_since == 0
    assert explain(risen(), None).changed_since is None
    assert "since" not in explain(risen(), None).sentences[0]


def test_the_start_prior_is_what_a_move_is_measured_from() -> None:
    assert "from 2.0 % at the start to" in explain(risen(starts_at_training=False)).paragraph


def test_infinite_thresholds_are_described() -> None:
    assert "no threshold meets the policy" in explain(risen(log_threshold=math.inf)).paragraph
    assert "alerts every row" in explain(risen(log_threshold=-math.inf)).paragraph
    assert "stayed where it was" in explain(risen(log_threshold=math.log(49.0))).paragraph
    assert "evidence" not in explain(risen(log_threshold=None, start_log_threshold=None)).paragraph


def test_rare_classes_ask_for_labels_of_alerts() -> None:
    rare = facts(prior=np.array([0.9995, 0.0005]), start_prior=np.array([0.9995, 0.0005]), interval=None, monitor=ALARM)
    assert "of all alerts and of a random few of the other rows" in explain(rare).paragraph


def test_many_classes_report_the_one_that_moved_most() -> None:
    known = facts(
        class_names=("a", "b", "c"), positive=None,
        start_prior=np.array([0.6, 0.3, 0.1]), prior=np.array([0.35, 0.25, 0.4]),
        interval=np.array([[0.3, 0.4], [0.2, 0.31], [0.35, 0.45]]), log_threshold=None, start_log_threshold=None,
    )  # fmt: skip
    report = explain(known)
    assert report.class_name == "c"
    assert "Other classes moved too: that of 'a' from 60 % to 35 %." in report.paragraph
    assert report.paragraph.endswith("Nothing to do: decisions have followed.")


def test_names_cannot_break_the_line() -> None:
    report = explain(facts(class_names=("ok", "bad\nname\x1b[31m")))
    assert "\n" not in report.paragraph
    assert "\x1b" not in report.paragraph


def test_a_report_is_plain_json() -> None:
    record = json.loads(json.dumps(explain(risen(), moved_history()).to_json()))
    assert record["action"] == "nothing"
    assert record["paragraph"].startswith("The prevalence of 'fraud' rose")


def test_change_points_need_a_gain_and_two_buckets() -> None:
    assert change_point((), 1) is None
    rng = np.random.default_rng(0)
    prevalences = rng.beta(2.0, 98.0, 4_000)
    history = StreamHistory(2)
    history.add(np.stack([1.0 - prevalences, prevalences], axis=1), None, np.zeros(4_000, dtype=bool))
    assert change_point(history.buckets(), 1) is None


def fed(online: OnlineClassifier, scores: np.ndarray) -> StreamHistory:
    """Decide rows and return their history, as `OnlineClassifier` keeps it."""
    history = StreamHistory(online.model.n_classes)
    scored, first = online.model.score(scores), 0
    for end in history.ends(len(scores)):
        decided = online.decide_scores(Scores(*(part[first:end] for part in scored)))
        evidence = None if online.monitor is None else [online.monitor.log_evidence]
        alerts = decided.labels == online.positive if online.positive is not None else np.zeros(end - first, dtype=bool)
        history.add(decided.posteriors, decided.thresholds, alerts, log_evidence=evidence)
        first = end
    return history


def test_a_rise_in_a_stream_is_found_and_dated() -> None:
    online = OnlineClassifier(PAIR, tracker=SafeTracker())
    history = fed(online, np.r_[pair_scores(6_000, 0.2, 3), pair_scores(6_000, 0.5, 4)])
    report = explain(facts_of(online), history)
    assert report.changed
    assert abs((report.changed_since or 0) - 6_000) < 1_000
    assert report.action == "nothing"
    assert report.log_threshold_now == online.log_threshold


def test_a_stream_that_is_no_label_shift_asks_for_labels() -> None:
    online = OnlineClassifier(PAIR)
    history = fed(online, np.r_[pair_scores(3_000, 0.2, 3), 0.3 * pair_scores(3_000, 0.2, 4) + 3.0])
    report = explain(facts_of(online), history)
    assert not report.trusted
    assert report.action == "get labels"
    assert " % of the recent rows have a log ratio" in report.paragraph
    assert not re.search(r"\d%", report.paragraph)  # one style of percent


def test_a_restart_does_not_make_an_alarm_unseen() -> None:
    online = OnlineClassifier(PAIR)
    online.decide_many(np.r_[pair_scores(1_000, 0.2, 3), 0.3 * pair_scores(2_000, 0.2, 4) + 3.0])
    alarm = facts_of(online).monitor
    assert alarm is not None
    online.restart_monitor()
    online.restart_monitor()  # nothing was monitored in between
    online.decide_many(pair_scores(500, 0.2, 5))
    online.model = PAIR
    online.decide_many(pair_scores(500, 0.2, 6))
    assert online.monitoring_runs == ((3_000, alarm.alarm_row), (3_500, None))
    for one in (online, OnlineClassifier.from_state(PAIR, online.state())):
        said = one.explain().paragraph
        assert f"The monitor was restarted after row 3,500; before that, it alarmed at row {alarm.alarm_row:,}." in said
        assert "Nothing has changed" not in said


def test_only_the_last_restarts_are_kept() -> None:
    online = OnlineClassifier(PAIR)
    for _ in range(12):
        online.decide_many(pair_scores(10, 0.2, 3))
        online.restart_monitor()
    assert [run.ended_after for run in online.monitoring_runs] == list(range(50, 130, 10))
    assert OnlineClassifier.from_state(PAIR, online.state()).monitoring_runs == online.monitoring_runs
    damaged = [[[121, NO_ALARM]], [[-1, NO_ALARM]], [[20, NO_ALARM], [10, NO_ALARM]], [[20, 21]], [[20, 0]], [[20, -2]]]
    for past in damaged:
        with pytest.raises(InvalidStateError, match="monitoring runs end"):
            OnlineClassifier.from_state(PAIR, with_runs(online.state(), past, len(past)))
    for n_runs in (-1, 9):
        with pytest.raises(InvalidStateError, match="a stream cannot count"):
            OnlineClassifier.from_state(PAIR, with_runs(online.state(), [[1, NO_ALARM]] * 8, n_runs))


def with_runs(state: bytes, past: list[list[int]], n_runs: int) -> bytes:
    """Return a state with these monitoring runs before the present one."""

    def change(arrays: Any) -> None:
        arrays["counters.runs"][: len(past)] = past
        arrays["counters.seen"][2] = n_runs

    return with_record(PAIR, state, change)


def test_labels_of_a_stream_show_scores_that_became_too_bold() -> None:
    online = OnlineClassifier(PAIR, monitor=False)
    stream = pair_stream(4_000, 0.2, 5)
    ratios = PAIR.log_ratios(2.0 * stream.log_ratios[:, 1] + 1.0)
    ratios[:, 1] *= 2.5
    for first in range(0, 4_000, 50):
        online.decide_log_ratios(ratios[first : first + 50])
        for row in range(first, first + 50, 2):
            online.feedback(row, PAIR.classes_[stream.labels[row]])
    report = explain(facts_of(online))
    assert report.action in ("recalibrate", "retrain")
    assert report.by_labels
    assert report.prior_now == pytest.approx(0.2, abs=0.05)


def test_facts_of_other_trackers_and_of_many_classes() -> None:
    online = OnlineClassifier(PAIR, tracker=Algorithm2(), monitor=False, prior=0.3)
    history = fed(online, pair_scores(500, 0.2, 1))
    report = explain(facts_of(online), history)
    assert report.prior_then == pytest.approx(0.3)
    assert report.interval is None
    three = OnlineClassifier(TRIANGLE, tracker=SafeTracker())
    history = fed(three, np.r_[triangle_scores(3_000, [0.6, 0.3, 0.1], 1), triangle_scores(4_000, [0.3, 0.2, 0.5], 2)])
    report = explain(facts_of(three), history)
    assert report.class_name == "c"
    assert abs((report.changed_since or 0) - 3_000) < 500


def test_a_prior_that_is_kept_by_choice_is_not_called_unchanged() -> None:
    for tracker in (FixedPrior(), SafeTracker.for_model(PAIR, lead="training")):
        online = OnlineClassifier(PAIR, tracker=tracker)
        history = fed(online, pair_scores(500, 0.2, 1))
        kept = f"{100 * PAIR.prior_[1]:.0f} %"
        said = explain(facts_of(online), history).paragraph
        assert said == f"The prevalence of 'fraud' is kept at {kept} by choice, and not tracked."


def test_an_unused_stream_has_nothing_to_report() -> None:
    assert explain(facts_of(OnlineClassifier(PAIR)), StreamHistory(2)).paragraph == "No rows have come yet."
    with pytest.raises(InvalidInputError):
        facts_of(OnlineClassifier(PAIR), level=1.5)


def test_a_prevalence_that_the_scores_suggest_and_that_is_not_followed_is_reported() -> None:
    suggested = (np.array([0.87, 0.13]), np.array([[0.83, 0.9], [0.1, 0.17]]))
    known = {"n_rows": 1_000, "start_prior": np.array([0.92, 0.08]), "prior": np.array([0.92, 0.08])}
    quiet = explain(facts(**known)).paragraph
    held = explain(facts(**known, unguarded=suggested)).paragraph
    assert "Nothing has changed" in quiet
    assert "Nothing has changed" not in held
    assert "The scores alone suggest 13 %" in held
    agrees = (suggested[0], np.array([[0.83, 0.95], [0.05, 0.17]]))
    assert "scores alone" not in explain(facts(**known, unguarded=agrees)).paragraph
