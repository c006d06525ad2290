"""Report what changed in a stream, since when, with what confidence, and what to do about it.

The interval of the prior tells *whether* a prevalence moved; the history only dates it. The monitor tells whether a
change of the class prior is the whole story, and labels, where they come, overrule both.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from obil.arrays import FloatArray
from obil.online.reports.change_advice import (
    LARGEST_SAMPLE,
    MATERIAL,
    Action,
    Advice,
    advice,
    labels_to_ask_for,
    scores_are_wrong,
)
from obil.online.reports.change_point import Split, change_point
from obil.online.reports.change_text import (
    as_odds,
    as_percent,
    as_percent_range,
    clipped_logit,
    ends_of,
    quoted_name,
    rounded_row,
    rounded_up,
)
from obil.online.reports.stream_facts import StreamFacts
from obil.online.state.history import Bucket, StreamHistory
from obil.readable import Table, as_html, as_text

# A split whose first part is already this much of the way from the start is the estimate catching up, not the change.
CATCHING_UP = 0.5

LEAST_ROWS = 500  # before which nothing is said of a prevalence that is not followed


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """What a person on call needs to know.

    >>> from obil import OnlineClassifier, RatioClassifier
    >>> model = RatioClassifier.from_scores([-2.0, -1.0, 1.0, -1.0, 1.0, 2.0] * 10, [0, 0, 0, 1, 1, 1] * 10)
    >>> report = OnlineClassifier(model).explain()
    >>> report.changed, report.n_rows
    (False, 0)
    """

    sentences: tuple[str, ...]
    action: Action
    reasons: tuple[str, ...]  # for the action
    class_name: str  # that the figures are about
    changed: bool  # whether its prevalence did
    changed_since: int | None  # row, counted from 0; None where nothing changed or no history tells
    prior_then: float
    prior_now: float
    interval: tuple[float, float] | None
    level: float
    by_labels: bool  # whether labels gave the current prevalence, because they find the scores wrong
    log_threshold_then: float | None
    log_threshold_now: float | None
    trusted: bool  # False after the monitor's alarm
    one_class_labels: bool  # whether all labels are of one class though others were to be expected
    n_rows: int

    @property
    def paragraph(self) -> str:
        """All sentences in one paragraph."""
        return " ".join(self.sentences)

    def __str__(self) -> str:
        return as_text(self._table())

    def _repr_html_(self) -> str:
        return as_html(self._table())

    def _table(self) -> Table:
        now = as_percent(self.prior_now)
        if self.interval is not None:
            now += f" ({100.0 * self.level:.3g} %: {as_percent_range(*self.interval)})"
        rows = [(f"prevalence of {self.class_name!r:.60}", as_percent(self.prior_then), now)]
        if self.log_threshold_then is not None and self.log_threshold_now is not None:
            rows.append(("log threshold", f"{self.log_threshold_then:.2f}", f"{self.log_threshold_now:.2f}"))
        title = f"What changed in {self.n_rows:,} rows; to do: {self.action}"
        return Table(title, ("", "at the start", "now"), rows, self.sentences)

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON values, but for infinite thresholds."""
        return {"paragraph": self.paragraph} | asdict(self)


def explain(facts: StreamFacts, history: StreamHistory | None = None) -> ChangeReport:
    """Report what changed, since when, with what confidence, what the threshold did, and what to do.

    >>> still = StreamFacts(("ok", "fraud"), 1, 20_000, 0.9, np.array([0.98, 0.02]), np.array([0.979, 0.021]),
    ...                     np.array([[0.974, 0.983], [0.017, 0.026]]))
    >>> explain(still).paragraph
    "Nothing has changed in 20,000 rows: the prevalence of 'fraud' is 2.1 % (90 %: 1.7 to 2.6 %), in training it was 2.0 %."
    """  # noqa: E501  # one sentence is one line
    now, interval = _current_prior(facts)
    changed = [k for k in range(len(now)) if _has_moved(facts.start_prior[k], now[k], ends_of(interval, k))]
    k = _subject(facts, now, changed)
    moved = k in changed
    buckets = () if history is None else history.buckets()
    split = change_point(buckets, k)
    since = _since(split, facts.start_prior[k], now[k]) if moved and buckets else None
    trusted = facts.monitor is None or facts.monitor.alarm_row is None
    found = advice(facts, k, since, moved=moved)
    runs = _earlier_monitoring_runs(facts)
    unfollowed = [] if moved else _unfollowed(facts, k, now[k])
    quiet = trusted and not moved and not found.reasons and not runs and not unfollowed
    ends, length = ends_of(interval, k), 1 if history is None else history.bucket_length
    sentences = [_prevalence_sentence(facts, k, now[k], ends, since, split, length, moved=moved, quiet=quiet)]
    sentences += unfollowed
    others = [other for other in changed if other != k][:3] if len(now) > 2 else []
    if others:
        then_now = [
            (quoted_name(facts, one), as_percent(facts.start_prior[one]), as_percent(now[one])) for one in others
        ]
        moves = ", ".join(f"that of {name} from {before} to {after}" for name, before, after in then_now)
        sentences.append(f"Other classes moved too: {moves}.")
    if not trusted:
        sentences += _monitor_alarm(facts, buckets, moved=moved)
    sentences += runs
    if facts.decides and facts.n_rows and not facts.held_still and facts.follows:
        sentences.append(f"What decides: {facts.decides}.")
    if moved and facts.log_threshold is not None and facts.start_log_threshold is not None:
        sentences.append(_threshold_change(facts, since, buckets))
    if not quiet and (moved or not trusted or found.reasons):
        sentences += found.reasons
        sentences.append(_what_to_do(found, facts, k, now[k], moved=moved, trusted=trusted))
    return ChangeReport(
        sentences=tuple(sentences),
        action=found.action,
        reasons=tuple(found.reasons),
        class_name=facts.class_names[k],
        changed=moved,
        changed_since=since,
        prior_then=float(facts.start_prior[k]),
        prior_now=float(now[k]),
        interval=ends,
        level=facts.level,
        by_labels=scores_are_wrong(facts.labels),
        log_threshold_then=facts.start_log_threshold,
        log_threshold_now=facts.log_threshold,
        trusted=trusted,
        one_class_labels=facts.one_class is not None,
        n_rows=facts.n_rows,
    )


