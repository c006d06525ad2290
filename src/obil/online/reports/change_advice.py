"""Advise what to do about a stream: labels come first, then the monitor, then the views.

The paper advises by calibration error (below .05 deploy, above .10 recalibrate, above .15 give up), by drift rate
(above .1 per row: retrain) and by covariate shift (retrain). The first is vacuous where classes are rare, so labels are
asked for the *slope* of the scores instead; the second belongs to its own tracker: obil's follows a jump at +1 % cost,
so that speed is no reason to retrain; the third is kept, but an alarm only tells *that* the scores changed, not whether
it hurts: labels tell.
"""

import math
from typing import Literal, NamedTuple

from obil.online.labels.one_class_labels import OneClass
from obil.online.reports.change_text import as_odds, as_percent, clipped_logit, quoted_name
from obil.online.reports.stream_facts import StreamFacts
from obil.trackers.label_summary import LabelSummary
from obil.trackers.view_guard import ALARM as VIEWS_ALARM

Action = Literal["nothing", "get labels", "recalibrate", "retrain"]

# A threshold this far off, in log odds, costs less than 1 % more (Gaussian classes 1.5 or 2.5 apart, prevalences of 1
# to 20 %): a smaller move is not reported, however certain.
MATERIAL = 0.2
# Evidence of 20 to 1 has a chance of 1 in 20 at most where only the class prior changes: worth a second look.
BUILDING_UP = math.log(20.0)
# Fewer labels overrule nothing: a prevalence counted from 100 is known to a factor of 2 at best.
FEWEST_LABELS = 100
# A calibrator fitted on 300 labelled rows costs 2 to 4 % over the exact one: so many labels settle what an alarm means.
LABELS_TO_SETTLE = 300
# ... if this many of them are of the rarer class, which is what a slope is learned from.
RARE_LABELS = 30
LARGEST_SAMPLE = 3_000  # more rows than this nobody labels at random: then alerts, and a few of the rest
# The slope the scores are expected to have after fitting is 1 +- .15; at .8 a tracked prevalence of 1 % is quartered,
# at 1.25 doubled. Beyond .15, and 2.6 standard deviations (chance 1 in 100), the scores need recalibrating.
SLOPE_MATTERS = 0.15
SURE = 2.6
# Slope b of scores that were right means that the classes are b times as far apart. Below one half, a row tells a
# quarter of what it told or less: recalibrating corrects such scores, but only a new model brings the information back.
LOST_SLOPE = 0.5
DECIDING_WEIGHT = 0.9  # from here on the report says that labels decide
RECALIBRATION_LEADS = 0.5  # of the weight of all experts, of which recalibrations start with a fourteenth at most


class Advice(NamedTuple):
    """What to do, and why."""

    action: Action
    reasons: list[str]
    look_again: bool = False  # whether a reason asks for it: what to do then holds until then


def advice(facts: StreamFacts, k: int, since: int | None, *, moved: bool) -> Advice:
    """Return what to do about class k's prevalence, which moved since a row, and why."""
    if facts.one_class is not None:
        return Advice("get labels", [_only_one_class(facts, facts.one_class)])
    labels = facts.labels
    alarm_row = None if facts.monitor is None else facts.monitor.alarm_row
    n_labels = 0 if labels is None else labels.n_labels
    settled = n_labels >= FEWEST_LABELS
    if alarm_row is not None:  # labels of rows from before it tell nothing about what it found
        n_labels = sum(facts.labels_since_alarm)
        settled = n_labels >= LABELS_TO_SETTLE and min(facts.labels_since_alarm) >= RARE_LABELS
    fault = fault_of_scores(facts, labels, k) if labels is not None and settled else None
    if fault is not None:
        return fault
    if alarm_row is not None:
        taken = " (rows taken for a class among them)" if facts.n_unlabeled else ""
        if settled:
            reason = f"But {n_labels:,} labels of rows since then{taken} have come, and they bear the scores out."
            return Advice("nothing", [reason])
        so_far = f"only {n_labels:,} have" if n_labels else "none has"
        few = ", too few of the rarest class to tell" if n_labels >= LABELS_TO_SETTLE else ""
        reason = f"Whether decisions suffer, labels of rows since then can tell, and {so_far} come{few}."
        return Advice("get labels", [reason])
    if facts.n_views and facts.disagreement >= VIEWS_ALARM:
        reason = (
            f"The views of the model disagree on the prevalence by {facts.disagreement:.1f} standard deviations, "
            "so it is held back."
        )
        return Advice("get labels", [reason])
    found = Advice("nothing", [])
    if moved and labels is not None and settled:
        decide = labels.label_weight >= DECIDING_WEIGHT
        weight = "they decide" if decide else f"their weight is {as_percent(labels.label_weight)}"
        found = Advice("nothing", [f"{_came(facts, n_labels)} have come, and {weight}."])
    elif moved:
        found = _advice_without_labels(facts, since)
    if facts.monitor is not None and facts.monitor.log_evidence >= BUILDING_UP:
        reason = (
            f"Evidence that more than the class prior changes is building up: {as_odds(facts.monitor.log_evidence)} "
            f"(alarm at {as_odds(facts.monitor.log_alarm)}); look again soon."
        )
        found = Advice(found.action, [*found.reasons, reason], look_again=True)
    return found


