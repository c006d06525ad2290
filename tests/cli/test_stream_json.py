"""JSON lines are decided as the same rows of CSV, and come out as what CSV holds."""

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.cases import error_line, obil

N_ROWS = 200


@pytest.fixture
def lines(here: Path) -> list[str]:
    """The rows of new.csv as JSON lines, with missing numbers as null or left out."""
    found = []
    for number, record in enumerate(pd.read_csv(here / "new.csv").to_dict("records")):
        whole = {name: None if value != value else value for name, value in record.items()}  # NaN
        found.append(json.dumps({name: value for name, value in whole.items() if value is not None or number % 2}))
    return found


def test_rows_are_decided_as_those_of_csv_and_resume(here: Path, lines: list[str]) -> None:
    options = ["--keep", "id,pulse", "--checkpoint-every", "30"]
    assert obil("stream", "model", "new.csv", "--out", "whole.csv", *options).exit_code == 0
    for end in (1, 90, N_ROWS):
        (here / "rows.jsonl").write_text("\n".join(lines[:end]))
        assert obil("stream", "model", "rows.jsonl", "--out", "out.csv", *options).exit_code == 0
        assert obil("stream", "model", "rows.jsonl", "--out", "out.jsonl", *options).exit_code == 0
    assert (here / "out.csv").read_bytes() == (here / "whole.csv").read_bytes()
    found = [json.loads(line) for line in (here / "out.jsonl").read_text().splitlines()]
    expected = pd.read_csv(here / "whole.csv", dtype={"trusted": bool, "reachable": bool}, float_precision="round_trip")
    assert list(found[0]) == list(expected)
    for name in expected:
        values = [None if value != value else value for value in expected[name].tolist()]  # NaN
        assert [one[name] for one in found] == values, name
    assert "--keep the same" in error_line(obil("stream", "model", "rows.jsonl", "--out", "out.jsonl"))


def test_standard_input_and_output_are_both_json(here: Path, lines: list[str]) -> None:
    ran = obil("stream", "model", "-", "--out", "-", "--format", "jsonl", stdin="\n".join(lines).encode())
    assert ran.exit_code == 0
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [one["row"] for one in found] == list(range(N_ROWS))
    assert {type(one["posterior"]) for one in found} == {float}
    assert found[0]["trusted"] is True


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{", "must be a JSON object"),
        ("[1, 2]", "must be a JSON object"),
        ("17", "must be a JSON object"),
        ('{"size": [1]}', "'size' must be a number or a text"),
        ('{"size": "large"}', "'size' must hold numbers"),
        ("[" * 100_000, "must be a JSON object"),
    ],
    ids=lambda text: str(text)[:20],
)
def test_a_bad_line_is_named_and_put_aside_as_it_was(here: Path, lines: list[str], bad: str, reason: str) -> None:
    options = ["--keep", "id"]
    assert obil("stream", "model", "new.csv", "--out", "whole.csv", *options).exit_code == 0
    (here / "rows.jsonl").write_text("\n".join([*lines[:50], bad, "", *lines[50:]]) + "\n")
    command = ["stream", "model", "rows.jsonl", "--out", "out.csv", *options]
    line = error_line(obil(*command))
    assert reason in line
    assert "line 51 of rows.jsonl" in line
    assert obil(*command, "--on-error", "quarantine=bad.csv").exit_code == 3
    assert (here / "out.csv").read_bytes() == (here / "whole.csv").read_bytes()
    aside = pd.read_csv(here / "bad.csv", dtype={"obil_record": str})
    assert (aside["obil_line"].tolist(), aside["obil_record"].tolist()) == ([51], [bad])


def test_objects_without_a_field_of_the_model_are_refused(here: Path) -> None:
    (here / "rows.jsonl").write_text('{"other": 1}\n' * 3)
    assert "must have a field of size" in error_line(obil("stream", "model", "rows.jsonl", "--out", "out.csv"))
    assert "--format must be" in error_line(obil("stream", "model", "new.csv", "--out", "o.csv", "--format", "xml"))
