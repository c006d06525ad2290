"""What a model was trained on is remembered beside it, and compared with what comes."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from obil import load, save
from obil.cli.training_table import FILE, TrainingTable
from obil.errors import ModelFileError
from obil.serving.columns import ColumnEncoder
from tests.cli.cases import obil, ward_rows, write_csv

SEEN = "of the 400 rows of train.csv are rows of the training table too"


def test_rows_that_the_model_was_fitted_on_are_noted_by_verify_and_report(here: Path) -> None:
    for command in ("verify", "report"):
        assert f"Note: 400 {SEEN}" in obil(command, "model", "train.csv", "--target", "ill").stderr
        assert "rows of the training table" not in obil(command, "model", "new.csv", "--target", "ill").stderr


def test_a_few_repeats_by_chance_are_not_noted(here: Path) -> None:
    write_csv(here / "new.csv", ward_rows(400, 0.3, seed=1) + ward_rows(400, 0.3, seed=0)[:3])
    assert "rows of the training table" not in obil("verify", "model", "new.csv", "--target", "ill").stderr


def test_a_recalibrated_model_still_knows_its_training_table(here: Path) -> None:
    assert obil("calibrate", "model", "new.csv", "--target", "ill").exit_code == 0
    assert SEEN in obil("verify", "model", "train.csv", "--target", "ill").stderr


def test_numbers_far_outside_the_training_table_are_counted(here: Path) -> None:
    rows = ward_rows(100, 0.3, seed=2)
    for place in (3, 50, 70):
        rows[place][1] = str(1_000.0 * float(rows[place][1]) + 500.0)
    write_csv(here / "rows.csv", rows)
    ran = obil("stream", "model", "rows.csv", "--out", "out.csv")
    assert "column 'size' is far outside the training table" in ran.stderr
    assert "in 3 of the 100 rows of this run" in ran.stderr
    assert "'pulse'" not in ran.stderr
    found = json.loads(obil("stream", "model", "rows.csv", "--out", "again.csv", "--json").stdout)["unusual"]
    assert found["far_outside"] == {"size": 3}


def test_nothing_is_said_of_a_model_without_its_training_table(here: Path) -> None:
    save(load("model"), "other")
    rows = ward_rows(50, 0.3, seed=2)
    rows[3][1] = "99999"
    write_csv(here / "rows.csv", rows)
    assert "Note: column" not in obil("stream", "other", "rows.csv", "--out", "out.csv").stderr
    assert "Note:" not in obil("verify", "other", "train.csv", "--target", "ill").stderr


def test_what_is_kept_can_be_read_again_and_a_damaged_file_is_refused(here: Path) -> None:
    known = TrainingTable.read(here / "model")
    assert known is not None
    assert set(known.limits) == {"size", "pulse"}
    manifest = json.loads((here / "model" / "manifest.json").read_text())
    (here / "model" / FILE).write_text("{}")
    with pytest.raises(ModelFileError, match="changed or cut short"):
        TrainingTable.read(here / "model")
    for damaged in (b"{}", b'{"limits": {}, "digests": "", "one_in": 1e999}', b'{"limits": {"size": [0]}}'):
        (here / "model" / FILE).write_bytes(damaged)
        manifest["files"][FILE] = sha256(damaged).hexdigest()
        (here / "model" / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(ModelFileError, match="damaged"):
            TrainingTable.read(here / "model")


def test_limits_lie_beyond_the_extremes_by_the_width_of_the_middle() -> None:
    table = {"a": np.append(np.linspace(0.0, 1.0, 1_000), 50.0), "b": np.full(1_001, np.nan), "c": np.full(1_001, 2.0)}
    limits = TrainingTable.of(table, ColumnEncoder.fit(table)).limits
    assert limits["a"] == pytest.approx((-0.98, 50.98), abs=0.01)
    assert "b" not in limits  # JSON has no infinity
    assert limits["c"] == (2.0, 2.0)


def test_zeros_and_missing_values_of_either_sign_are_the_same_row() -> None:
    values = np.linspace(1.0, 2.0, 100)
    table = {"a": np.append([0.0, np.nan], values), "b": np.append([1.0, 1.0], values)}
    encoder = ColumnEncoder.fit(table)
    assert TrainingTable.of(table, encoder).n_seen({"a": np.array([-0.0, -np.nan]), "b": np.ones(2)}, encoder) == 2


def test_a_long_table_is_sampled_and_rows_that_repeat_by_themselves_are_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("obil.cli.training_table.MOST_DIGESTS", 500)
    rng = np.random.default_rng(0)
    table = {"a": rng.normal(size=5_000), "b": rng.normal(size=5_000)}
    encoder = ColumnEncoder.fit(table)
    known = TrainingTable.of(table, encoder)
    assert known.one_in == 10
    assert 350 < len(known.digests) < 650  # the standard deviation is 21
    half = {name: np.append(values[:1_000], rng.normal(size=1_000)) for name, values in table.items()}
    assert 600 < known.n_seen(half, encoder) < 1_400  # 95
    parts = [{name: values[first : first + 100] for name, values in table.items()} for first in range(0, 5_000, 100)]
    assert max(known.n_seen(part, encoder) for part in parts) == 100  # no more than there are
    flags = {name: (values > 0.0).astype(float) for name, values in table.items()}
    assert TrainingTable.of(flags, ColumnEncoder.fit(flags)).digests.size == 0
