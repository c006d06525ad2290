"""Say what changed in a stream, since when, how sure that is, and what to do about it.

The interval of the prior says *whether* a share moved; the history only dates it. The monitor says whether a change of
shares is the whole story, and labels, where they come, overrule both. The paper advises by calibration error (below
.05 deploy, above .10 recalibrate, above .15 give up), by drift rate (above .1 a row: retrain) and by covariate shift
(retrain). The first is vacuous where classes are rare, so labels are asked for the *slope* of the scores instead; the
second belongs to its own tracker: obil's follows a jump at +1 % cost, so that speed is no reason to retrain; the third
is kept, but an alarm only says *that* the scores changed, not whether it hurts: labels tell.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.special import ndtri

from obil.arrays import FloatArray, require_in
from obil.errors import EstimationError
from obil.prior import FixedPrior, SafeTracker
from obil.prior.label_experts import COUNT_MEMORIES, RECALIBRATION_MEMORIES
from obil.prior.view_guard import ALARM as VIEWS_ALARM
from obil.stream.decision_rule import DecisionRule
from obil.stream.history import Bucket, StreamHistory

if TYPE_CHECKING:
    from obil.stream.online_classifier import OnlineClassifier

Action = Literal["nothing", "get labels", "recalibrate", "retrain"]

# A threshold this far off, in log odds, costs less than 1 % more (Gaussian classes 1.5 or 2.5 apart, shares of 1 to
# 20 %): a smaller move is no news, however sure.
MATERIAL = 0.2
# Log likelihood that two levels must gain over one before a date is named: by chance in 1 to 2 of 1,000 steady streams.
DATING_GAIN = 8.0
# A split whose first part is already this much of the way from the start is the estimate catching up, not the change.
HALF_WAY = 0.5
# With the tolerance it is deployed with, the monitor finds a shift of half a standard deviation in a median of about
# 6,000 rows (docs/results/safety.md): before, its silence says little.
ROWS_TO_TELL = 6_000
# Evidence of 20 to 1 comes about with a chance of 1 in 20 at most where only shares change: worth a second look.
BUILDING_UP = math.log(20.0)
# Fewer labels overrule nothing: a share counted from 100 is known to a factor of 2 at best.
FEWEST_LABELS = 100
# A calibrator fitted on 300 labelled rows costs 2 to 4 % over the exact one: so many labels settle what an alarm means.
LABELS_TO_SETTLE = 300
# ... if this many of them are of the rarer class, which is what a slope is learned from.
RARE_LABELS = 30
LARGEST_SAMPLE = 3_000  # more rows than this nobody labels at random: then alerts, and a few of the rest
# The slope the scores are expected to have after fitting is 1 +- .15; at .8 a tracked share of 1 % is quartered, at
# 1.25 doubled. Beyond .15, and 2.6 standard deviations (chance 1 in 100), the scores need recalibrating.
SLOPE_MATTERS = 0.15
SURE = 2.6
# Slope b of scores that were right means that the classes are b times as far apart. Below one half, a row tells a
# quarter of what it told or less: recalibrating makes such scores honest, but only new ones make them tell again.
LOST_SLOPE = 0.5
RECALIBRATION_LEADS = 0.5  # of the weight of all experts, of which recalibrations start with a quarter


class LabelFacts(NamedTuple):
    """What labels have said so far."""

    n_labels: int
    recalibration_weight: float  # what the recalibrations have earned of all experts
    slope: float  # of the scores by the last 1,000 labels or so: 1 where they are right
    slope_sd: float
    counts: FloatArray  # (K,) the last 1,000 labels or so, weighted by 1 / propensity up to a factor
    share_of_scores: FloatArray  # (K,) the prior by unlabelled scores alone


class WatchFacts(NamedTuple):
    """What the monitor holds."""

    n_rows: int
    log_evidence: float
    log_alarm: float
    alarm_row: int | None  # of the stream, from 1
    difference: str  # where it is largest, in one sentence


@dataclass(frozen=True, slots=True, eq=False)
class StreamFacts:
    """Everything a report is made from beside the history."""

    class_names: tuple[str, ...]
    positive: int | None
    n_rows: int
    level: float  # of the intervals
    start_prior: FloatArray  # (K,)
    prior: FloatArray  # (K,)
    interval: FloatArray | None = None  # (K, 2)
    starts_at_training: bool = True
    follows: bool = True  # False where the prior is kept by choice, whatever comes
    start_log_threshold: float | None = None  # of the policy, at the start prior
    log_threshold: float | None = None
    labels: LabelFacts | None = None
    n_views: int = 0
    disagreement: float = 0.0  # of the views in the last block, in standard deviations
    watch: WatchFacts | None = None
    labels_since_alarm: tuple[int, ...] = ()  # (K,) of rows that the monitor no longer trusted


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """What a person on call needs to know."""

    sentences: tuple[str, ...]
    action: Action
    reasons: tuple[str, ...]  # for the action
    class_name: str  # that the figures speak of
    changed: bool  # whether its share did
    changed_since: int | None  # row, counted from 0; None where nothing changed or no history tells
    prior_then: float
    prior_now: float
    interval: tuple[float, float] | None
    level: float
    by_labels: bool  # whether the share of now was counted from labels, because they find the scores wrong
    log_threshold_then: float | None
    log_threshold_now: float | None
    trusted: bool  # False while the monitor objects
    n_rows: int

    @property
    def paragraph(self) -> str:
        """All of it in words."""
        return " ".join(self.sentences)

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON values, but for infinite thresholds."""
        return {"paragraph": self.paragraph} | asdict(self)