def _only_one_class(facts: StreamFacts, found: OneClass) -> str:
    return (
        f"All {found.n_labels:,} labels are of {quoted_name(facts, found.label)}, although by the scores about "
        f"{found.expected_others:.0f} of the last {found.n_rows} should be of another class: if only this class is "
        "reported, what labels tell of the prevalence and of decisions is wrong."
    )


def _came(facts: StreamFacts, n_labels: int) -> str:
    """Return how many labels came, and how many rows were taken for a class because none did."""
    if not facts.n_unlabeled:
        return f"{n_labels:,} labels"
    n_came = n_labels - facts.n_unlabeled
    return f"{n_came:,} labels, and {facts.n_unlabeled:,} rows taken for a class because no label came,"


def _advice_without_labels(facts: StreamFacts, since: int | None) -> Advice:
    """Return what to do about a prevalence that moved, where neither monitor nor views contradict."""
    monitor = facts.monitor
    n_monitored = 0 if monitor is None else min(monitor.n_rows, facts.n_rows - (since or 0))
    if monitor is not None and n_monitored >= monitor.rows_to_tell:
        also = ", and the views of the model agree on it" if facts.n_views else ""
        return Advice("nothing", [f"Nothing in the scores contradicts a change of the class prior alone{also}."])
    if facts.n_views:
        return Advice("nothing", ["The views of the model agree on it."])
    if monitor is not None:
        at = facts.n_rows + monitor.rows_to_tell - n_monitored
        reason = f"It is too early to tell whether more than the class prior changed: look again after row {at:,}."
        return Advice("nothing", [reason], look_again=True)
    return Advice("get labels", ["Nothing checks whether only the class prior changed."])


def fault_of_scores(facts: StreamFacts, labels: LabelSummary, k: int) -> Advice | None:
    """Return what labels demand of the scores, if they do."""
    slope = f"the scores' log ratios should be multiplied by {labels.slope:.2f} (+- {labels.slope_sd:.2f})"
    if labels.slope + 1.645 * labels.slope_sd < LOST_SLOPE:
        told = max(labels.slope, 0.0) ** 2
        reason = (
            f"By the last labels, {slope}: a row tells about {as_percent(told)} of what it told in training, and no "
            "recalibration brings that back."
        )
        return Advice("retrain", [reason])
    if _slope_is_off(labels):
        return Advice("recalibrate", [f"By the last labels, {slope}."])
    if _recalibration_leads(labels):
        earned = as_percent(labels.recalibration_weight)
        return Advice("recalibrate", [f"Recalibrated scores predict the labels best: their weight is {earned}."])
    counted, n = float(labels.counts[k]), float(labels.counts.sum())
    if counted < 10.0 or n - counted < 10.0:
        return None
    by_labels, of_scores = counted / n, float(labels.unlabelled_prior[k])
    gap = clipped_logit(by_labels) - clipped_logit(of_scores)
    move = clipped_logit(of_scores) - clipped_logit(facts.start_prior[k])
    sure = abs(gap) * math.sqrt(n * by_labels * (1.0 - by_labels)) >= SURE
    # where labels go further than the scores, these are only slow
    if sure and abs(gap) >= MATERIAL and abs(move) >= MATERIAL and gap * move < 0.0:
        reason = (
            f"Scores alone would put the prevalence of {quoted_name(facts, k)} at {as_percent(of_scores)}, "
            f"the last labels put it at {as_percent(by_labels)}."
        )
        return Advice("recalibrate", [reason])
    return None


def scores_are_wrong(labels: LabelSummary | None) -> bool:
    """Return whether labels find the scores in need of recalibration."""
    return labels is not None and (_slope_is_off(labels) or _recalibration_leads(labels))


def _slope_is_off(labels: LabelSummary) -> bool:
    gap = abs(labels.slope - 1.0)
    return labels.n_labels >= FEWEST_LABELS and gap >= SLOPE_MATTERS and gap >= SURE * labels.slope_sd


def _recalibration_leads(labels: LabelSummary) -> bool:
    return labels.n_labels >= FEWEST_LABELS and labels.recalibration_weight >= RECALIBRATION_LEADS


def labels_to_ask_for(then: float, now: float, *, to_settle: bool) -> int:
    """Return how many labels of random rows tell one prevalence from another, or settle whether scores still hold.

    >>> labels_to_ask_for(0.02, 0.05, to_settle=False)
    386
    >>> labels_to_ask_for(0.02, 0.05, to_settle=True)
    1500
    """
    if to_settle:
        rare = min(then, 1.0 - then, now, 1.0 - now)  # the current one may be what is wrong
        return max(LABELS_TO_SETTLE, math.ceil(RARE_LABELS / max(rare, 1e-9) - 1e-9))
    spread = math.sqrt(then * (1.0 - then)) + math.sqrt(now * (1.0 - now))
    return max(math.ceil((1.645 * spread / (now - then)) ** 2), 30)
