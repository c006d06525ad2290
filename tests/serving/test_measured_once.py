"""A model is measured once, whoever asks, and again where something that is measured differs."""

import gc
import threading
from dataclasses import replace
from weakref import ref

import pytest

from obil.estimators.ratio_classifier import RatioClassifier
from obil.serving.measured_once import MeasuredOnce
from obil.serving.ratio_model import RatioModel
from obil.serving.tracker_advice import TrackerAdvice


def small_model() -> RatioModel:
    return RatioClassifier.from_scores([-2.0, -1.0, 1.0, -1.0, 1.0, 2.0] * 10, [0, 0, 0, 1, 1, 1] * 10).model_


class Counting:
    """Counts how often it measures; waits each time until released."""

    def __init__(self) -> None:
        self.measured: list[RatioModel] = []
        self.begun, self.released = threading.Event(), threading.Event()

    def __call__(self, model: RatioModel) -> int:
        self.measured.append(model)
        self.begun.set()
        assert self.released.wait(10.0)
        return len(self.measured)


def test_threads_that_ask_at_once_wait_for_the_first_and_get_the_same() -> None:
    model, measure, found = small_model(), Counting(), list[int]()
    once = MeasuredOnce(measure)
    threads = [threading.Thread(target=lambda: found.append(once.of(model))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert measure.begun.wait(10.0)
    measure.released.set()
    for thread in threads:
        thread.join(10.0)
    assert found == [1] * 4
    assert len(measure.measured) == 1


def test_another_model_need_not_wait() -> None:
    first, second, measure = small_model(), small_model(), Counting()
    once: MeasuredOnce[object] = MeasuredOnce(lambda model: measure(model) if model is first else "second")
    waiting = threading.Thread(target=once.of, args=(first,))
    waiting.start()
    assert measure.begun.wait(10.0)
    assert once.of(second) == "second"
    measure.released.set()
    waiting.join(10.0)


def test_advice_changes_nothing_that_is_measured_and_other_parts_do() -> None:
    model, measure = small_model(), Counting()
    measure.released.set()
    once = MeasuredOnce(measure)
    assert once.of(model) == once.of(model.with_advice(TrackerAdvice("fast"))) == 1
    assert once.of(replace(model, prior_=model.prior_[::-1].copy())) == 2
    assert once.of(model.with_rows_in(model.holdout_.labels.argsort())) == 3
    assert once.of(model) == 1


def test_what_fails_is_tried_again() -> None:
    answers = iter([ValueError("once"), "measured"])

    def measure(model: RatioModel) -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    once, model = MeasuredOnce(measure), small_model()
    with pytest.raises(ValueError, match="once"):
        once.of(model)
    assert once.of(model) == "measured"


def test_what_was_found_goes_with_the_model() -> None:
    model, once = small_model(), MeasuredOnce(lambda model: {"of": model.classes_.tolist()}.keys())
    once.of(model)
    alive = ref(model.holdout_)
    del model
    gc.collect()
    assert alive() is None
    assert len(once._entries) == 0
