"""`obil report` writes a page, or one line and exit code 2 and nothing."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from obil.cli.main import app
from obil.estimators.ratio_classifier import RatioClassifier
from obil.serving.files import save


def table_of(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.3
    return pd.DataFrame({"score": rng.normal(2.0 * ill, 1.0), "ill": np.where(ill, "yes", "no")})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from sklearn.linear_model import LogisticRegression

    home = tmp_path_factory.mktemp("report")
    rows = table_of(400, 0)
    save(RatioClassifier(LogisticRegression(), random_state=0).fit(rows[["score"]], rows["ill"]), home / "model")
    holdout = table_of(400, 1)
    holdout.loc[:2, "ill"] = None
    holdout.to_csv(home / "holdout.csv", index=False)
    return home


def run(folder: Path, *options: str, table: str = "holdout.csv", target: str = "ill") -> tuple[int, str]:
    command = ["report", str(folder / "model"), str(folder / table), "--target", target, *options]
    ran = CliRunner().invoke(app, command)
    return ran.exit_code, ran.output


def test_a_page_is_written_and_its_path_printed(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    code, said = run(folder, "--out", str(out), "--cost-fn", "5")
    assert code == 0, said
    assert "3 unlabelled rows left out" in said
    assert f"Report: {out}" in said
    page = out.read_text(encoding="utf-8")
    assert "a miss costs 5" in page
    assert "397 labelled rows" in page
    assert [found.name for found in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("options", "table", "target", "said"),
    [
        ((), "missing.csv", "ill", "missing.csv"),
        ((), "holdout.csv", "sick", "sick"),
        (("--policy", "best"), "holdout.csv", "ill", "a policy must be one of"),
        (("--policy", "f1", "--cost-fn", "2"), "holdout.csv", "ill", "leave out --cost-fp"),
        (("--cost-fp", "-1"), "holdout.csv", "ill", "must cost more"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    folder: Path, tmp_path: Path, options: tuple[str, ...], table: str, target: str, said: str
) -> None:
    code, output = run(folder, "--out", str(tmp_path / "page.html"), *options, table=table, target=target)
    assert code == 2
    assert said in output
    assert len(output.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_an_output_that_cannot_be_written_is_refused_first(folder: Path, tmp_path: Path) -> None:
    for out in (tmp_path, tmp_path / "nowhere" / "page.html", folder / "holdout.csv"):
        code, output = run(folder, "--out", str(out))
        assert code == 2, output
        assert len(output.strip().splitlines()) == 1
    assert (folder / "holdout.csv").read_text().startswith("score")


def test_a_folder_that_is_no_model_is_refused(folder: Path, tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["report", str(tmp_path), str(folder / "holdout.csv"), "--target", "ill"])
    assert ran.exit_code == 2
    assert len(ran.output.strip().splitlines()) == 1