def _current_prior(facts: StreamFacts) -> tuple[FloatArray, FloatArray | None]:
    """Return the current prior and its interval: by labels alone where they find the scores wrong.

    The prior that recalibrated scores are decided with depends on the row, and is no prevalence.
    """
    labels = facts.labels
    if labels is None or not scores_are_wrong(labels):
        return facts.prior, facts.interval
    n = float(labels.counts.sum())
    prior = (labels.counts + facts.start_prior) / (n + 1.0)
    spread = ndtri((1.0 + facts.level) / 2.0) / np.sqrt(n * prior * (1.0 - prior))
    ends = clipped_logit(prior)[:, None] + spread[:, None] * np.array([-1.0, 1.0])
    return prior, 1.0 / (1.0 + np.exp(-ends))


def _has_moved(then: float, now: float, ends: tuple[float, float] | None) -> bool:
    outside = ends is None or not ends[0] <= then <= ends[1]
    return outside and abs(float(clipped_logit(now) - clipped_logit(then))) >= MATERIAL


def _subject(facts: StreamFacts, now: FloatArray, changed: Sequence[int]) -> int:
    """Return the class to report on: the positive one, else the one that moved most."""
    if facts.positive is not None and (len(now) == 2 or facts.positive in changed or not changed):
        return facts.positive
    moves = np.abs(clipped_logit(now) - clipped_logit(facts.start_prior))
    return max(changed or range(len(now)), key=lambda k: float(moves[k]))


def _since(split: Split | None, then: float, now: float) -> int:
    """Return the row a move dates from: 0 where the stream began that way."""
    if split is None:
        return 0
    move = float(clipped_logit(now) - clipped_logit(then))
    same_sign = (split.after - split.before) * move > 0.0
    already = float(clipped_logit(split.before) - clipped_logit(then)) / move
    return split.row if same_sign and already < CATCHING_UP else 0


def _prevalence_sentence(
    facts: StreamFacts,
    k: int,
    now: float,
    ends: tuple[float, float] | None,
    since: int | None,
    split: Split | None,
    bucket_length: int,
    *,
    moved: bool,
    quiet: bool,
) -> str:
    name, then, current = quoted_name(facts, k), as_percent(facts.start_prior[k]), as_percent(now)
    interval = "" if ends is None else f" ({100.0 * facts.level:.3g} %: {as_percent_range(*ends)})"
    origin = "in training" if facts.starts_at_training else "at the start"
    if not moved and split is not None and facts.follows:
        return (
            f"The prevalence of {name} has moved and is back: it is {current}{interval}, {origin} it was {then}, and "
            f"until about row {rounded_row(split.row, bucket_length):,} it was {as_percent(split.before)} on average."
        )
    if not facts.n_rows:
        return "No rows have come yet."
    if not facts.follows:
        return f"The prevalence of {name} is kept at {current} by choice, and not tracked."
    if facts.held_still:
        return f"The prevalence of {name} is kept at {current}, and not tracked: {facts.decides}."
    subject = "By labels, the prevalence" if scores_are_wrong(facts.labels) else "The prevalence"
    interval = interval or " (this tracker gives no interval)"
    if not moved:
        start = f"Nothing has changed in {facts.n_rows:,} rows: the prevalence" if quiet else subject
        return f"{start} of {name} is {current}{interval}, {origin} it was {then}."
    verb = "rose" if now > facts.start_prior[k] else "fell"
    dated = f", since about row {rounded_row(since, bucket_length):,}" if since else ", from the first rows on"
    return f"{subject} of {name} {verb} from {then} {origin} to {current}{interval}{'' if since is None else dated}."


