"""The table of costs: ratios are to the vanilla network's times, works take turns, BBSE solves for the prior."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
pytest.importorskip("imblearn", reason="the extra 'experiments' is not installed")
torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from experiments import efficiency
from experiments.one_thread import one_thread
from obil.arrays import FloatArray

CONFIG = tomllib.loads((Path(efficiency.__file__).parent / "efficiency.toml").read_text())
SETTINGS: dict[str, Any] = CONFIG["settings"]


def seconds() -> dict[str, float]:
    """Made-up times of everything."""
    found = {"solve": 2e-5, "score and solve": 3e-3, "rounds.RUSBoost, 50 stumps": 2, "rounds.RUSBoost, 10 networks": 9}
    for i, name in enumerate(SETTINGS["models"]):
        found |= {f"train.{name}": 4.0 + i, f"row.{name}": 2e-4 * (1 + i), f"block.{name}": 1e-6 * (1 + i)}
        for tracker in efficiency.TRACKERS.get(name, ()):
            found |= {f"adapt row.{name}, {tracker}": 5e-6, f"adapt block.{name}, {tracker}": 2e-7}
    return found


def test_times_are_held_against_those_of_the_vanilla_network() -> None:
    found = efficiency.figures([({}, seconds())], SETTINGS)
    assert found["train.SMOTE over Vanilla"] == pytest.approx(5 / 4)
    assert found["row.SMOTE"] == pytest.approx(0.4)  # milliseconds
    assert found["block.SMOTE over Vanilla"] == pytest.approx(2.0)
    assert found["adapt row.OBIL paper, bank over Vanilla"] == pytest.approx(5e-6 / 2e-4)
    assert found["adapt block.OBIL paper, bank over Vanilla"] == pytest.approx(2e-7 / 1e-6)
    page = efficiency.table(found, SETTINGS)
    assert "| OBIL paper | 67 | 5.6 | 9 |" in page
    assert "takes 0.02 ms once they are scored" in page
    assert "| BBSE, posteriors |  | 0.005 |" in page


def test_every_model_is_timed() -> None:
    assert set(SETTINGS["models"]) == set(efficiency.FITS)


def test_works_take_turns_and_the_fastest_counts() -> None:
    order: list[str] = []
    found = efficiency.fastest({name: lambda name=name: order.append(name) for name in "ab"}, 3)
    assert order == ["a", "b"] * 3
    assert all(0.0 <= value < 1.0 for value in found.values())


class Named:
    """A network that names the posterior it is shown."""

    def predict_proba(self, rows: FloatArray) -> FloatArray:
        return rows


def test_obil_s_bbse_uses_the_network_s_own_posteriors_and_finds_the_prior() -> None:
    confusion = np.array([[0.9, 0.2], [0.1, 0.8]])
    box = efficiency.BlackBox(Named(), 0.1, confusion)
    tracker = box.tracker(50)
    tracker.update_many(box.log_ratios(np.tile(confusion @ [0.7, 0.3], (50, 1))))
    np.testing.assert_allclose(tracker.prior, [0.7, 0.3], rtol=1e-6)


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_a_short_run_times_every_work() -> None:
    models = ["Vanilla", "RUSBoost, 50 stumps", "BBSE", "OBIL paper"]
    short = {"single_rows": 5, "block_rows": 200, "batch_rows": 100, "repeats": 1}
    settings = SETTINGS | CONFIG["quick"] | short | {"models": models}
    if efficiency.missing(settings) is not None:
        pytest.skip("yeast4 is not at hand")
    (cell,) = efficiency.cells(settings)
    result = efficiency.run(cell, settings)
    assert all(value > 0.0 for value in result.values())
    figures = efficiency.figures([(cell, result)], settings)
    assert figures["train.Vanilla over Vanilla"] == 1.0
    assert "OBIL paper, bank" in efficiency.table(figures, settings)
