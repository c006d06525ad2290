"""`obil plan` as a user runs it."""

import json
from pathlib import Path

import numpy as np
import pytest

import obil
from obil.cli.plan import priors_of
from obil.errors import InvalidInputError
from obil.evaluation.plan_plot import draw_plan
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


def test_a_prior_that_no_number_of_rows_shows_is_drawn_too(folder: Path) -> None:
    plan = obil.plan(obil.load(folder / "model"), priors=[2e-6])
    assert (plan.priors[0].rows_to_know, plan.priors[0].rows_to_save) == (None, None)
    draw_plan(plan, folder / "plan.png")
    assert (folder / "plan.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--plot", "none/plan.png"), "--plot must lie in a folder that exists, got none/plan.png"),
        (("--plot", "model"), "--plot must be a file, and model is a folder"),
        (("--seed", "-1"), "--seed"),
        (("--labels", "0"), "--labels"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name_before_the_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch, option: tuple[str, str], message: str
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("obil.evaluation.plan.plan", None)
    ran = command("plan", "model", *option)
    assert ran.exit_code in (1, 2)
    assert message in ran.stderr


@pytest.mark.parametrize("text", ["", "a", "0.1:", "0", ".1,2", ".1:1"])
def test_what_is_no_prior_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"--prior must"):
        priors_of(text)