class Split(NamedTuple):
    """The best way to cut a history into two levels."""

    row: int  # the first of the second part
    before: float  # share
    after: float
    gain: float  # log likelihood


def facts_of(online: "OnlineClassifier", *, level: float = 0.9) -> StreamFacts:
    """Gather the facts of a stream."""
    require_in("level", level, 1e-6, 1.0 - 1e-6)
    model, tracker, monitor = online.model, online.tracker, online.monitor
    names = model.classes_.tolist()
    positive = None if online.positive is None else names.index(online.positive)
    state = tracker.state()
    start = np.array(state.get("settings", {}).get("prior", model.prior_), dtype=np.float64)
    try:
        interval = online.interval(level)
    except EstimationError:  # a calibrator whose spread cannot be found
        interval = None
    watch = None
    if monitor is not None:
        before = online.n_rows - monitor.n_rows  # rows of an earlier model
        alarm = None if monitor.alarm_row is None else max(monitor.alarm_row + before, 1)
        watch = WatchFacts(
            monitor.n_watched, monitor.log_evidence, monitor.log_alarm, alarm, monitor.difference().describe()
        )
    safe = tracker if isinstance(tracker, SafeTracker) else None
    waits = safe is not None and state["settings"]["lead"] == "training" and not safe.n_labels
    return StreamFacts(
        class_names=tuple(str(name) for name in names),
        positive=positive,
        n_rows=online.n_rows,
        level=level,
        start_prior=start,
        prior=online.prior,
        interval=interval,
        starts_at_training=bool(np.allclose(start, model.prior_, rtol=1e-6)),
        follows=not waits and not isinstance(tracker, FixedPrior),
        start_log_threshold=DecisionRule(model, online.policy, positive).log_threshold(start),
        log_threshold=online.log_threshold,
        labels=None if safe is None else _label_facts(safe, state["memory"]),
        n_views=0 if safe is None else safe.n_views,
        disagreement=0.0 if safe is None else safe.disagreement,
        watch=watch,
        labels_since_alarm=online.labels_since_alarm,
    )


