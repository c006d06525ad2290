"""One small model and one small table for all the tests of the commands."""

import os
import shutil
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # boosters in the tests are small: threads would only wait

from tests.cli.cases import obil, ward_rows, write_csv  # the setting has to come first


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.csv and model/, fitted on it without the ward; never changed by a test."""
    folder = tmp_path_factory.mktemp("saved")
    write_csv(folder / "train.csv", ward_rows(400, 0.3, seed=0))
    options = ["--target", "ill", "--positive", "yes", "--model", "logistic", "--drop", "score,id"]
    result = obil("fit", folder / "train.csv", *options, "--out", folder / "model")
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def here(tmp_path: Path, saved: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own to work in, with a copy of model/, train.csv and new.csv."""
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    write_csv(tmp_path / "new.csv", ward_rows(200, 0.3, seed=1))
    monkeypatch.chdir(tmp_path)
    return tmp_path
