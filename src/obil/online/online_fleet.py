"""Decide many keyed streams of one model, each as an online classifier of its own would."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import fields, replace
from itertools import chain, compress
from typing import Any

import numpy as np
import numpy.typing as npt

from obil.arrays import BoolArray, FloatArray, IntArray, as_evidence, as_log_ratios, marks_of
from obil.errors import InvalidInputError
from obil.flat_record import copy_record
from obil.online.decision import Decision, Decisions
from obil.online.decision_ids import as_ids
from obil.online.deviations import FALSE_DISCOVERIES
from obil.online.estimate_prior import estimate_by_segment
from obil.online.fleet_level import FleetLevel
from obil.online.fleet_pass import can_pass, pass_over
from obil.online.fleet_starts import FleetStarts
from obil.online.fleet_stream import FleetStream
from obil.online.key_evidence import KeyEvidence, labelled_evidence
from obil.online.labels.label_ledger import LabelLedger
from obil.online.online_classifier import OnlineClassifier
from obil.online.segments import SegmentEstimates, estimate_segments
from obil.policies import Policy
from obil.serving.folds import folds_of_numbers
from obil.serving.ratio_model import Scores
from obil.trackers import SafeTracker

MOST_OPEN = 256  # streams at hand as objects; the others are a record each
LEAST_ROOM = 16  # records
FEWEST_KEYS = 2  # whose priors have something in common
FEWEST_TOGETHER = 32  # keys of a batch, for which the passes over records pay


class OnlineFleet:
    """Many streams of one model and one set of settings, by key: 500 branches, 100,000 merchants.

    Each key has a prior, a monitor, labels and a history of its own; `fleet[key]` behaves as an `OnlineClassifier`.
    Rows of many keys are scored together and decided in order within each key: what a key decides depends on its own
    rows alone, bit for bit, however the keys are interleaved. A fleet has one writer.

    Parameters
    ----------
    model
        A fitted `RatioClassifier` or `OBILClassifier`, or what `obil.load` returns.
    store
        Where states of streams go that are not used: any mutable mapping from keys to bytes. None keeps all in memory.
    most_in_memory
        How many streams stay in memory, the most recently used, where there is a store.
    common_level
        Whether keys learn from each other: `update_common_level` fits a Beta or Dirichlet distribution to their priors,
        at whose mean new keys start, and `deviating` names those that differ. The levels of an earlier fleet continue
        it.
    settings
        Those of `OnlineClassifier`: costs, policy, tracker, prior, positive, monitor, horizon, unlabeled_as.

    >>> from obil import RatioClassifier
    >>> model = RatioClassifier.from_scores([-2.0, -1.0, 1.0, -1.0, 1.0, 2.0] * 10, [0, 0, 0, 1, 1, 1] * 10)
    >>> fleet = OnlineFleet(model, prior=0.2)
    >>> print(fleet.decide_many([[2.0], [-2.0], [2.0]], keys=["north", "south", "north"]).labels)
    [1 0 1]
    >>> sorted(fleet), fleet["north"].n_rows
    (['north', 'south'], 2)
    """

    def __init__(
        self,
        model: Any,
        *,
        store: MutableMapping[Any, bytes] | None = None,
        most_in_memory: int | None = None,
        common_level: bool | Iterable[FleetLevel] = False,
        **settings: Any,
    ) -> None:
        if (store is None) != (most_in_memory is None):
            raise InvalidInputError("store and most_in_memory belong together: give both, or neither")
        if most_in_memory is not None and (type(most_in_memory) is not int or most_in_memory < 1):
            raise InvalidInputError(f"most_in_memory must be a positive integer, got {most_in_memory!r:.40}")
        self._starts = FleetStarts(model, settings, [] if isinstance(common_level, bool) else common_level)
        self._evidence = None if common_level is False else KeyEvidence()
        self._fresh = self._starts.plain  # what all streams have in common
        self._model = self._fresh.model
        self._store = store
        self._most_in_memory = most_in_memory
        self._open: OrderedDict[Any, OnlineClassifier] = OrderedDict()  # those at hand, the least recently used first
        self._slots: OrderedDict[Any, int] = OrderedDict()  # of all in memory, in that order; where their records lie
        self._unstored: set[Any] = set()  # of those in memory, whose state may not be what the store has
        self._ledgers: dict[int, LabelLedger] = {}  # by slot, of those whose rows may wait for labels
        self._free: list[int] = []  # slots of streams that have gone
        record, _ = self._fresh.parts()
        self._records = np.zeros(0, dtype=record.dtype)
        self._started = np.zeros(0, dtype=np.int64)  # by slot, the number of the stream that each started as

    def __repr__(self) -> str:
        return f"OnlineFleet({len(self):,} streams of {self._fresh!r})"

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Any]:
        stored = [] if self._store is None else [key for key in self._store if key not in self._slots]
        yield from [*self._slots, *stored]  # the order of the first changes with each use

    def __contains__(self, key: Hashable) -> bool:
        return key in self._slots or (self._store is not None and key in self._store)

    def __getitem__(self, key: Hashable) -> OnlineClassifier:
        """Return the stream of a key, which behaves as an `OnlineClassifier`."""
        if key not in self:
            raise KeyError(key)
        view: Any = FleetStream(self, key)
        return view  # type: ignore[no-any-return]  # it passes everything on to one

    @property
    def policy(self) -> Policy:
        """The rule for the threshold of all streams; a new one takes effect from the next row on."""
        return self._fresh.policy

    @policy.setter
    def policy(self, policy: Policy | str) -> None:
        self._park()
        self._starts.set_policy(policy)

    def decide(self, x: Any, *, key: Hashable, id: Any = None, at: Any = None) -> Decision:  # noqa: A002
        """Decide one row of a key, whose stream starts with it if it is new; `id` and `at` as in `OnlineClassifier`."""
        own = _plain_keys([key])[0]
        decision = self._opened(own).decide(x, id=id, at=at)
        self._gather(own, decision.evidence[None], np.array([decision.trusted]))
        return decision

    def decide_many(
        self, X: Any, *, keys: Iterable[Hashable], ids: Sequence[Any] | None = None, at: Any = None
    ) -> Decisions:
        """Decide rows of many keys, in order within each; a key that is new starts a stream."""
        return self._decide_groups(self._model.score(X, at=at), keys, ids)

    def decide_log_ratios(
        self,
        log_ratios: npt.ArrayLike,
        *,
        keys: Iterable[Hashable],
        evidence: npt.ArrayLike | None = None,
        ids: Sequence[Any] | None = None,
    ) -> Decisions:
        """Decide rows of many keys whose log ratios, (n, K), are known: see `OnlineClassifier.decide_log_ratios`."""
        ratios = as_log_ratios(log_ratios, n_classes=self._model.n_classes)
        given = ratios[:, None]
        if evidence is not None:
            given = as_evidence(evidence, n_rows=len(ratios), n_classes=ratios.shape[1])
        return self._decide_groups(Scores(ratios, given[:, None]), keys, ids)

    def decide_scores(self, scores: Scores, *, keys: Iterable[Hashable], ids: Sequence[Any] | None = None) -> Decisions:
        """Decide rows of many keys that the model scored already: see `OnlineClassifier.decide_scores`."""
        ratios = as_log_ratios(scores.log_ratios, n_classes=self._model.n_classes)
        expected = (len(ratios), self._model.n_folds)
        if np.ndim(scores.evidence) != 4 or np.shape(scores.evidence)[:2] != expected:
            raise InvalidInputError(
                f"evidence must be of {expected[0]} rows by the model's {expected[1]} folds, got "
                f"{np.shape(scores.evidence)[:2]}"
            )
        n_rows, n_folds, n_sources, n_classes = np.shape(scores.evidence)
        flat = np.reshape(scores.evidence, (n_rows * n_folds, n_sources, n_classes))
        checked = as_evidence(flat, n_rows=len(flat), n_classes=ratios.shape[1])
        return self._decide_groups(Scores(ratios, checked.reshape(n_rows, n_folds, n_sources, n_classes)), keys, ids)

    def feedback(self, key: Hashable, id: Any, label: Any, *, propensity: float = 1.0) -> bool:  # noqa: A002
        """Learn the true label of a key's decision; return whether the key and the decision are known."""
        return key in self and self._opened(key).feedback(id, label, propensity=propensity)

    @property
    def common_levels(self) -> tuple[FleetLevel, ...]:
        """The levels so far, the newest last: a fleet that is made with them continues this one."""
        return tuple(self._starts.levels)

    def update_common_level(self) -> FleetLevel | None:
        """Start new keys where the priors of the others lie; return that level, None where nothing shows it yet.

        It is fitted to what a tracker trusts: with `SafeTracker`, the default, to the recent labels of each key; with
        others to the rows since the last level. It stays where it was while fewer than two keys have such. A key that
        has started stays as it is.
        """
        rows = self._require_evidence()
        if isinstance(self._fresh.tracker, SafeTracker):
            evidence = labelled_evidence(dict(self._label_counts()))
        else:
            evidence = rows.by_key()
        if len(evidence) < FEWEST_KEYS:
            return self._starts.levels[-1] if self._starts.levels else None
        level = FleetLevel.of(estimate_segments(evidence))
        self._starts.levels.append(level)
        self._starts.keep(self._started[list(self._slots.values())].tolist())
        self._evidence = KeyEvidence()
        return level

    def estimate_priors(self, *, level: float = 0.9) -> SegmentEstimates:
        """Return each key's prevalence in the rows since the last level, as `estimate_prior(model, X, by=keys)` does.

        Rows that came after the alarm of their key's monitor are left out: no prior explains them.
        """
        return estimate_by_segment(self._model, self._require_evidence().by_key(), level=level)

    def deviating(self, rate: float = FALSE_DISCOVERIES) -> tuple[Hashable, ...]:
        """Return the keys whose prior was not that of the others since the last level, the clearest first.

        About the fraction `rate` of them, at most, is there by chance.
        """
        return self.estimate_priors().deviating(rate) if len(self._require_evidence()) else ()

    def forget(self, key: Hashable) -> bool:
        """Erase the stream of a key; return whether there was one."""
        known = key in self
        if self._evidence is not None:
            self._evidence.forget(key)
        if key in self._slots:
            self._leave(key)
        if self._store is not None:
            self._store.pop(key, None)
        return known

    def flush(self) -> None:
        """Write all streams that were used since the last time to the store."""
        if self._store is None:
            raise InvalidInputError("this fleet has no store to write to: make it with store=")
        for key in [key for key in self._slots if key in self._unstored]:
            self._write(key)

    def _decide_groups(self, scores: Scores, keys: Iterable[Hashable], ids: Sequence[Any] | None) -> Decisions:
        """Decide the rows of each key together; the decisions come in the order of the rows."""
        n_rows = len(scores.log_ratios)
        own_keys, names = _plain_keys(keys), None if ids is None else as_ids(ids)
        for what, given in (("keys", own_keys), ("ids", names)):
            if given is not None and len(given) != n_rows:
                raise InvalidInputError(f"{what} must name every row ({n_rows}), got {len(given)}")
        rows_of: dict[Hashable, list[int]] = {}
        for row, key in enumerate(own_keys):
            rows_of.setdefault(key, []).append(row)
        most = len(rows_of) if self._most_in_memory is None else self._most_in_memory
        parts, order = [], []
        if FEWEST_TOGETHER <= len(rows_of) <= most and can_pass(self._fresh):
            slots = self._parked_slots(rows_of)
            started = self._started[slots]
            for number in np.unique(started).tolist():
                alike = started == number
                own_rows = rows_of if alike.all() else dict(compress(rows_of.items(), alike.tolist()))
                decided, rows = self._decide_together(self._starts[number], slots[alike], scores, own_rows, names)
                parts.append(decided)
                order += rows
        else:
            for key, rows in rows_of.items():
                own = Scores(scores.log_ratios[rows], scores.evidence[rows])
                own_ids = None if names is None else [names[row] for row in rows]
                parts.append(self._opened(key)._decide_scores(own, own_ids))
                order += rows
        decisions = _in_order(parts, order, self._fresh)
        if self._evidence is not None:
            for key, rows in rows_of.items():
                self._gather(key, decisions.evidence[rows], decisions.trusted[rows])
        return decisions

    def _decide_together(
        self,
        start: OnlineClassifier,
        slots: IntArray,
        scores: Scores,
        rows_of: Mapping[Hashable, list[int]],
        names: Sequence[Any] | None,
    ) -> tuple[Decisions, list[int]]:
        """Decide the rows of keys that started as one stream in compiled passes over their records; return which."""
        lengths = np.fromiter(map(len, rows_of.values()), np.int64, len(rows_of))
        order = np.fromiter(chain.from_iterable(rows_of.values()), np.int64, int(lengths.sum()))
        starts = np.concatenate([[0], np.cumsum(lengths)])
        first = self._records["counters"]["seen"][slots, 0]
        numbers = np.repeat(first - starts[:-1], lengths) + np.arange(len(order))  # of the rows in their streams
        folds = folds_of_numbers(numbers, scores.evidence.shape[1])
        evidence = np.ascontiguousarray(scores.evidence[order, folds])
        ids = numbers.tolist() if names is None else [names[row] for row in order.tolist()]
        decided, inputs = pass_over(
            start, self._records, slots, starts, Scores(scores.log_ratios[order], evidence), ids
        )
        if self._fresh.horizon:
            for g, slot in enumerate(slots.tolist()):
                own = slice(starts[g], starts[g + 1])
                self._ledger_of(slot).remember(
                    int(numbers[own.start]), ids[own], decided.log_ratios[own], decided.alerts[own],
                    None if inputs is None else inputs[own],
                )  # fmt: skip
        return decided, order.tolist()

    def _gather(self, key: Hashable, evidence: FloatArray, trusted: BoolArray) -> None:
        """Add decided rows of a key, (n, S, K), to what is known of its prior."""
        used = trusted & ~marks_of(evidence)
        if self._evidence is not None and used.any():
            self._evidence.add(key, evidence[used, 0])

    def _label_counts(self) -> Iterator[tuple[Hashable, FloatArray]]:
        """Yield the recent labels of each key that has any, by class, (K,)."""
        for key in self:
            slot = self._slots.get(key)
            if key in self._open:
                online = self._open[key]
            elif slot is not None:
                online = self._resumed(slot)
            else:
                online = self._starts.restored((self._store or {})[key], name=f"the state of {key!r:.60}")[1]
            tracker = online.tracker
            summary = tracker.label_summary() if isinstance(tracker, SafeTracker) else None
            if summary is not None:
                yield key, summary.counts

    def _require_evidence(self) -> KeyEvidence:
        if self._evidence is None:
            raise InvalidInputError("this fleet does not compare its keys: make it with common_level=True")
        return self._evidence

    def _parked_slots(self, keys: Iterable[Hashable]) -> IntArray:
        """Return where the records of these keys lie, (n,), none of them at hand; new keys get one."""
        self._park()
        new = []
        for key in keys:
            if key in self._slots:
                self._slots.move_to_end(key)
            elif self._store is not None and key in self._store:
                self._enter(key)
            else:
                new.append(key)
            self._note_use(key)
        self._make_room(len(new))
        for key in new:
            self._slots[key] = self._free.pop()
        own, newest = [self._slots[key] for key in new], self._starts.newest
        copy_record(self._starts[newest].parts()[0], self._records, own)
        self._started[own] = newest
        self._keep_within_memory()  # these are the last used, and not more than may stay
        return np.fromiter((self._slots[key] for key in keys), np.int64)

    def _ledger_of(self, slot: int) -> LabelLedger:
        """Return the decisions of a stream that wait for labels; there is nothing of them before the first."""
        ledger = self._ledgers.get(slot)
        if ledger is None:
            empty = self._fresh.parts()[1]
            ledger = self._ledgers[slot] = empty.with_horizon(empty.horizon)
        return ledger

    def _opened(self, key: Hashable) -> OnlineClassifier:
        """Return the stream of a key as an object, new if the key is; it may be changed."""
        self._note_use(key)
        online = self._open.get(key)
        if online is not None:
            self._open.move_to_end(key)
            self._slots.move_to_end(key)
            return online
        if key not in self._slots:
            self._enter(key)
        slot = self._slots[key]
        self._slots.move_to_end(key)
        online = self._open[key] = self._resumed(slot)
        if len(self._open) > MOST_OPEN:
            self._park(keep=MOST_OPEN // 2)
        self._keep_within_memory()
        return online

    def _resumed(self, slot: int) -> OnlineClassifier:
        """Return the stream of a slot as an object."""
        start = self._starts[int(self._started[slot])]
        return start.resumed(self._records[slot, ...], self._ledger_of(slot))

    def _enter(self, key: Hashable) -> None:
        """Give a key a record: that of its state in the store, or that of a new stream."""
        stored = None if self._store is None else self._store.get(key)
        number = self._starts.newest
        online = self._starts[number]
        if stored is not None:
            number, online = self._starts.restored(stored, name=f"the state of {key!r:.60}")
        record, ledger = online.parts()
        self._make_room(1)
        slot = self._slots[key] = self._free.pop()
        copy_record(record, self._records, [slot])
        self._started[slot] = number
        if stored is not None:
            self._ledgers[slot] = ledger

    def _park(self, keep: int = 0) -> None:
        """Write the counters of streams at hand into their records, and let go of them, all but the last used."""
        while len(self._open) > keep:
            _, online = self._open.popitem(last=False)
            online.parts()

    def _evict(self, key: Hashable) -> None:
        """Leave a stream to the store."""
        if key in self._unstored:
            self._write(key)
        self._leave(key)

    def _write(self, key: Hashable) -> None:
        """Write a stream to the store."""
        assert self._store is not None  # else there is nowhere to write to
        online = self._open.get(key)
        if online is None:
            slot = self._slots[key]
            online = self._resumed(slot)
        self._store[key] = online.state()
        self._unstored.discard(key)

    def _note_use(self, key: Hashable) -> None:
        if self._store is not None:
            self._unstored.add(key)

    def _keep_within_memory(self) -> None:
        """Leave the least recently used streams to the store, where there are more than may stay in memory."""
        while self._most_in_memory is not None and len(self._slots) > self._most_in_memory:
            self._evict(next(iter(self._slots)))

    def _leave(self, key: Hashable) -> None:
        self._open.pop(key, None)
        slot = self._slots.pop(key)
        self._unstored.discard(key)
        self._ledgers.pop(slot, None)
        self._free.append(slot)

    def _make_room(self, n: int) -> None:
        """Have at least n free slots; records move, so that no stream stays at hand."""
        if len(self._free) >= n:
            return
        self._park()
        before = len(self._records)
        records = np.zeros(max(2 * before, before + n, LEAST_ROOM), dtype=self._records.dtype)
        records[:before] = self._records
        self._records = records
        self._started = np.concatenate([self._started, np.zeros(len(records) - before, dtype=np.int64)])
        self._free.extend(range(len(records) - 1, before - 1, -1))


def _plain_keys(keys: Iterable[Hashable]) -> list[Hashable]:
    """Return keys as plain Python values, or say which row lacks one: a missing value equals no other."""
    plain: list[Hashable] = keys.tolist() if hasattr(keys, "tolist") else list(keys)
    for row, key in enumerate(plain):
        if key is None or key != key:  # noqa: PLR0124  # NaN is the value that differs from itself
            raise InvalidInputError(f"row {row} (from 0) has no key, got {key!r}: name the stream of every row")
    return plain


def _in_order(parts: Sequence[Decisions], rows: Sequence[int], like: OnlineClassifier) -> Decisions:
    """Return the decisions of several streams as those of `rows`, in the order of these."""
    if not parts:
        return like.copied().decide_log_ratios(np.empty((0, len(like.classes_))))
    place = np.empty(len(rows), dtype=np.int64)
    place[list(rows)] = np.arange(len(rows))
    columns: dict[str, Any] = {}
    for name in {one.name for one in fields(Decisions)} - {"ids", "classes", "positive"}:
        values = [getattr(part, name) for part in parts]
        columns[name] = None if values[0] is None else np.concatenate(values)[place]
    ids = [name for part in parts for name in part.ids]
    return replace(parts[0], ids=[ids[i] for i in place.tolist()], **columns)