def explain(facts: StreamFacts, history: StreamHistory | None = None) -> ChangeReport:
    """Say what changed, since when, how sure that is, what the threshold did, and what to do.

    >>> still = StreamFacts(("ok", "fraud"), 1, 20_000, 0.9, np.array([0.98, 0.02]), np.array([0.979, 0.021]),
    ...                     np.array([[0.974, 0.983], [0.017, 0.026]]))
    >>> explain(still).paragraph
    "Nothing has changed in 20,000 rows: the share of 'fraud' is 2.1 % (90 %: 1.7 to 2.6 %), in training it was 2.0 %."
    """
    now, interval = _share_now(facts)
    changed = [k for k in range(len(now)) if _has_moved(facts.start_prior[k], now[k], _ends(interval, k))]
    k = _subject(facts, now, changed)
    moved = k in changed
    buckets = () if history is None else history.buckets()
    split = change_point(buckets, k) if moved else None
    since = _since(split, facts.start_prior[k], now[k]) if moved and buckets else None
    trusted = facts.watch is None or facts.watch.alarm_row is None
    action, reasons = _advice(facts, k, since, moved=moved)
    quiet = trusted and not moved and not reasons

    sentences = [_what_moved(facts, k, now[k], _ends(interval, k), since, history, moved=moved, quiet=quiet)]
    others = [other for other in changed if other != k][:3] if len(now) > 2 else []
    if others:
        moves = [
            f"that of {_name(facts, other)} from {_percent(facts.start_prior[other])} to {_percent(now[other])}"
            for other in others
        ]
        sentences.append(f"Other shares moved too: {', '.join(moves)}.")
    if not trusted:
        sentences += _what_the_monitor_says(facts, buckets, moved=moved)
    if moved and facts.log_threshold is not None and facts.start_log_threshold is not None:
        sentences.append(_what_the_threshold_did(facts, since, buckets))
    if not quiet:
        sentences += reasons
        sentences.append(_what_to_do(action, facts, k, now[k], moved=moved, trusted=trusted))
    return ChangeReport(
        sentences=tuple(sentences),
        action=action,
        reasons=tuple(reasons),
        class_name=facts.class_names[k],
        changed=moved,
        changed_since=since,
        prior_then=float(facts.start_prior[k]),
        prior_now=float(now[k]),
        interval=_ends(interval, k),
        level=facts.level,
        by_labels=_scores_are_wrong(facts.labels),
        log_threshold_then=facts.start_log_threshold,
        log_threshold_now=facts.log_threshold,
        trusted=trusted,
        n_rows=facts.n_rows,
    )


def change_point(buckets: Sequence[Bucket], k: int) -> Split | None:
    """Return the two levels of class k's share that explain a history best, or None where one does as well.

    The shares are taken for counts of independent rows, which they nearly are: this dates a change, it proves none.

    >>> history = StreamHistory(2)
    >>> history.add([[0.98, 0.02]] * 800 + [[0.9, 0.1]] * 800, None, [False] * 1_600)
    >>> change_point(history.buckets(), 1)[:3]
    (800, 0.02, 0.1)
    """
    if len(buckets) < 2:
        return None
    rows = np.array([bucket.n_rows for bucket in buckets], dtype=np.float64)
    count = rows * [bucket.shares[k] for bucket in buckets]
    n_before, before = np.cumsum(rows)[:-1], np.cumsum(count)[:-1]
    n_after, after = rows.sum() - n_before, count.sum() - before
    gains = _log_likelihood(before, n_before) + _log_likelihood(after, n_after)
    gains -= _log_likelihood(count.sum(), rows.sum())
    best = int(np.argmax(gains))
    if gains[best] < DATING_GAIN:
        return None
    shares = before[best] / n_before[best], after[best] / n_after[best]
    return Split(
        buckets[best + 1].first_row, round(float(shares[0]), 12), round(float(shares[1]), 12), float(gains[best])
    )


def _log_likelihood(count: Any, n: Any) -> Any:
    share = np.clip(count / n, 1e-12, 1.0 - 1e-12)
    return count * np.log(share) + (n - count) * np.log1p(-share)


def _label_facts(tracker: SafeTracker, memory: dict[str, Any]) -> LabelFacts | None:
    if not tracker.n_labels:
        return None
    recent = RECALIBRATION_MEMORIES.index(1_000.0)
    precision = np.array(memory["labels.precisions"][recent])
    weights = tracker.expert_weights
    return LabelFacts(
        n_labels=tracker.n_labels,
        recalibration_weight=sum(weight for name, weight in weights.items() if name.startswith("recalibration")),
        slope=float(memory["labels.maps"][recent][0]),
        slope_sd=float(np.sqrt(np.linalg.inv(precision)[0, 0])),
        counts=np.array(memory["labels.counts"][COUNT_MEMORIES.index(1_000.0)]),
        share_of_scores=np.array(memory["slow.prior"]),
    )


def _share_now(facts: StreamFacts) -> tuple[FloatArray, FloatArray | None]:
    """Return the shares of now and their interval: by labels alone where they find the scores wrong.

    The prior that recalibrated scores are decided with depends on the row, and is no share.
    """
    labels = facts.labels
    if labels is None or not _scores_are_wrong(labels):
        return facts.prior, facts.interval
    n = float(labels.counts.sum())
    shares = (labels.counts + facts.start_prior) / (n + 1.0)
    spread = ndtri((1.0 + facts.level) / 2.0) / np.sqrt(n * shares * (1.0 - shares))
    ends = _logit(shares)[:, None] + spread[:, None] * np.array([-1.0, 1.0])
    return shares, 1.0 / (1.0 + np.exp(-ends))


