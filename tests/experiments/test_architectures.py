"""Networks on real sets, tiny: priors move as told, the figures add up, and what is saved serves as torch does."""

import numpy as np
import pytest

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
from experiments import architectures, runner
from obil.serving.ratio_model import Scores


def test_shifted_odds_leave_the_other_classes_in_proportion() -> None:
    prior = np.array([0.2, 0.5, 0.3])
    for factor in (10.0, 0.1):
        shifted = architectures.shifted_prior(prior, 1, factor)
        assert shifted.sum() == pytest.approx(1.0)
        assert shifted[1] / (1.0 - shifted[1]) == pytest.approx(factor * 1.0)
        assert shifted[0] / shifted[2] == pytest.approx(2.0 / 3.0)


def test_exact_ratios_recover_nearly_all_of_the_gain() -> None:
    """x ~ N(2.5 y, 1): 20 streams of 4,000 rows from 20,000, whose finite number is all that is inexact."""
    labels = np.repeat([0, 1], 10_000)
    x = np.random.default_rng(0).normal(2.5 * labels)
    log_ratios = np.stack([np.zeros_like(x), 2.5 * x - 2.5**2 / 2.0], axis=1)
    scores = Scores(log_ratios, log_ratios[:, None, None])
    settings = {"factor": 10.0, "n_rows": 4_000}
    for shift, true in (("up", 10.0 / 19.0), ("down", 1.0 / 91.0)):
        streams = [
            architectures.stream_losses(scores, labels, np.array([0.9, 0.1]), shift, seed, settings)
            for seed in range(20)
        ]
        static, tracked, told = (np.mean([stream[key] for stream in streams]) for key in ("static", "tracked", "true"))
        assert told < tracked < static
        assert (static - tracked) / (static - told) > 0.9
        assert np.mean([stream["found"] for stream in streams]) == pytest.approx(1.0, abs=0.15), true


def test_a_fraction_counts_only_where_the_gain_is_clear() -> None:
    def stream(shift: str, gain: float, recovered: float) -> dict[str, float | str]:
        return {"shift": shift, "static": 1.0, "true": 1.0 - gain, "tracked": 1.0 - recovered * gain, "found": 1.0}

    measured = [stream("up", 0.1, 0.9), stream("up", 0.11, 0.9), stream("down", 0.1, 0.1), stream("down", -0.09, 0.1)]
    result = {"accuracy": 1.0, "slope": 1.0, "served": 0.0, "served_log_ratios": 0.0}
    settings = {"tasks": ["cnn.tanh"]}
    figures = architectures.figures([({"task": "cnn.tanh"}, result | {"streams": measured})], settings)
    assert figures["least_recovered"] == pytest.approx(0.9)
    assert (figures["clear_gains"], figures["gains"]) == (1.0, 2.0)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["cnn.softmax", "transformer.tanh", "gnn.one_vs_rest"])
def test_a_saved_network_serves_without_torch_what_torch_gives(task: str) -> None:
    """Each is trained for a moment; `run` loads the saved model in a fresh interpreter and fails if it finds torch."""
    _, settings, _ = runner.load("architectures", quick=True)
    if reason := architectures.missing(settings):
        pytest.skip(reason)
    architecture = architectures.TASKS[task].architecture
    tiny = settings[architecture] | {"training": settings[architecture]["training"] | {"epochs": 1}}
    settings |= {"streams": 1, "n_rows": 200, architecture: tiny}
    if architecture == "cnn":
        tiny["n_rows"] = 600
    result = architectures.run({"task": task, "fit": 0}, settings)
    assert result["served"] < 1e-6
    assert result["served_log_ratios"] < 2e-6
    assert len(result["streams"]) == 2