def _unfollowed(facts: StreamFacts, k: int, now: float) -> list[str]:
    """Say what the scores alone suggest, where that is another prevalence and is not followed."""
    if facts.unguarded is None or facts.n_rows < LEAST_ROWS or not facts.follows:
        return []
    prior, (low, high) = float(facts.unguarded[0][k]), facts.unguarded[1][k].tolist()
    if low <= now <= high:
        return []
    return [
        f"The scores alone suggest {as_percent(prior)} ({100.0 * facts.level:.3g} %: {as_percent_range(low, high)}), "
        "which is not followed so far: a drift of the scores would look the same. Labels of some rows would settle it."
    ]


def _monitor_alarm(facts: StreamFacts, buckets: Sequence[Bucket], *, moved: bool) -> list[str]:
    monitor = facts.monitor
    if monitor is None or monitor.alarm_row is None:
        return []
    ends = [(bucket.first_row + bucket.n_rows, bucket.log_evidence) for bucket in buckets]
    # the last time that there was no evidence, before the alarm
    quiet = [end for end, evidence in ends if end < monitor.alarm_row and evidence is not None and evidence <= 0.0]
    built = f"; it built up from about row {rounded_row(quiet[-1], buckets[0].n_rows):,}" if quiet else ""
    doubt = "this figure and its threshold are" if moved else "decisions by scores alone are"
    return [
        f"But no change of the class prior explains the scores any more (alarm at row {monitor.alarm_row:,}, evidence "
        f"{as_odds(monitor.log_evidence)}{built}), so {doubt} not to be trusted.",
        monitor.difference,
    ]


def _earlier_monitoring_runs(facts: StreamFacts) -> list[str]:
    """Return what must not be forgotten with the evidence: the last restart, and earlier alarms."""
    if facts.monitor is None or not facts.monitoring_runs:
        return []
    alarms = [f"{run.alarm_row:,}" for run in facts.monitoring_runs if run.alarm_row is not None]
    rows = alarms[-1] if len(alarms) == 1 else f"{', '.join(alarms[:-1])} and {alarms[-1]}" if alarms else ""
    earlier = f"; before that, it alarmed at row{'s' * (len(alarms) > 1)} {rows}" if alarms else ""
    return [f"The monitor was restarted after row {facts.monitoring_runs[-1].ended_after:,}{earlier}."]


def _threshold_change(facts: StreamFacts, since: int | None, buckets: Sequence[Bucket]) -> str:
    then, now = float(facts.start_log_threshold or 0.0), float(facts.log_threshold or 0.0)
    if now == math.inf:
        return "At this prevalence no threshold meets the policy, so nothing is alerted."
    if now == -math.inf:
        return "At this prevalence the policy alerts every row."
    if abs(now - then) < 0.05:
        return f"The threshold stayed where it was: a row is alerted where its evidence is {as_odds(now)}."
    verb = "fell" if now < then else "rose"
    moved = f"The evidence that a row needs to be alerted {verb} from {as_odds(then)} to {as_odds(now)}"
    if not buckets or not since:
        return moved + "."
    before = [bucket for bucket in buckets if bucket.first_row < since]
    after = [bucket for bucket in buckets if bucket.first_row >= since]
    rates = [sum(b.alerts for b in part) / sum(b.n_rows for b in part) for part in (before, after)]
    return f"{moved}, and alerts went from {as_percent(rates[0])} to {as_percent(rates[1])} of the rows."


def _what_to_do(found: Advice, facts: StreamFacts, k: int, now: float, *, moved: bool, trusted: bool) -> str:
    match found.action:
        case "retrain":
            return "Retrain the model on recent labelled rows (obil fit); until then keep labels coming."
        case "recalibrate":
            return "Recalibrate on recent labelled rows (obil calibrate); until then labels make up for part of it."
        case "get labels":
            return _which_labels(facts, k, now, to_settle=not trusted or not moved)
        case _:
            if not trusted:
                return "Nothing to do as long as labels keep coming."
            follower = "decisions have" if facts.log_threshold is None else "the threshold has"
            start = "Until then there is nothing to do" if found.look_again else "Nothing to do"
            return f"{start}: {follower} followed." if moved else "Nothing to do yet."


def _which_labels(facts: StreamFacts, k: int, now: float, *, to_settle: bool) -> str:
    if facts.one_class is not None:
        return (
            "Set the class that a missing label stands for (OnlineClassifier(..., unlabeled_as=...)), or feed back "
            "labels of other rows, each with the probability it was picked with (propensity=)."
        )
    wanted = labels_to_ask_for(facts.start_prior[k], now, to_settle=to_settle)
    if wanted <= LARGEST_SAMPLE:
        rows = f"about {rounded_up(wanted):,} rows picked at random would tell"
        return f"Get labels: {rows}, each fed back by online.feedback(id, label)."
    return (
        "Get labels: of all alerts and of a random few of the other rows, each fed back with the probability it "
        "was picked with: online.feedback(id, label, propensity=...)."
    )
