"""The measurements behind docs/choosing.md run, and those with a closed form agree with it."""

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from experiments import choosing
from experiments.choices import backbone, costs, gradients
from experiments.choices.measures import draw_fresh
from experiments.gaussian_pair import GaussianPair
from obil.bayes.costs import Costs, log_threshold
from obil.datasets.gaussian_stream import GaussianClasses
from obil.errors import InvalidInputError
from obil.networks.losses import named_loss
from obil.networks.settings import Training
from obil.networks.training import TrainingRows, reproducible, train

CONFIG = tomllib.loads((Path(choosing.__file__).parent / "choosing.toml").read_text())
QUICK = CONFIG["settings"] | CONFIG["quick"] | {"n_rows": 600, "fresh_rows": 500, "gradient_epochs": 1}


def cell_of(part: str, settings: dict[str, Any], **wanted: Any) -> dict[str, Any]:
    for cell in choosing.cells(settings):
        if cell["part"] == part and all(cell.get(name) == value for name, value in wanted.items()):
            return cell
    pytest.skip(f"no data is at hand for {part} {wanted}")


@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        ("losses", {"data": "known", "loss": "printed_logistic"}),
        ("gradients", {"question": "slopes"}),
        ("gradients", {"question": "runs"}),
        ("costs", {}),
        ("backbone", {}),
        ("ensembles", {"family": "undersample"}),
    ],
)
def test_a_quick_cell_gives_finite_figures_and_a_table(part: str, wanted: dict[str, Any]) -> None:
    cell = cell_of(part, QUICK, **wanted)
    result = choosing.run(cell, QUICK)
    assert all(np.isfinite(value) for measures in result.values() for value in measures.values())
    figures = choosing.figures([(cell, result)], QUICK)
    assert len(figures) == 2 * sum(len(measures) for measures in result.values())
    assert "|" in choosing.table(figures, QUICK)


def test_the_table_names_what_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: Any) -> None:
        raise InvalidInputError("not at hand")

    monkeypatch.setattr(choosing, "load_named", nothing)
    monkeypatch.setattr(choosing, "load_fashion_mnist", nothing)
    assert {cell["part"] for cell in choosing.cells(QUICK)} == {"losses", "gradients", "costs"}
    assert "Left out, since the data was not at hand: mammography by loss" in choosing.table({}, QUICK)


def test_slopes_are_those_of_the_closed_forms() -> None:
    found = gradients.run({"question": "slopes"}, {"slope_losses": ["squared_error", "cross_entropy", "exponential"]})
    z = np.array([0.0, -2.0, -4.0, -6.0])
    o = np.tanh(z)
    expected = {"squared_error": (1 - o) * (1 - o**2), "cross_entropy": 1 - o, "exponential": np.exp(-z)}
    for loss, slopes in expected.items():
        np.testing.assert_allclose(list(found[loss].values()), slopes, rtol=1e-6)


@pytest.mark.parametrize("cost_ratio", [0.1, 10.0])
def test_the_excess_of_a_cost_counted_twice_is_that_of_the_closed_form(cost_ratio: float) -> None:
    # the two classes' noise in 400,000 rows gives the estimate a standard deviation below 1 % of the excess
    separation, prior = 2.5, 0.2
    fresh = draw_fresh(GaussianClasses.spread(separation, n_features=6), 400_000, 0)
    twice = fresh.log_ratios - np.array([0.0, np.log(cost_ratio)])
    pair, both = GaussianPair(separation), Costs(false_positive=cost_ratio, false_negative=1.0)
    threshold = log_threshold([1.0 - prior, prior], both)
    used = pair.expected_cost(threshold + np.log(cost_ratio), prior, both)
    excess = 100.0 * (used / pair.oracle_cost(prior, both) - 1.0)
    assert costs._excess(twice, fresh, cost_ratio, prior) == pytest.approx(float(excess), rel=0.05)
    assert costs._excess(fresh.log_ratios, fresh, cost_ratio, prior) == 0.0


def test_a_frozen_body_stays_as_it_was() -> None:
    rows, labels = torch.rand(40, 1, 28, 28), np.arange(40) % 2
    with reproducible(0):
        network = backbone.FrozenBody(1, channels=(2, 2), width=4)
    before = {name: values.clone() for name, values in network.state_dict().items()}
    data = TrainingRows.of(rows, labels, np.arange(40), np.ones(40), "cpu")
    rng = np.random.default_rng(0)
    network.train()
    train(network, data, loss=named_loss("cross_entropy"), settings=Training(epochs=1, least_steps=0), rng=rng)
    changed = {name for name, values in network.state_dict().items() if not torch.equal(values, before[name])}
    assert changed == {"hidden.weight", "hidden.bias", "output.weight", "output.bias"}


def test_every_figure_on_the_page_is_in_the_tables() -> None:
    docs = Path(choosing.__file__).parent.parent / "docs"
    page, _, _ = (docs / "choosing.md").read_text().partition("## Tried")  # what follows is from another study
    tables = (docs / "results" / "choosing.md").read_text()
    figures = set(re.findall(r"\d+\.\d+(?:e-\d+)?", page)) | set(re.findall(r"\d+%", page))
    assert len(figures) > 40
    assert not {figure for figure in figures if not re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", tables)}