def _has_moved(then: float, now: float, ends: tuple[float, float] | None) -> bool:
    outside = ends is None or not ends[0] <= then <= ends[1]
    return outside and abs(float(_logit(now) - _logit(then))) >= MATERIAL


def _subject(facts: StreamFacts, now: FloatArray, changed: Sequence[int]) -> int:
    """Return the class to speak of: the positive one, else the one that moved most."""
    if facts.positive is not None and (len(now) == 2 or facts.positive in changed or not changed):
        return facts.positive
    moves = np.abs(_logit(now) - _logit(facts.start_prior))
    return max(changed or range(len(now)), key=lambda k: float(moves[k]))


def _since(split: Split | None, then: float, now: float) -> int:
    """Return the row a move dates from: 0 where the stream began that way."""
    if split is None:
        return 0
    move = float(_logit(now) - _logit(then))
    same_way = (split.after - split.before) * move > 0.0
    already = float(_logit(split.before) - _logit(then)) / move
    return split.row if same_way and already < HALF_WAY else 0


def _advice(facts: StreamFacts, k: int, since: int | None, *, moved: bool) -> tuple[Action, list[str]]:
    """Return what to do, and why: labels come first, then the monitor, then the views."""
    labels = facts.labels
    alarm_row = None if facts.watch is None else facts.watch.alarm_row
    n_labels = 0 if labels is None else labels.n_labels
    settled = n_labels >= FEWEST_LABELS
    if alarm_row is not None:  # labels of rows from before it do not speak of what it found
        n_labels = sum(facts.labels_since_alarm)
        settled = n_labels >= LABELS_TO_SETTLE and min(facts.labels_since_alarm) >= RARE_LABELS
    fault = _fault_of_scores(facts, labels, k) if labels is not None and settled else None
    if fault is not None:
        return fault
    if alarm_row is not None:
        if settled:
            return "nothing", [f"But {n_labels:,} labels of rows since then have come, and they bear the scores out."]
        so_far = f"only {n_labels:,} have" if n_labels else "none has"
        few = ", too few of the rarest class to tell" if n_labels >= LABELS_TO_SETTLE else ""
        return "get labels", [f"Whether decisions suffer, labels of rows since then can tell, and {so_far} come{few}."]
    if facts.n_views and facts.disagreement >= VIEWS_ALARM:
        return "get labels", [
            f"Parts of the model that see other columns disagree on the share by {facts.disagreement:.1f} standard "
            "deviations, so it is held back."
        ]
    action: Action = "nothing"
    reasons: list[str] = []
    if moved and settled:
        reasons.append(f"{n_labels:,} labels have come, and they decide.")
    elif moved:
        action, reason = _advice_without_labels(facts, since)
        reasons.append(reason)
    if facts.watch is not None and facts.watch.log_evidence >= BUILDING_UP:
        reasons.append(
            f"Evidence that more than the shares changes is building up: {_odds(facts.watch.log_evidence)} "
            f"(alarm at {_odds(facts.watch.log_alarm)}); look again soon."
        )
    return action, reasons


def _advice_without_labels(facts: StreamFacts, since: int | None) -> tuple[Action, str]:
    """Return what to do about a share that moved, where neither monitor nor views object."""
    watched = 0 if facts.watch is None else min(facts.watch.n_rows, facts.n_rows - (since or 0))
    if watched >= ROWS_TO_TELL:
        also = ", and the parts of the model agree on it" if facts.n_views else ""
        return "nothing", f"Nothing in the scores speaks against a change of the shares alone{also}."
    if facts.n_views:
        return "nothing", "The parts of the model that see other columns agree on it."
    if facts.watch is not None:
        at = facts.n_rows + ROWS_TO_TELL - watched
        return "nothing", f"It is too early to tell whether more than the shares changed: look again after row {at:,}."
    return "get labels", "Nothing checks whether it is only the shares that changed."


