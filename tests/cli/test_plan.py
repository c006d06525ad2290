"""`obil plan` as a user runs it."""

import json
from pathlib import Path

import numpy as np
import pytest

import obil
from obil.cli.plan import priors_of
from obil.errors import InvalidInputError
from tests.cli.cases import obil as command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    labels = (rng.random(1_500) < 0.1).astype(int)
    model = obil.RatioClassifier.from_scores(rng.normal(size=1_500) + 2.0 * labels, labels)
    obil.save(model, tmp_path / "model")
    return tmp_path


def test_a_plan_is_printed_drawn_and_given_as_json(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    ran = command("plan", "model", "--prior", ".01:.1", "--labels", "50", "--cost-fn", "20", "--plot", "plan.png")
    assert "saves per 1,000 rows" in ran.stdout
    assert "50 labels" in ran.stdout
    assert "A false alarm costs 1, a miss 20." in ran.stdout
    assert (folder / "plan.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads(command("plan", "model", "--prior", ".02,.05", "--json").stdout)
    assert [one["prior"] for one in record["priors"]] == [0.02, 0.05]
    expected = obil.plan(obil.load(folder / "model"), priors=[0.02, 0.05]).to_json()
    assert record["delays"] == expected["delays"]
    assert record["priors"] == expected["priors"]


@pytest.mark.parametrize("text", ["", "a", "0.1:", "0", ".1,2", ".1:1"])
def test_priors_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"--prior must"):
        priors_of(text)
