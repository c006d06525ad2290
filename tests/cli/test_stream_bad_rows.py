"""Bad rows are left out of a stream and put aside: the others are decided as if the bad ones had never been there."""

import csv
import errno
import json
import os
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from obil.cli.main import app
from obil.online.state import checkpoint
from obil.online.state.checkpoint import read_checkpoint
from tests.cli.test_stream import draw_table, refused, save_model

N_ROWS = 900
BAD = ["x9,old,1.0,A", "x9,50,1.0", "x9,50,1.0,A,more", "x9,,1.0,A", "x9,inf,1.0,A", "x9,50,1-2,A"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("bad") / "model")


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """A table without a bad row, its header first."""
    return str(draw_table(N_ROWS, 0.05, seed=1)[0].to_csv(index=False)).splitlines(keepends=True)


@pytest.fixture
def run(model: Path, tmp_path: Path) -> Callable[..., Result]:
    def run(data: Path, *options: object, out: str = "out.csv") -> Result:
        args = ["stream", model, data, "--out", tmp_path / out, *options]
        result = CliRunner().invoke(app, [str(argument) for argument in args])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def with_bad(lines: list[str], places: list[int]) -> list[str]:
    """Insert a bad row of each kind in turn in front of these rows."""
    whole = lines[:1]
    for row, line in enumerate(lines[1:]):
        whole += [f"{BAD[turn % len(BAD)]}\n" for turn, place in enumerate(places) if place == row]
        whole.append(line)
    return whole


def written(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(lines))
    return path


PLACES = [*np.random.default_rng(5).integers(1, N_ROWS, 25).tolist(), 0, 0, 0, 400, 400, 400, 401, 401]