def _fault_of_scores(facts: StreamFacts, labels: LabelFacts, k: int) -> tuple[Action, list[str]] | None:
    """Return what labels demand of the scores, if they do."""
    slope = f"the scores' log ratios should be multiplied by {labels.slope:.2f} (+- {labels.slope_sd:.2f})"
    if labels.slope + 1.645 * labels.slope_sd < LOST_SLOPE:
        told = max(labels.slope, 0.0) ** 2
        return "retrain", [
            f"By the last labels, {slope}: a row tells about {_percent(told)} of what it told in training, and no "
            "recalibration brings that back."
        ]
    if _slope_is_off(labels):
        return "recalibrate", [f"By the last labels, {slope}."]
    if _recalibration_leads(labels):
        return "recalibrate", [
            f"Recalibrated scores predict the labels best: they have earned {labels.recalibration_weight:.0%} of the "
            "say."
        ]
    counted, n = float(labels.counts[k]), float(labels.counts.sum())
    if counted < 10.0 or n - counted < 10.0:
        return None
    share, of_scores = counted / n, float(labels.share_of_scores[k])
    gap, move = _logit(share) - _logit(of_scores), _logit(of_scores) - _logit(facts.start_prior[k])
    sure = abs(gap) * math.sqrt(n * share * (1.0 - share)) >= SURE
    # where labels go further than the scores, these are only slow
    if sure and abs(gap) >= MATERIAL and abs(move) >= MATERIAL and gap * move < 0.0:
        return "recalibrate", [
            f"Scores alone would put the share of {_name(facts, k)} at {_percent(of_scores)}, the last labels put it "
            f"at {_percent(share)}."
        ]
    return None


def _scores_are_wrong(labels: LabelFacts | None) -> bool:
    return labels is not None and (_slope_is_off(labels) or _recalibration_leads(labels))


def _slope_is_off(labels: LabelFacts) -> bool:
    gap = abs(labels.slope - 1.0)
    return labels.n_labels >= FEWEST_LABELS and gap >= SLOPE_MATTERS and gap >= SURE * labels.slope_sd


def _recalibration_leads(labels: LabelFacts) -> bool:
    return labels.n_labels >= FEWEST_LABELS and labels.recalibration_weight >= RECALIBRATION_LEADS


def _what_moved(
    facts: StreamFacts,
    k: int,
    now: float,
    ends: tuple[float, float] | None,
    since: int | None,
    history: StreamHistory | None,
    *,
    moved: bool,
    quiet: bool,
) -> str:
    name, then = _name(facts, k), _percent(facts.start_prior[k])
    share = "By labels, the share" if _scores_are_wrong(facts.labels) else "The share"
    sure = " (how sure, this tracker cannot say)"
    if ends is not None:
        sure = f" ({100.0 * facts.level:.3g} %: {_percent_range(*ends)})"
    origin = "in training" if facts.starts_at_training else "at the start"
    if not facts.n_rows:
        return "No rows have come yet."
    if not facts.follows:
        return f"The share of {name} is kept at {_percent(now)} by choice, and not followed."
    if not moved:
        start = f"Nothing has changed in {facts.n_rows:,} rows: the share" if quiet else share
        return f"{start} of {name} is {_percent(now)}{sure}, {origin} it was {then}."
    verb = "rose" if now > facts.start_prior[k] else "fell"
    when = ""
    if since is not None and history is not None:
        when = f", since about row {_rounded(since, history.bucket_length):,}" if since else ", from the first rows on"
    return f"{share} of {name} {verb} from {then} {origin} to {_percent(now)}{sure}{when}."


def _what_the_monitor_says(facts: StreamFacts, buckets: Sequence[Bucket], *, moved: bool) -> list[str]:
    watch = facts.watch
    if watch is None or watch.alarm_row is None:
        return []
    start = None
    for bucket in buckets:  # the last time that nothing spoke against the stream, before the alarm
        if bucket.first_row + bucket.n_rows >= watch.alarm_row:
            break
        if bucket.log_evidence is not None and bucket.log_evidence <= 0.0:
            start = bucket.first_row + bucket.n_rows
    built = "" if start is None else f"; it built up from about row {_rounded(start, buckets[0].n_rows):,}"
    doubt = "this figure and its threshold are" if moved else "decisions by scores alone are"
    return [
        f"But no change of shares explains the scores any more (alarm at row {watch.alarm_row:,}, evidence "
        f"{_odds(watch.log_evidence)}{built}), so {doubt} not to be trusted.",
        watch.difference,
    ]


