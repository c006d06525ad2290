"""Measure a model once, whichever threads ask for it, and keep what was found as long as its held-out rows live."""

from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from obil.serving.holdout import Holdout
from obil.serving.ratio_model import RatioModel

Found = TypeVar("Found")


class MeasuredOnce(Generic[Found]):
    """What held-out rows show of models: measured when it is first asked for, and by one thread only.

    Copies of a model that differ in nothing that is measured, as `with_advice` returns, are measured once.

    >>> from obil import RatioClassifier
    >>> model = RatioClassifier.from_scores([-2.0, -1.0, 1.0, -1.0, 1.0, 2.0] * 10, [0, 0, 0, 1, 1, 1] * 10).model_
    >>> counts = MeasuredOnce(lambda model: print("counted") or model.holdout_.counts.tolist())
    >>> counts.of(model), counts.of(model.with_advice(None))
    counted
    ([30, 30], [30, 30])
    """

    def __init__(self, measure: Callable[[RatioModel], Found]) -> None:
        self._measure = measure
        self._lock = Lock()  # held to find an entry, never while measuring: other models need not wait
        self._entries: WeakKeyDictionary[Holdout, list[_Entry[Found]]] = WeakKeyDictionary()

    def of(self, model: RatioModel) -> Found:
        """Return what is known of a model, measured now if need be."""
        parts = (model.evidence, model.calibrator, model.prior_, model.view_members)
        with self._lock:
            entries = self._entries.setdefault(model.holdout_, [])
            entry = next((one for one in entries if one.is_of(parts)), None)
            if entry is None:
                entry = _Entry(parts)
                entries.append(entry)
        with entry.lock:
            if not entry.found:
                entry.found.append(self._measure(model))
            return entry.found[0]


class _Entry(Generic[Found]):
    """What was found of a model with these parts, once it is measured."""

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self.parts = parts
        self.lock = Lock()
        self.found: list[Found] = []  # of one, or none yet

    def is_of(self, parts: tuple[Any, ...]) -> bool:
        """Return whether a model with these parts gives the same figures."""
        return all(own is other for own, other in zip(self.parts, parts, strict=True))
