"""A state that was written once stays readable, and its stream continues with the same decisions."""

import json

import numpy as np
import pytest

from obil.online.online_classifier import OnlineClassifier
from obil.online.state.stream_state import VERSION
from obil.serving.files import load
from tests.online.state.golden.make_stream_3 import HERE, MODEL, SETTINGS, after, before


def test_the_golden_states_are_of_this_version() -> None:
    assert VERSION == 3
    assert sorted(path.name for path in HERE.glob("*.state")) == ["bank_3.state", "safe_3.state"]


@pytest.mark.parametrize("name", SETTINGS)
def test_a_golden_state_is_read_and_its_stream_goes_on_as_it_did(name: str) -> None:
    state = (HERE / f"{name}_{VERSION}.state").read_bytes()
    assert len(state) < 20_000
    online = OnlineClassifier.from_state(load(MODEL), state)
    assert online.state() == state
    found, expected = after(online), json.loads((HERE / f"{name}_{VERSION}_expected.json").read_text())
    for part in ("effective_priors", "prior"):  # other versions of numpy and of the compiler may round otherwise
        np.testing.assert_allclose(found.pop(part), expected.pop(part), rtol=1e-9)
    assert found == expected


@pytest.mark.parametrize("name", SETTINGS)
def test_the_stream_of_a_golden_state_is_the_one_that_its_maker_describes(name: str) -> None:
    model = load(MODEL)
    made, golden = before(name, model), OnlineClassifier.from_state(model, (HERE / f"{name}_3.state").read_bytes())
    assert golden.n_rows == made.n_rows
    assert golden.label_counts == made.label_counts
    assert golden.policy.to_json() == made.policy.to_json()
    assert golden.monitoring_runs == made.monitoring_runs
    np.testing.assert_allclose(golden.prior, made.prior, rtol=1e-9)
