"""The fixed prior never moves."""

import numpy as np
import pytest

from obil.trackers import FixedPrior
from tests.trackers.cases import start_prior, stream


@pytest.mark.parametrize("n_classes", [2, 5])
def test_every_row_is_decided_with_the_start_prior(n_classes: int) -> None:
    tracker = FixedPrior(start_prior(n_classes))
    priors = tracker.update_many(stream(300, n_classes, seed=0))
    np.testing.assert_allclose(priors, np.tile(start_prior(n_classes), (300, 1)), atol=1e-15)
    assert (priors == tracker.prior).all()


def test_it_has_no_interval() -> None:
    assert FixedPrior(0.1).interval() is None