def _what_the_threshold_did(facts: StreamFacts, since: int | None, buckets: Sequence[Bucket]) -> str:
    then, now = float(facts.start_log_threshold or 0.0), float(facts.log_threshold or 0.0)
    if now == math.inf:
        return "At this share no threshold meets the policy, so nothing is alerted."
    if now == -math.inf:
        return "At this share the policy alerts every row."
    if abs(now - then) < 0.05:
        return f"The threshold stayed where it was: a row is alerted where its evidence is {_odds(now)}."
    verb = "fell" if now < then else "rose"
    words = f"The evidence that a row needs to be alerted {verb} from {_odds(then)} to {_odds(now)}"
    if not buckets or not since:
        return words + "."
    before = [bucket for bucket in buckets if bucket.first_row < since]
    after = [bucket for bucket in buckets if bucket.first_row >= since]
    shares = [sum(b.alerts for b in part) / sum(b.n_rows for b in part) for part in (before, after)]
    return f"{words}, and alerts went from {_percent(shares[0])} to {_percent(shares[1])} of the rows."


def _what_to_do(action: Action, facts: StreamFacts, k: int, now: float, *, moved: bool, trusted: bool) -> str:
    match action:
        case "retrain":
            return "Retrain the model on recent labelled rows (obil fit); until then keep labels coming."
        case "recalibrate":
            return "Recalibrate on recent labelled rows (obil calibrate); until then labels make up for part of it."
        case "get labels":
            wanted = labels_to_ask_for(facts.start_prior[k], now, to_settle=not trusted or not moved)
            if wanted > LARGEST_SAMPLE:
                return (
                    "Get labels: of all alerts and of a random few of the other rows, each fed back with the chance it "
                    "was picked with."
                )
            return f"Get labels: about {_rounded_up(wanted):,} rows picked at random would tell."
        case _:
            if not trusted:
                return "Nothing to do as long as labels keep coming."
            follower = "decisions have" if facts.log_threshold is None else "the threshold has"
            return f"Nothing to do: {follower} followed." if moved else "Nothing to do yet."


def labels_to_ask_for(then: float, now: float, *, to_settle: bool) -> int:
    """Return how many labels of random rows tell one share from another, or settle whether scores still hold.

    >>> labels_to_ask_for(0.02, 0.05, to_settle=False)
    386
    >>> labels_to_ask_for(0.02, 0.05, to_settle=True)
    1500
    """
    if to_settle:
        rare = min(then, 1.0 - then, now, 1.0 - now)  # the share of now may be what is wrong
        return max(LABELS_TO_SETTLE, math.ceil(RARE_LABELS / max(rare, 1e-9) - 1e-9))
    spread = math.sqrt(then * (1.0 - then)) + math.sqrt(now * (1.0 - now))
    return max(math.ceil((1.645 * spread / (now - then)) ** 2), 30)


def _name(facts: StreamFacts, k: int) -> str:
    text = facts.class_names[k]
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return f"'{shown:.60}'"


def _ends(interval: FloatArray | None, k: int) -> tuple[float, float] | None:
    return None if interval is None else (float(interval[k, 0]), float(interval[k, 1]))


def _digits(share: float) -> int:
    small = 100.0 * min(share, 1.0 - share)
    return 0 if small >= 9.95 else min(1 - math.floor(math.log10(max(small, 1e-9))), 8)


def _percent(share: float) -> str:
    """Return a share with two digits that count: 5.1 %, 0.16 %, 99.4 %."""
    return f"{100.0 * share:.{_digits(share)}f} %"


def _percent_range(low: float, high: float) -> str:
    digits = max(_digits(low), _digits(high)) if low > 0.0 and high < 1.0 else 1
    return f"{100.0 * low:.{digits}f} to {100.0 * high:.{digits}f} %"


def _odds(log_ratio: float) -> str:
    """Return a log ratio as odds: 18 to 1, 1 to 7.4."""
    size = math.exp(min(abs(log_ratio), 30.0))
    text = "over a million" if size > 1e6 else f"{size:,.0f}" if size >= 10.0 else f"{size:.2g}"
    return f"{text} to 1" if log_ratio >= 0.0 else f"1 to {text}"


def _rounded(row: int, length: int) -> int:
    """Return a row to the nearest power of ten that its bucket allows."""
    step = int(10 ** math.floor(math.log10(max(length, 1))))
    return round(row / step) * step


def _rounded_up(n: int) -> int:
    step = int(10 ** max(len(str(n)) - 2, 1))
    return -(-n // step) * step


def _logit(share: Any) -> Any:
    inside = np.clip(share, 1e-12, 1.0 - 1e-12)
    return np.log(inside) - np.log1p(-inside)
