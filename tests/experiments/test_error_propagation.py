"""The bounds of the experiment are those of hand calculation, and its simulation knows nothing of them."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
from experiments import error_propagation
from experiments.paper_claims import RATIO_ERROR
from experiments.paper_formulas import ratio_error_bound
from experiments.plots import style


def settings() -> dict[str, Any]:
    config = tomllib.loads(Path(error_propagation.__file__).with_suffix(".toml").read_text())
    return config["settings"] | config["quick"]


@pytest.fixture(scope="module")
def results() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    own = settings()
    return [(cell, error_propagation.run(cell, own)) for cell in error_propagation.cells(own)]


def test_the_simulation_reaches_the_true_bound_and_never_passes_it() -> None:
    posteriors = np.array([0.2, 0.5, 0.8])
    worst = error_propagation.simulated_worst_errors(posteriors, 0.05, 5_000, prior=0.1, seed=0)
    bound = ratio_error_bound(posteriors, 0.05)
    assert (worst <= bound).all()
    np.testing.assert_allclose(worst, bound, rtol=0.01)


def test_the_ratio_s_relative_error_does_not_depend_on_the_prior() -> None:
    posteriors = np.array([0.3, 0.7])
    one, other = (
        error_propagation.simulated_worst_errors(posteriors, 0.1, 100, prior=prior, seed=0) for prior in (0.01, 0.6)
    )
    np.testing.assert_allclose(one, other)


def test_the_allowed_error_is_where_the_bound_is_met() -> None:
    for posterior in (0.1, 0.5, 0.9):
        allowed = error_propagation.largest_allowed_error(posterior, 0.15)
        assert float(ratio_error_bound(posterior, allowed)) == pytest.approx(0.15)


def test_the_printed_bound_fails_on_the_fraction_that_an_integral_gives(results: Any) -> None:
    """Of the area E - E^2 of the plane, E^2/2 + E (1/3 - E) lies left of 1/3; E is the largest error."""
    found = error_propagation.figures(results, settings())
    largest = settings()["largest_error"]
    area, left = largest - largest**2, largest / 3.0 - largest**2 / 2.0
    assert found["violated"] == pytest.approx(1.0 - left / area, abs=2e-3)
    assert found["first_violated"] == pytest.approx(1.0 / 3.0, abs=1.0 / settings()["landscape_points"])
    assert found["true.0.05.0.9"] == pytest.approx(0.05 / (0.9 * 0.05))
    assert found["printed.0.05.0.9"] == pytest.approx(0.05 / (0.09 + 0.05 * 0.8))
    assert found["true.0.05.0.5"] > RATIO_ERROR[0.05]  # the claim fails where it should hold best


def test_the_table_and_the_plot_are_made_of_the_record(results: Any) -> None:
    own = settings()
    record = {
        "figures": error_propagation.figures(results, own),
        "series": error_propagation.series(results, own),
        "settings": own,
    }
    assert "111.1%" in error_propagation.table(record["figures"], own)
    with style():
        assert set(error_propagation.plots(record)) == {"error_propagation"}
