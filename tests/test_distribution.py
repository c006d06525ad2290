"""What is released: files that say how, a wheel and a source archive, and the commands of a fresh installation."""

import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import obil

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pythons_of(classifiers: list[str]) -> list[str]:
    return [found[1] for one in classifiers if (found := re.search(r":: (3\.\d+)$", one))]


def workflow(name: str) -> dict:
    return yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())


def test_the_workflow_tests_each_python_that_the_package_claims() -> None:
    core = workflow("tests")["jobs"]["core"]
    assert core["runs-on"] == "${{ matrix.os }}"
    matrix = core["strategy"]["matrix"]
    claimed = pythons_of(PROJECT["classifiers"])
    assert matrix["python"] == claimed == ["3.11", "3.12", "3.13", "3.14"]
    assert PROJECT["requires-python"] == f">={claimed[0]}"
    systems = {*matrix["os"], *(one["os"] for one in matrix["include"])}
    assert systems == {"ubuntu-latest", "macos-latest", "windows-latest"}


def test_a_release_is_published_without_a_password_and_only_from_a_tag() -> None:
    release = workflow("release")
    assert release[True] == {"push": {"tags": ["v*"]}}  # YAML reads the key "on" as true
    assert release["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert "password" not in (ROOT / ".github/workflows/release.yml").read_text().replace("no password", "")


@pytest.mark.parametrize("name", ["CITATION.cff", ".pre-commit-config.yaml", ".github/ISSUE_TEMPLATE/bug_report.yml"])
def test_files_that_other_tools_read_are_yaml(name: str) -> None:
    assert isinstance(yaml.safe_load((ROOT / name).read_text()), dict)


def test_the_citation_and_the_changelog_are_of_this_version() -> None:
    assert str(yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]) == obil.__version__
    newest = re.search(
        r"^## (\S+) \((unreleased|\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert newest is not None
    assert newest[1] == obil.__version__


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    return folder


@pytest.mark.slow
def test_wheel_and_source_archive_hold_the_package_its_page_and_its_licences(built: Path) -> None:
    [wheel], [archive] = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    assert "obil/py.typed" in names
    assert "obil/service/page/index.html" in names
    assert any(name.endswith("licenses/src/obil/service/page/uplot/LICENSE") for name in names)
    assert not any(name.startswith(("tests", "experiments", "benchmarks")) or name.endswith(".nbc") for name in names)
    with tarfile.open(archive) as file:
        inside = {name.split("/", 1)[1] for name in file.getnames() if "/" in name}
    assert {"pyproject.toml", "README.md", "CITATION.cff", "LICENSE", "src/obil/__init__.py"} <= inside


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_empty_environment_with_the_wheel_alone_runs_the_commands(built: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "fresh", with_pip=True)
    scripts = tmp_path / "fresh" / ("Scripts" if sys.platform == "win32" else "bin")
    [wheel] = built.glob("*.whl")
    pip = [scripts / "python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel]
    installed = subprocess.run(pip, capture_output=True, text=True, timeout=400, check=False)
    if installed.returncode:
        pytest.skip(f"the dependencies cannot be installed here: {installed.stderr[-200:]}")
    labels = np.random.default_rng(0).random(2_000) < 0.1
    values = np.random.default_rng(1).normal(labels[:, None] * 1.5, size=(2_000, 4))
    rows = pd.DataFrame(values, columns=[*"abcd"]).assign(fraud=labels.astype(int))
    rows.to_csv(tmp_path / "train.csv", index=False)
    rows.drop(columns="fraud").to_csv(tmp_path / "new.csv", index=False)

    def run(*arguments: str) -> str:
        done = subprocess.run([scripts / "obil", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"obil {arguments}: {done.stdout[-1_000:]} {done.stderr[-2_000:]}"
        return done.stdout

    assert obil.__version__ in run("--version")
    assert "stream" in run("--help")
    run("fit", "train.csv", "--target", "fraud", "--out", "model")
    run("stream", "model", "new.csv", "--out", "decisions.csv")
    assert len(pd.read_csv(tmp_path / "decisions.csv")) == 2_000
