"""`obil stream` decides row by row what `OnlineClassifier` decides, and resumes exactly after any interruption."""

import csv
import gzip
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner, Result

import obil
from obil.cli.main import app
from obil.online.batch_invariant_scores import batch_invariant_scores
from obil.online.state.checkpoint import MAGIC, SUM_BYTES, _checksum, read_checkpoint
from obil.serving.columns import ColumnEncoder
from obil.serving.ratio_model import RatioModel
from tests.online.state.damaged import with_field, with_pending, with_settings, with_settings_text

FEATURES = ["age", "dose", "ward"]


def draw_table(n_rows: int, prior: float, *, seed: int) -> tuple[pd.DataFrame, Any]:
    """Rows of three features and an id, and their labels."""
    rng = np.random.default_rng(seed)
    sick = rng.random(n_rows) < prior
    table = pd.DataFrame(
        {
            "id": [f"p{row}" for row in range(n_rows)],
            "age": (50 + 10 * rng.normal(size=n_rows) + 8 * sick).round(3),
            "dose": (rng.normal(size=n_rows) + 1.5 * sick).round(4),
            "ward": np.where(rng.random(n_rows) < 0.3 + 0.3 * sick, "A", "B, new"),
        }
    )
    return table, np.where(sick, "yes", "no")


def save_model(folder: Path, *, seed: int = 0) -> Path:
    """A small model in a folder."""
    table, labels = draw_table(600, 0.2, seed=seed)
    encoder = ColumnEncoder.fit(table, names=FEATURES)
    fitted = obil.RatioClassifier(LogisticRegression()).fit(encoder.encode(table), labels)
    obil.save(fitted.with_encoder(encoder), folder)
    return folder


