"""The comparison of fusions measures what it says."""

import numpy as np
import pytest

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
from experiments import fusion

RNG = np.random.default_rng(0)
LABELS = np.repeat([0, 1], [400, 40])
EXACT = RNG.normal(size=440) + 2.0 * LABELS


def test_weights_that_go_against_the_areas_correlate_negatively_and_a_backward_member_shows() -> None:
    scores = np.stack([EXACT, EXACT + RNG.normal(size=440), -30.0 * EXACT], axis=1)
    variances = np.tile([3.0, 2.0, 1.0], (440, 1))  # the worst has the least variance
    found = fusion.measured(scores, variances, LABELS, temperature=1.0)
    assert found["correlation"] == pytest.approx(-1.0)
    assert found["worst_weight"] > 0.5
    assert found["geometric"] < 0.1 < 0.5 < found["median"]
    assert found["without"] > 0.5
    assert found["best"] == max(found["areas"])


def test_figures_count_fits_and_the_table_names_every_fusion() -> None:
    good = fusion.measured(
        np.stack([EXACT, EXACT + RNG.normal(size=440)], axis=1), np.ones((440, 2)) * [1.0, 2.0], LABELS, 1.0
    )
    good["correlation"] = 1.0
    results = [({"set": "yeast4", "split": 0}, good), ({"set": "yeast4", "split": 1}, good | {"correlation": -0.5})]
    settings = {"sets": ["yeast4"], "splits": 2, "member": "paper"}
    figures = fusion.figures(results, settings)
    assert figures["negative"] == 1
    assert figures["correlation.mean"] == pytest.approx(0.25)
    page = fusion.table(figures, settings)
    assert all(text in page for text in fusion.FUSIONS.values())
    assert "negative in 1 of 2 fits" in page