@pytest.mark.parametrize("options", [[], ["--by", "ward"], ["--keep", "id"]], ids=str)
def test_good_rows_are_decided_as_those_of_the_clean_table(
    run: Callable[..., Result], lines: list[str], tmp_path: Path, options: list[str]
) -> None:
    assert run(written(tmp_path / "clean.csv", lines), *options, out="clean_out.csv").exit_code == 0
    bad = with_bad(lines, PLACES)
    aside = tmp_path / "bad.csv"
    quarantined = ["--on-error", f"quarantine={aside}", "--max-bad", "5%"]
    ran = run(written(tmp_path / "in.csv", bad), *options, *quarantined, "--json")
    assert ran.exit_code == 3
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "clean_out.csv").read_bytes()
    summary = json.loads(ran.stdout)
    assert (summary["rows"], summary["left_out"], summary["left_out_this_run"]) == (N_ROWS, len(PLACES), len(PLACES))
    assert aside.stat().st_mode & 0o777 == 0o600

    with aside.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["obil_line", "obil_error", "id", "age", "dose", "ward"]
    numbers = [number for number, line in enumerate(bad, start=1) if line.startswith("x9,")]
    assert [int(row[0]) for row in rows] == numbers
    assert [",".join(row[2:]) for row in rows] == [bad[number - 1].strip() for number in numbers]
    assert sum("must hold numbers" in row[1] for row in rows) >= 2 * (len(PLACES) // len(BAD))
    assert all(f"line {row[0]}" in row[1] or "(from 0)" in row[1] for row in rows)

    for every, skip in ((13, 250), (10_000, 177)):  # the table grows: each run resumes
        for name in ("part.csv", "part.csv.state", "aside.csv"):
            (tmp_path / name).unlink(missing_ok=True)
        again = [*options, "--on-error", f"quarantine={tmp_path / 'aside.csv'}", "--max-bad", ".05"]
        for end in [*range(5, len(bad), skip), len(bad)]:
            grown = written(tmp_path / "grown.csv", bad[:end])
            assert run(grown, *again, "--checkpoint-every", every, out="part.csv").exit_code in {0, 2, 3}
        assert (tmp_path / "part.csv").read_bytes() == (tmp_path / "clean_out.csv").read_bytes()
        found = (tmp_path / "aside.csv").read_text().replace("grown.csv", "in.csv")
        assert found == aside.read_text()


def test_rows_that_are_skipped_are_counted_and_the_next_run_may_quarantine(
    run: Callable[..., Result], lines: list[str], tmp_path: Path
) -> None:
    data, aside = written(tmp_path / "in.csv", with_bad(lines, [30])), tmp_path / "bad.csv"
    ran = run(data, "--on-error", "skip")
    assert ran.exit_code == 3
    assert "1 bad rows were left out (0.11 %), the first of this run because column 'age'" in ran.stderr
    written(data, with_bad(lines, [30, 850]))
    assert run(data, "--on-error", f"quarantine={aside}").exit_code == 2  # another table
    written(data, [*with_bad(lines, [30]), BAD[0]])
    assert run(data, "--on-error", f"quarantine={aside}").exit_code == 3
    assert len(aside.read_text().splitlines()) == 2
    assert run(data).exit_code == 0  # no row of this run is bad
    saved = read_checkpoint(tmp_path / "out.csv.state")
    assert (saved.n_left_out, saved.left_out_bytes) == (2, aside.stat().st_size)
    aside.write_text("")
    refused(run(data, "--on-error", f"quarantine={aside}"), "has 0 bytes and the state needs")


def test_more_bad_rows_than_allowed_stop_the_stream_in_front_of_the_first_too_many(
    run: Callable[..., Result], lines: list[str], tmp_path: Path
) -> None:
    places = [*range(50, 250, 20), 300]  # ten of a thousand are allowed
    data, aside = written(tmp_path / "in.csv", with_bad(lines, places)), tmp_path / "bad.csv"
    quarantined = ["--on-error", f"quarantine={aside}"]
    refused(run(data, *quarantined), "11 of the first 1,000 rows are bad", "--max-bad 1%")
    assert len(aside.read_text().splitlines()) == 11
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 301
    assert run(data, *quarantined, "--max-bad", "2%").exit_code == 3
    assert len(aside.read_text().splitlines()) == 12
    assert len((tmp_path / "out.csv").read_text().splitlines()) == N_ROWS + 1


def test_a_column_that_is_wrong_is_an_error_and_not_a_hundred_bad_rows(
    run: Callable[..., Result], lines: list[str], tmp_path: Path
) -> None:
    aside = tmp_path / "bad.csv"
    options = ["--on-error", f"quarantine={aside}", "--max-bad", "100%"]
    data = tmp_path / "in.csv"
    for start in (0, 400):
        wrong = [line.replace(",", ",x", 1) if row > start else line for row, line in enumerate(lines)]
        refused(run(written(data, wrong), *options), "100 consecutive rows are bad", "'age'")
        assert not aside.exists() or aside.read_text() == ""
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 401
    few = [line.replace(",", ",x", 1) if row else line for row, line in enumerate(lines[:4])]
    refused(run(written(data, few), *options, out="few.csv"), "'age'", "line 2")  # no row is good
    assert not (tmp_path / "few.csv").exists()
    refused(run(written(data, ["id,age,dose\n", "1,2,3\n"]), *options, out="few.csv"), "'ward'")


@pytest.mark.parametrize("wrong", ["never", "skip=x", "quarantine", "quarantine="])
def test_wrong_options_are_refused(run: Callable[..., Result], lines: list[str], tmp_path: Path, wrong: str) -> None:
    data = written(tmp_path / "in.csv", lines)
    refused(run(data, "--on-error", wrong), "--on-error must be stop, skip or quarantine=FILE", wrong)
    refused(run(data, "--on-error", "skip", "--max-bad", "many"), "--max-bad", "'many'")
    refused(run(data, "--on-error", f"quarantine={tmp_path / 'out.csv'}"), "different files")
    (tmp_path / "work.csv").write_text("years of work")
    refused(run(data, "--on-error", f"quarantine={tmp_path / 'work.csv'}"), "no state belongs to it")
    assert (tmp_path / "work.csv").read_text() == "years of work"


@pytest.mark.parametrize("kind", ["out.csv", "bad.csv"])
def test_a_full_disk_is_named_and_the_stream_resumes(
    run: Callable[..., Result], lines: list[str], tmp_path: Path, kind: str
) -> None:
    if kind == "bad.csv":  # long rows that are put aside
        lines = [
            line.replace(",", f",{'x' * 4_000}", 1) if row in range(20, 45) else line for row, line in enumerate(lines)
        ]
    data = written(tmp_path / "in.csv", lines)
    options = ["--on-error", f"quarantine={tmp_path / 'bad.csv'}", "--max-bad", "5%", "--checkpoint-every", "100"]
    expected = run(data, *options, out="expected.csv")
    (tmp_path / "bad.csv").unlink(missing_ok=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, hard))
    try:
        refused(run(data, *options), f"{kind}: {os.strerror(errno.EFBIG)}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert run(data, *options).exit_code == expected.exit_code
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "expected.csv").read_bytes()


def test_a_disk_too_full_for_the_state_is_named_and_no_temporary_file_is_left(
    run: Callable[..., Result], lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = written(tmp_path / "in.csv", lines)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "pack_checkpoint", full)
        refused(run(data), "out.csv.state: No space left on device")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out.csv"]
    assert run(data).exit_code == 0