SERVER = """
import json, os, sys
import obil.cli.main, obil.cli.arriving, obil.cli.decision_log, obil.cli.tables, obil.datasets.table_stream
import obil.estimators.table_fit, obil.serving.files, obil.online.state.checkpoint, obil.online.batch_invariant_scores
import skops.io, sklearn.linear_model
obil.trackers.BayesBank(0.1)
obil.load(sys.argv[1])
while line := sys.stdin.readline():
    request = json.loads(line)
    pid = os.fork()
    if pid == 0:
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            os.dup2(os.open(request.get(name, os.devnull), flags), number)
        sys.stdin = open(0, closefd=False)
        code = 99
        try:
            obil.cli.main.app(request["args"])
        except SystemExit as stopped:
            code = stopped.code or 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    print(pid, flush=True)
    sys.stdin.readline()  # until somebody waits for it, the process id is not given to another
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Launcher:
    """Starts real processes of `obil` fast: forks of one that has imported everything."""

    def __init__(self, model: Path) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(model)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, args: list[str], **files: str) -> int:
        """Start `obil` and return its process id; `files` are paths for stdin, stdout, stderr."""
        return self._ask({"args": args, **files})

    def wait(self) -> int:
        """Return the exit code of the process started last, negative for a signal."""
        return self._ask("wait")

    def close(self) -> None:
        self._server.communicate()

    def _ask(self, request: Any) -> int:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("stream") / "model")


@pytest.fixture(scope="module")
def launcher(model: Path) -> Iterator[Launcher]:
    launcher = Launcher(model)
    yield launcher
    launcher.close()


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return draw_table(700, 0.05, seed=1)[0]


@pytest.fixture
def data(table: pd.DataFrame, tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture
def run(model: Path, tmp_path: Path) -> Callable[..., Result]:
    """Run `obil stream model ...` with its output in out.csv and its state in today.state."""

    def run(data: Path | str, *options: str, out: str | None = None, folder: Path = model, **kwargs: Any) -> Result:
        paths = ["--out", out or str(tmp_path / "out.csv"), "--state", str(tmp_path / "today.state")]
        result = CliRunner().invoke(app, ["stream", str(folder), str(data), *paths, *options], **kwargs)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def refused(result: Result, *expected: str) -> None:
    """One line that holds these texts, exit code 2."""
    assert result.exit_code == 2, result.output
    lines = result.stderr.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("Error: ")
    assert len(lines[0]) < 600
    for text in expected:
        assert text in lines[0]


def decided(model: Path, table: pd.DataFrame, **settings: Any) -> Any:
    return obil.OnlineClassifier(obil.load(model), **settings).decide_many(table)


def part(data: Path, n_rows: int, name: str = "part.csv") -> Path:
    """The first rows of a table."""
    lines = data.read_text().splitlines(keepends=True)
    path = data.with_name(name)
    path.write_text("".join(lines[: n_rows + 1]))
    return path


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_writes_what_the_online_classifier_decides(
    run: Callable[..., Result], data: Path, model: Path, table: pd.DataFrame, tmp_path: Path
) -> None:
    result = run(data, "--keep", "id,age", "--cost-fn", "5", "--prior", ".1")
    assert result.exit_code == 0, result.output
    costs = obil.Costs(false_positive=1, false_negative=5)
    expected = decided(model, table, costs=costs, prior=0.1)
    found = pd.read_csv(tmp_path / "out.csv")
    names = [
        "row",
        "label",
        "posterior",
        "effective_prior",
        "log_ratio",
        "threshold",
        "trusted",
        "reachable",
        "id",
        "age",
    ]
    assert found.columns.tolist() == names
    assert found["row"].tolist() == list(range(len(table)))
    assert found["label"].tolist() == expected.labels.tolist()
    # 1e-9: a linear model's last bits depend on how many rows are scored at once
    np.testing.assert_allclose(found["posterior"], expected.posteriors[:, 1], rtol=1e-9)
    np.testing.assert_allclose(found["effective_prior"], expected.effective_priors[:, 1], rtol=1e-9)
    np.testing.assert_allclose(found["log_ratio"], expected.log_ratios[:, 1], rtol=1e-9)
    np.testing.assert_allclose(found["threshold"], expected.thresholds, rtol=1e-9)
    assert found["id"].tolist() == table["id"].tolist()
    assert found["age"].tolist() == table["age"].tolist()
    alerts = int((expected.labels == "yes").sum())
    assert f"700 rows, {alerts} alerts" in result.stderr
    assert "prior of yes: 0.1 -> " in result.stderr
    assert "90 % interval" in result.stderr
    assert result.stdout == ""


def test_bits_are_those_of_deciding_the_batch_invariant_scores(
    run: Callable[..., Result], data: Path, model: Path, table: pd.DataFrame, tmp_path: Path
) -> None:
    run(data)
    loaded = obil.load(model)
    scores = batch_invariant_scores(loaded, table, first_row=0)
    expected = obil.OnlineClassifier(loaded).decide_scores(scores)
    with (tmp_path / "out.csv").open() as file:
        found = list(csv.DictReader(file))
    assert [float(row["effective_prior"]) for row in found] == expected.effective_priors[:, 1].tolist()
    assert [float(row["posterior"]) for row in found] == expected.posteriors[:, 1].tolist()


def dated(table: pd.DataFrame, path: Path) -> tuple[Path, pd.Series]:
    """Write a table with a column of times, an hour apart, that the model does not have; one of them is missing."""
    times = pd.Series(pd.date_range("2024-02-01", periods=len(table), freq="h"))
    cells = times.dt.strftime("%Y-%m-%d %H:%M").where(np.arange(len(table)) != 5, "")
    table.assign(seen=cells).to_csv(path, index=False)
    return path, times.where(np.arange(len(table)) != 5)


def test_labels_learn_from_when_rows_came(
    run: Callable[..., Result], model: Path, table: pd.DataFrame, tmp_path: Path
) -> None:
    path, times = dated(table, tmp_path / "dated.csv")
    options = ("--at", "seen", "--horizon", "1000")
    assert run(part(path, 300), *options).exit_code == 0
    assert run(path, *options).exit_code == 0  # it resumes
    loaded = obil.load(model)
    online = obil.OnlineClassifier(loaded, horizon=1_000)
    online.decide_scores(batch_invariant_scores(loaded, table, first_row=0, at=times.to_numpy()))
    state = read_checkpoint(tmp_path / "today.state").online
    assert state == online.state()
    season = online._ledger._inputs[: len(table), -8:]
    assert season.any(axis=1).sum() == len(table) - 1
    assert not season[5].any()


def test_a_time_that_is_none_is_named_and_changes_nothing(
    run: Callable[..., Result], table: pd.DataFrame, tmp_path: Path
) -> None:
    rows = table.head(20).assign(seen="2024-01-01", when=["1e9"] * 20)
    rows.loc[7, "seen"] = "01/02/2024"
    rows.to_csv(tmp_path / "dated.csv", index=False)
    refused(run(tmp_path / "dated.csv", "--at", "seen"), "row 7", "'seen'", "01/02/2024")
    refused(run(tmp_path / "dated.csv", "--at", "date"), "date")
    assert run(tmp_path / "dated.csv", "--at", "when", out=str(tmp_path / "other.csv")).exit_code == 2  # another output
    (tmp_path / "today.state").unlink()
    assert run(tmp_path / "dated.csv", "--at", "when", out=str(tmp_path / "other.csv")).exit_code == 0


@pytest.mark.parametrize("size", [1, 7, 64, 100])
def test_batch_invariant_scores_do_not_depend_on_how_rows_are_cut(model: Path, table: pd.DataFrame, size: int) -> None:
    loaded: RatioModel = obil.load(model)
    whole = batch_invariant_scores(loaded, table, first_row=5)
    parts = [
        batch_invariant_scores(loaded, table.iloc[start : start + size], first_row=5 + start)
        for start in range(0, len(table), size)
    ]
    assert np.array_equal(np.concatenate([part.log_ratios for part in parts]), whole.log_ratios)
    assert np.array_equal(np.concatenate([part.evidence for part in parts]), whole.evidence)
    np.testing.assert_allclose(whole.log_ratios, loaded.log_ratios(table), rtol=1e-9)


@pytest.mark.parametrize("every", ["1", "13", "100000"])
def test_output_does_not_depend_on_the_checkpoints(
    run: Callable[..., Result], data: Path, tmp_path: Path, every: str
) -> None:
    short = part(data, 150)
    assert run(short, "--checkpoint-every", every).exit_code == 0
    first = (tmp_path / "out.csv").read_bytes()
    (tmp_path / "today.state").unlink()
    assert run(short, "--overwrite").exit_code == 0
    assert (tmp_path / "out.csv").read_bytes() == first


def test_summary_as_json(run: Callable[..., Result], data: Path, table: pd.DataFrame) -> None:
    summary = json.loads(run(data, "--json").stdout)
    assert summary["rows"] == summary["rows_this_run"] == len(table)
    assert sum(summary["decided"].values()) == len(table)
    assert summary["alerts"] == summary["decided"]["yes"]
    low, high = summary["interval_90"]["yes"]
    assert low < summary["prior"]["yes"] < high


def test_positive_turns_the_ratio_and_the_prior_round(run: Callable[..., Result], data: Path, tmp_path: Path) -> None:
    assert run(data, "--positive", "no", "--prior", ".9", "--policy", "f1").exit_code == 0
    found = pd.read_csv(tmp_path / "out.csv")
    assert found["effective_prior"][0] == pytest.approx(0.9)
    assert ((found["log_ratio"] > found["threshold"]) == (found["label"] == "no")).all()


def test_three_classes_have_a_column_each(tmp_path: Path, run: Callable[..., Result]) -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, 400)
    rows = pd.DataFrame({"a": rng.normal(size=400) + labels, "b": rng.normal(size=400) - labels})
    encoder = ColumnEncoder.fit(rows)
    fitted = obil.RatioClassifier(LogisticRegression()).fit(encoder.encode(rows), labels).with_encoder(encoder)
    obil.save(fitted, tmp_path / "three")
    rows.to_csv(tmp_path / "in.csv", index=False)
    assert run(tmp_path / "in.csv", "--prior", "0=.2,1=.3,2=.5", folder=tmp_path / "three").exit_code == 0
    found = pd.read_csv(tmp_path / "out.csv")
    assert found[[f"effective_prior_{k}" for k in range(3)]].iloc[0].tolist() == pytest.approx([0.2, 0.3, 0.5])
    np.testing.assert_allclose(found[["posterior_0", "posterior_1", "posterior_2"]].sum(axis=1), 1.0)
    assert found["threshold"].isna().all()
    whole = (tmp_path / "out.csv").read_bytes()
    (tmp_path / "out.csv").unlink()
    (tmp_path / "today.state").unlink()
    for n_rows in (0, 1, 3, 200, 400):  # one more class, the same exactness
        result = run(part(tmp_path / "in.csv", n_rows), "--prior", "0=.2,1=.3,2=.5", folder=tmp_path / "three")
        assert result.exit_code == 0, result.output
    assert (tmp_path / "out.csv").read_bytes() == whole
    refused(run(tmp_path / "in.csv", "--policy", "f1", folder=tmp_path / "three"), "--positive")


def test_goes_on_when_the_input_grew(run: Callable[..., Result], data: Path, tmp_path: Path) -> None:
    assert run(data, "--keep", "id").exit_code == 0
    whole = (tmp_path / "out.csv").read_bytes()
    (tmp_path / "out.csv").unlink()
    (tmp_path / "today.state").unlink()
    for n_rows in (1, 2, 65, 300, 700, 700):
        result = run(part(data, n_rows), "--keep", "id")
        assert result.exit_code == 0, result.output
    assert (tmp_path / "out.csv").read_bytes() == whole
    assert "(0 in this run)" in result.stderr


def test_cuts_the_output_back_to_the_state(run: Callable[..., Result], data: Path, tmp_path: Path) -> None:
    assert run(part(data, 100)).exit_code == 0
    with (tmp_path / "out.csv").open("a") as file:
        file.write("100,yes,0.5,0.1,half a li")
    assert run(data).exit_code == 0
    resumed = (tmp_path / "out.csv").read_bytes()
    (tmp_path / "today.state").unlink()
    assert run(data, "--overwrite").exit_code == 0
    assert (tmp_path / "out.csv").read_bytes() == resumed


def test_live_input_goes_on_where_it_stopped(
    run: Callable[..., Result], data: Path, table: pd.DataFrame, tmp_path: Path
) -> None:
    assert run(data).exit_code == 0
    whole = (tmp_path / "out.csv").read_bytes()
    (tmp_path / "out.csv").unlink()
    (tmp_path / "today.state").unlink()
    for rows in (table.iloc[:300], table.iloc[300:]):
        assert run("-", "--live", input=rows.to_csv(index=False)).exit_code == 0
    assert (tmp_path / "out.csv").read_bytes() == whole


def test_reads_gzip_semicolons_and_decimal_commas(
    run: Callable[..., Result], data: Path, table: pd.DataFrame, tmp_path: Path
) -> None:
    assert run(data).exit_code == 0
    expected = (tmp_path / "out.csv").read_bytes()
    other = tmp_path / "in.csv.gz"
    other.write_bytes(gzip.compress(table.to_csv(index=False, sep=";", decimal=",").encode()))
    (tmp_path / "today.state").unlink()
    assert run(other, "--overwrite").exit_code == 0
    assert (tmp_path / "out.csv").read_bytes() == expected


def test_a_row_that_was_bad_stays_bad_when_resumed(run: Callable[..., Result], table: pd.DataFrame) -> None:
    rows = table.iloc[:4].astype({"age": object})
    rows["age"] = ["50,5", "51", "52", "53.5"]  # a decimal point after decimal commas
    text = rows.to_csv(index=False, sep=";", decimal=",")
    for _ in range(2):
        refused(run("-", input=text), "'53.5' in line 5", "standard input")


def test_decisions_go_to_standard_output(run: Callable[..., Result], data: Path, tmp_path: Path) -> None:
    assert run(data).exit_code == 0
    written = (tmp_path / "out.csv").read_text()
    (tmp_path / "today.state").unlink()
    result = run(data, out="-")
    assert (result.exit_code, result.stdout, result.stderr) == (0, written, "")


def test_a_header_alone_is_an_empty_stream(run: Callable[..., Result], data: Path, tmp_path: Path) -> None:
    assert run(part(data, 0)).exit_code == 0
    assert (tmp_path / "out.csv").read_text().count("\n") == 1


def test_kept_columns_that_clash_are_renamed(run: Callable[..., Result], table: pd.DataFrame, tmp_path: Path) -> None:
    rows = table.iloc[:3].assign(label=["x", "", 'with "quotes", and\nlines'])
    assert run("-", "--keep", "label", input=rows.to_csv(index=False)).exit_code == 0
    found = pd.read_csv(tmp_path / "out.csv", keep_default_na=False)
    assert found["label_kept"].tolist() == rows["label"].tolist()


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ("p9,old,1.0,A", ("'age'", "'old'", "line 7")),
        ("p9,50,1.0", ("4 fields", "line 7")),
        ("p9,50,1.0,A,more", ("4 fields", "line 7")),
        ("p9,,1.0,A", ("row 5 (from 0)", "NaN")),  # a logistic model takes no missing number
        ("p9,inf,1.0,A", ("row 5 (from 0)", "'age'")),
    ],
)
def test_a_bad_row_is_named_and_can_be_mended(
    run: Callable[..., Result], data: Path, tmp_path: Path, bad: str, expected: tuple[str, ...]
) -> None:
    short = part(data, 20)
    assert run(short).exit_code == 0
    whole = (tmp_path / "out.csv").read_bytes()
    (tmp_path / "out.csv").unlink()
    (tmp_path / "today.state").unlink()
    lines = short.read_text().splitlines()
    short.write_text("\n".join([*lines[:6], bad, *lines[7:]]))
    refused(run(short), *expected)
    assert (tmp_path / "out.csv").read_bytes() == b"".join(whole.splitlines(keepends=True)[:6])
    before = snapshot(tmp_path)
    refused(run(short), *expected)
    assert snapshot(tmp_path) == before
    short.write_text("\n".join(lines))
    assert run(short).exit_code == 0
    assert (tmp_path / "out.csv").read_bytes() == whole


def test_refusals_change_nothing(
    run: Callable[..., Result], data: Path, model: Path, tmp_path: Path, table: pd.DataFrame
) -> None:
    before = snapshot(tmp_path)
    refused(run(tmp_path / "absent.csv"), "absent.csv")
    refused(run(tmp_path), "folder")
    refused(run(data, folder=tmp_path / "no_model"), "no_model")
    refused(run(data, "--keep", "name"), "'name'")
    refused(run(data, "--positive", "maybe"), "maybe")
    refused(run(data, "--policy", "best"), "best")
    refused(run(data, "--policy", "f1", "--cost-fn", "3"), "--cost-fn")
    refused(run(data, "--cost-fn", "-3"), "-3")
    for wrong in ("x", "0", "1.5", "nan", "yes=.2", ".1,.2", "yes=.2,no=.9"):
        refused(run(data, "--prior", wrong))
    refused(run("-", input="age,dose\n1,2\n"), "'ward'")
    refused(run("-", input=""), "header")
    refused(run("-", input=b"PAR1" + bytes(20)), "parquet")
    refused(run(data, out=str(data)), "different")
    refused(run(data, out=str(tmp_path / "no" / "out.csv")), "folder")
    refused(run(data, out=str(tmp_path)), "folder")
    refused(run(data, out="/dev/null"), "--out must be a file")
    assert snapshot(tmp_path) == before


def test_a_model_without_column_names_is_refused(run: Callable[..., Result], data: Path, tmp_path: Path) -> None:
    rows, labels = draw_table(300, 0.3, seed=2)
    obil.save(obil.RatioClassifier(LogisticRegression()).fit(rows[["age", "dose"]].to_numpy(), labels), tmp_path / "m")
    refused(run(data, folder=tmp_path / "m"), "column names")


def test_an_output_without_a_state_is_kept(run: Callable[..., Result], data: Path, tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_text("years of work")
    refused(run(data), "--overwrite")
    assert (tmp_path / "out.csv").read_text() == "years of work"
    assert not (tmp_path / "today.state").exists()
    assert run(data, "--overwrite").exit_code == 0
    assert run(data, "--overwrite").exit_code == 0  # with a state it resumes all the same
    assert (tmp_path / "out.csv").read_text().startswith("row,label,")


def test_a_state_of_something_else_changes_nothing(
    run: Callable[..., Result], data: Path, tmp_path: Path, table: pd.DataFrame
) -> None:
    other = save_model(tmp_path / "other", seed=9)
    assert run(part(data, 200), "--keep", "id").exit_code == 0
    before = snapshot(tmp_path)
    refused(run(data, "--keep", "id", folder=other), "another model")
    refused(run(data), "columns")
    refused(run(data, "--keep", "id", "--prior", ".3"), "start prior")
    refused(run(data, "--keep", "id", "--cost-fn", "3"), "--change-policy")
    refused(run(data, "--keep", "id", "--positive", "no"), "positive")
    refused(run(part(data, 150, "less.csv"), "--keep", "id"), "only 150")
    (tmp_path / "less.csv").unlink()
    changed = table.assign(dose=table["dose"] + 1.0).to_csv(index=False)
    refused(run("-", "--keep", "id", input=changed), "row 199", "same input")
    assert snapshot(tmp_path) == before
    out = tmp_path / "out.csv"
    whole = out.read_bytes()
    for damaged in (whole[:-1], b"", b"x" * len(whole), whole[:-9] + b"000000000" + b"more"):
        out.write_bytes(damaged)
        refused(run(data, "--keep", "id"), "out.csv")
        assert out.read_bytes() == damaged
    out.unlink()
    refused(run(data, "--keep", "id"), "0 bytes")


def test_other_costs_take_effect_from_the_next_row_on(run: Callable[..., Result], data: Path, tmp_path: Path) -> None:
    assert run(part(data, 200)).exit_code == 0
    assert run(data, "--cost-fn", "20", "--change-policy").exit_code == 0
    found = pd.read_csv(tmp_path / "out.csv")
    added = found["threshold"] - np.log((1 - found["effective_prior"]) / found["effective_prior"])
    np.testing.assert_allclose(added[:200], 0.0, atol=1e-9)
    np.testing.assert_allclose(added[200:], -np.log(20.0), atol=1e-9)
    assert run(data, "--cost-fn", "20", "--change-policy").exit_code == 0


def resealed(change: Callable[[dict[str, Any]], Any]) -> Callable[[bytes, RatioModel], bytes]:
    """A damage of the line of JSON with a checksum that fits: what somebody hostile, not a bad disk, would write."""

    def damage(data: bytes, _: RatioModel) -> bytes:
        line, _, online = data[len(MAGIC) + SUM_BYTES :].partition(b"\n")
        head = json.loads(line)
        change(head)
        return sealed(json.dumps(head).encode() + b"\n" + online)

    return damage


def sealed(body: bytes) -> bytes:
    return MAGIC + _checksum(body) + body


def with_head(line: bytes) -> Callable[[bytes, RatioModel], bytes]:
    """A damage that has another line of JSON."""
    return lambda data, _: sealed(line + b"\n" + online_of(data))


def online_of(data: bytes) -> bytes:
    return data[len(MAGIC) + SUM_BYTES :].partition(b"\n")[2]


def with_online(change: Callable[[RatioModel, bytes], bytes]) -> Callable[[bytes, RatioModel], bytes]:
    """A damage of the state of the online classifier, whole again."""

    def damage(data: bytes, model: RatioModel) -> bytes:
        online = online_of(data)
        return sealed(data[len(MAGIC) + SUM_BYTES : -len(online)] + change(model, online))

    return damage


def field(name: str, place: Any, value: Any) -> Callable[[bytes, RatioModel], bytes]:
    """A damage of one number of the record."""
    return with_online(lambda model, online: with_field(model, online, name, place, value))


def settings(change: Callable[[dict[str, Any]], Any]) -> Callable[[bytes, RatioModel], bytes]:
    """A damage of the settings of the stream."""
    return with_online(lambda model, online: with_settings(model, online, change))


def of_rows(n_rows: int) -> Callable[[bytes, RatioModel], bytes]:
    """A damage by which checkpoint and stream agree on another number of rows."""
    both = resealed(lambda head: head.update(n_rows=n_rows, decided=[n_rows, 0]))
    return lambda data, model: both(field("counters.seen", 0, n_rows)(data, model), model)


Damage = Callable[[bytes, RatioModel], bytes]
HOSTILE: dict[str, Damage] = {
    "empty": lambda data, _: b"",
    "cut short": lambda data, _: data[: len(data) // 2],
    "its first line alone": lambda data, _: MAGIC,
    "no state": lambda data, _: b"state: 1",
    "something before it": lambda data, _: b"\xff\xfe\x00" + data,
    "something after it": lambda data, _: data + b"\0",
    "a state as it was": lambda data, _: b'{"kind": "obil_stream", "format": 2}',
    "one digit changed": lambda data, _: data.replace(b'"n_rows": 200', b'"n_rows": 201'),
    "one bit of the stream changed": lambda data, _: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
    "no checksum": lambda data, _: MAGIC + data[len(MAGIC) + SUM_BYTES :],
    "an older format": lambda data, _: data.replace(b"obil stream 4", b"obil stream 3"),
    "a newer format": lambda data, _: data.replace(b"obil stream 4", b"obil stream 5"),
    "not JSON": with_head(b"rows: 200"),
    "not text": with_head(b"\xff\xfe\x00"),
    "a list": with_head(b"[1, 2]"),
    "null": with_head(b"null"),
    "deep": with_head(b"[" * 200_000),
    "deep object": with_head(b'{"n_rows":' * 100_000),
    "endless number": with_head(b'{"n_rows": ' + b"9" * 100_000 + b"}"),
    "no line": lambda data, _: sealed(online_of(data)),
    "nothing sealed": lambda data, _: sealed(b""),
    "a field more": resealed(lambda head: head.update(code="import os")),
    "a field less": resealed(lambda head: head.pop("out_bytes")),
    "the stream as a field": resealed(lambda head: head.update(online="")),
    "NaN": resealed(lambda head: head.update(out_bytes=float("nan"))),
    "negative bytes": resealed(lambda head: head.update(out_bytes=-1)),
    "bytes as text": resealed(lambda head: head.update(out_bytes="12")),
    "bytes true": resealed(lambda head: head.update(out_bytes=True)),
    "huge bytes": resealed(lambda head: head.update(out_bytes=10**30)),
    "more bytes than there are": resealed(lambda head: head.update(out_bytes=10**9)),
    "fewer bytes": resealed(lambda head: head.update(out_bytes=head["out_bytes"] - 5)),
    "no bytes": resealed(lambda head: head.update(out_bytes=5, last_line_bytes=5)),
    "line longer than the file": resealed(lambda head: head.update(last_line_bytes=10**9)),
    "huge rows": resealed(lambda head: head.update(n_rows=10**40, decided=[10**40, 0])),
    "rows that do not add up": resealed(lambda head: head.update(n_rows=7)),
    "rows that the stream has not": resealed(lambda head: head.update(n_rows=7, decided=[7, 0])),
    "float rows": resealed(lambda head: head.update(n_rows=200.0)),
    "more rows than there are": of_rows(10**9),
    "fewer rows than there are": of_rows(7),
    "counts of three classes": resealed(lambda head: head["decided"].append(0)),
    "header of numbers": resealed(lambda head: head.update(header=[1, 2])),
    "a header that is not this one": resealed(lambda head: head["header"].append("x")),
    "a model as a number": resealed(lambda head: head.update(model=3)),
    "no stream": with_online(lambda model, online: b""),
    "a stream cut short": with_online(lambda model, online: online[:-1]),
    "a stream with more behind it": with_online(lambda model, online: online + b"\0"),
    "a stream of another version": with_online(lambda model, online: online[:8] + b"\2" + online[9:]),
    "a stream of another model": with_online(lambda model, online: online[:12] + bytes(16) + online[28:]),
    "no tracker": settings(lambda given: given.update(tracker=None)),
    "another tracker": settings(lambda given: given["tracker"].__setitem__(0, "FixedPrior")),
    "a tracker of ten million": settings(lambda given: given["tracker"][1].update(n_snapshots=10**7)),
    "a bank of ten million": settings(
        lambda given: given.update(tracker=["BayesBank", {"prior": [0.8, 0.2], "n_snapshots": 10**7}])
    ),
    "a prior of three": settings(lambda given: given["tracker"][1].update(prior=[0.1, 0.2, 0.7])),
    "a tracker without settings": settings(lambda given: given.update(tracker=["SafeTracker"])),
    "a tracker of settings alone": settings(lambda given: given.update(tracker={"prior": 0.2})),
    "positive beyond the classes": settings(lambda given: given.update(positive=10**6)),
    "positive of another type": settings(lambda given: given.update(positive=[1])),
    "policy a string": settings(lambda given: given.update(policy="f1")),
    "no monitor": settings(lambda given: given.update(monitor=None)),
    "a lenient monitor": settings(lambda given: given["monitor"].update(tolerance=9.0)),
    "unlabeled_as": settings(lambda given: given.update(unlabeled_as=0)),
    "settings a list": with_online(lambda model, online: with_settings_text(model, online, b"[1]")),
    "prior outside the simplex": field("tracker.prior", slice(None), [4.0, -3.0]),
    "a weight that is no number": field("tracker.fast.weights", (0, 0), float("nan")),
    "an infinite sum": field("tracker.fast.used", 0, float("inf")),
    "an index out of reach": field("tracker.fast.seen", 1, 10**6),
    "an index below 0": field("tracker.slow.seen", 1, -1),
    "a bet that is not fair": field("monitor.pays", (1, 0), 1e9),
    "a history of other rows": field("history.counts", 1, 3),
    "labels of other rows": with_online(
        lambda model, online: with_pending(model, online, lambda pending: pending._replace(next_row=100))
    ),
    "labels a string": with_online(lambda model, online: with_pending(model, online, lambda _: b"none")),
}


@pytest.fixture(scope="module")
def begun(model: Path, table: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a stream of which 200 rows are decided."""
    folder = tmp_path_factory.mktemp("begun")
    table.to_csv(folder / "in.csv", index=False)
    part(folder / "in.csv", 200)
    args = ["stream", str(model), str(folder / "part.csv"), "--out", str(folder / "out.csv")]
    assert CliRunner().invoke(app, [*args, "--state", str(folder / "today.state")]).exit_code == 0
    return folder


@pytest.mark.parametrize("damage", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_damaged_state_gives_one_line_and_changes_nothing(
    run: Callable[..., Result], begun: Path, model: Path, tmp_path: Path, damage: Damage
) -> None:
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    state = tmp_path / "today.state"
    damaged = damage(state.read_bytes(), obil.load(model))
    assert damaged != state.read_bytes()
    state.write_bytes(damaged)
    before = snapshot(tmp_path)
    refused(run(tmp_path / "in.csv"))
    assert snapshot(tmp_path) == before


def rows_in(model: Path, state: Path) -> int:
    """The rows of a checkpoint, of which the stream in it must have as many."""
    saved = read_checkpoint(state)
    assert obil.OnlineClassifier.from_state(obil.load(model), saved.online).n_rows == saved.n_rows
    return saved.n_rows


def fifo(path: Path) -> str:
    os.mkfifo(path)
    return str(path)


def line_within(reader: IO[bytes], seconds: float) -> bytes:
    ready, _, _ = select.select([reader], [], [], seconds)
    assert ready, "no decision though the row had arrived"
    return reader.readline()


def test_a_slow_input_is_answered_row_by_row_and_ctrl_c_leaves_a_state(
    launcher: Launcher, model: Path, data: Path, tmp_path: Path
) -> None:
    lines = data.read_bytes().splitlines(keepends=True)
    stdin, stdout, state = fifo(tmp_path / "stdin"), fifo(tmp_path / "stdout"), tmp_path / "today.state"
    args = ["stream", str(model), "-", "--out", "-", "--state", str(state), "--checkpoint-every", "1"]
    pid = launcher.start(args, stdin=stdin, stdout=stdout)
    with open(stdin, "wb", buffering=0) as writer, open(stdout, "rb", buffering=0) as reader:
        writer.write(lines[0] + lines[1])
        assert line_within(reader, 20.0).startswith(b"row,label")  # the model is loaded first
        assert line_within(reader, 1.0).startswith(b"0,")
        for row in range(1, 6):
            writer.write(lines[row + 1][:5])
            writer.write(lines[row + 1][5:])
            assert line_within(reader, 1.0).startswith(b"%d," % row)
        os.kill(pid, signal.SIGINT)
        assert launcher.wait() == 130
    assert rows_in(model, state) == 6


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_state_that_goes_on_exactly(
    launcher: Launcher, run: Callable[..., Result], model: Path, data: Path, tmp_path: Path, number: int
) -> None:
    lines = data.read_bytes().splitlines(keepends=True)
    stdin, stderr = fifo(tmp_path / "stdin"), tmp_path / "stderr"
    out, state = tmp_path / "out.csv", tmp_path / "today.state"
    args = ["stream", str(model), "-", "--out", str(out), "--state", str(state)]
    pid = launcher.start(args, stdin=stdin, stderr=str(stderr))
    with open(stdin, "wb", buffering=0) as writer:
        writer.write(b"".join(lines[:101]) + lines[101][:7])
        until(lambda: out.exists() and out.read_bytes().count(b"\n") == 101)
        os.kill(pid, number)
        assert launcher.wait() == 128 + number
    assert "100 rows" in stderr.read_text()
    assert "the same command resumes" in stderr.read_text()
    assert rows_in(model, state) == 100
    assert run(data).exit_code == 0
    found = out.read_bytes()
    state.unlink()
    assert run(data, "--overwrite").exit_code == 0
    assert out.read_bytes() == found


def test_a_pause_writes_the_state_and_a_second_writer_is_refused(
    launcher: Launcher, run: Callable[..., Result], model: Path, data: Path, tmp_path: Path
) -> None:
    stdin, out, state = fifo(tmp_path / "stdin"), tmp_path / "out.csv", tmp_path / "today.state"
    pid = launcher.start(["stream", str(model), "-", "--out", str(out), "--state", str(state)], stdin=stdin)
    with open(stdin, "wb", buffering=0) as writer:
        writer.write(b"".join(data.read_bytes().splitlines(keepends=True)[:31]))
        until(lambda: state.exists() and rows_in(model, state) == 30)
        refused(run(data), "one writer")
        os.kill(pid, signal.SIGKILL)
        assert launcher.wait() == -signal.SIGKILL
    assert out.read_bytes().count(b"\n") == 31


def until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_reader_that_goes_away_is_no_error(launcher: Launcher, model: Path, data: Path, tmp_path: Path) -> None:
    stdout, stderr = fifo(tmp_path / "stdout"), tmp_path / "stderr"
    launcher.start(["stream", str(model), str(data), "--out", "-"], stdout=stdout, stderr=str(stderr))
    with open(stdout, "rb", buffering=0) as reader:
        assert reader.read(3) == b"row"
    assert launcher.wait() in {0, 1}
    assert stderr.read_text() == ""


def test_help_names_the_guarantee() -> None:
    text = CliRunner().invoke(app, ["stream", "--help"]).output
    assert "--live" in text
    assert "--state" in text
