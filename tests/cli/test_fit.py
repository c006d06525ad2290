"""`obil fit` makes a model of a table as people keep them."""

import gzip
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import obil as package
from obil.estimators.named_models import MODELS
from tests.cli.cases import HEADER, obil, ward_rows, write_csv


def fitted(*arguments: object) -> dict[str, object]:
    result = obil("fit", *arguments, "--json")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert isinstance(record, dict)
    return record


def test_categories_missing_values_semicolons_and_decimal_commas_give_a_model_that_separates(tmp_path: Path) -> None:
    rows = ward_rows(300, 0.3, seed=0)
    for row in rows[:7]:
        row[4] = ""
    table = write_csv(tmp_path / "t.csv", rows, delimiter=";", decimal=",")
    record = fitted(table, "--target", "ill", "--drop", "score", "--out", tmp_path / "model")
    assert record["rows"] == 293
    assert record["unlabelled"] == 7
    assert record["features"] == ["size", "pulse", "ward"]
    assert record["positive"] == "yes"
    assert record["auc"]["value"] > 0.85
    model = package.load(tmp_path / "model")
    ratios = model.log_ratios({"size": [-1.0, 3.0], "pulse": [70.0, np.nan], "ward": ["East", "somewhere else"]})
    assert ratios[0, 1] < 0 < ratios[1, 1]


@pytest.mark.parametrize("name", [name for name in MODELS if name != "hist_gradient_boosting"])
def test_every_model_with_categories_and_missing_values_scores_alike_when_loaded(name: str, here: Path) -> None:
    if name == "obil":
        pytest.importorskip("torch", reason="needs the torch extra")
    record = fitted("train.csv", "--target", "ill", "--drop", "score", "--model", name, "--out", "other")
    assert record["auc"]["value"] > 0.7
    result = obil("predict", "other", "new.csv")
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 201


def test_the_same_seed_gives_the_same_bytes(here: Path) -> None:
    for name in ("one", "two"):
        fitted("train.csv", "--target", "ill", "--model", "logistic", "--seed", "3", "--out", name)
    assert (here / "one/arrays.safetensors").read_bytes() == (here / "two/arrays.safetensors").read_bytes()


@pytest.mark.parametrize(("positive", "expected"), [("yes", ["no", "yes"]), ("no", ["yes", "no"])])
def test_positive_is_the_second_class_whatever_the_alphabet_says(
    positive: str, expected: list[str], here: Path
) -> None:
    record = fitted("train.csv", "--target", "ill", "--model", "logistic", "--positive", positive, "--out", "m")
    assert record["positive"] == positive
    model = package.load("m")
    assert model.classes_.tolist() == expected
    priors = {one["class"]: one["prior"] for one in record["classes"]}
    np.testing.assert_allclose(model.prior_, [priors[name] for name in expected])
    sick = model.log_ratios({"size": [4.0], "pulse": [95.0], "ward": ["North"], "score": [0.99]})[0, 1]
    assert (sick > 0) == (positive == "yes")


def test_a_positive_number_is_found_however_it_is_written(tmp_path: Path) -> None:
    rows = [[size, "1" if ill == "yes" else "0"] for _, size, _, _, ill, _ in ward_rows(100, 0.4, seed=0)]
    table = write_csv(tmp_path / "t.csv", rows, header=["size", "y"])
    arguments = ("--target", "y", "--model", "logistic", "--positive", "0.0", "--out", tmp_path / "m")
    assert fitted(table, *arguments)["positive"] == 0


def test_the_rows_of_one_group_stay_on_one_side(tmp_path: Path) -> None:
    # the size says which patient it is and nothing about the next: only mixed folds find it useful
    rng = np.random.default_rng(0)
    rows = []
    for patient in range(60):
        label, size = ("yes" if rng.random() < 0.5 else "no"), rng.normal()
        rows += [[f"p{patient}", f"{size + rng.normal() * 1e-3:.6f}", label] for _ in range(6)]
    table = write_csv(tmp_path / "t.csv", rows, header=["patient", "size", "ill"])
    options = ("--target", "ill", "--model", "random_forest")
    grouped = fitted(table, *options, "--group", "patient", "--out", tmp_path / "a")
    mixed = fitted(table, *options, "--drop", "patient", "--out", tmp_path / "b")
    assert grouped["features"] == ["size"]
    assert grouped["auc"]["value"] < 0.7 < 0.95 < mixed["auc"]["value"]


def test_folds_are_cut_by_dates(here: Path) -> None:
    rows = [
        [*row, f"{1 + i % 28:02d}.{1 + i % 12:02d}.20{10 + i % 9}"] for i, row in enumerate(ward_rows(200, 0.3, seed=0))
    ]
    table = write_csv(here / "t.csv", rows, header=[*HEADER, "day"])
    record = fitted(table, "--target", "ill", "--model", "logistic", "--time", "day", "--out", "m")
    assert "day" not in record["features"]


@pytest.mark.parametrize("calibration", ["affine", "temperature", "isotonic"])
def test_a_score_column_is_calibrated_and_found_by_name(calibration: str, here: Path) -> None:
    arguments = ("--target", "ill", "--score", "score", "--positive", "yes", "--calibration", calibration)
    record = fitted("train.csv", *arguments, "--out", "m")
    assert record["features"] == ["score"]
    scored = obil("predict", "m", "new.csv", "--keep", "id,score").stdout.splitlines()
    assert scored[0] == "id,score,log_ratio,posterior,decision"
    by_score = sorted((line.split(",") for line in scored[1:]), key=lambda cells: float(cells[1]))
    assert np.all(np.diff([float(cells[2]) for cells in by_score]) >= 0)


def test_a_score_of_the_other_class_is_remarked_on(here: Path) -> None:
    record = fitted("train.csv", "--target", "ill", "--score", "score", "--positive", "no", "--out", "m")
    assert any("backwards" in note for note in record["notes"])


def test_columns_that_cannot_help_are_left_out_and_named(tmp_path: Path) -> None:
    rows = [[str(i), *row, ""] for i, row in enumerate(ward_rows(100, 0.4, seed=0))]
    table = write_csv(tmp_path / "t.csv", rows, header=["number", *HEADER, "empty"])
    record = fitted(table, "--target", "ill", "--model", "logistic", "--out", tmp_path / "m")
    assert record["features"] == ["size", "pulse", "ward", "score"]
    notes = " ".join(record["notes"])
    assert all(f"column {name!r} was left out" in notes for name in ("number", "id", "empty"))


def test_gzip_standard_input_and_encodings_are_the_same_table(here: Path) -> None:
    text = (here / "train.csv").read_text().replace("North", "Nørd")
    (here / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    (here / "t16.csv").write_bytes(text.encode("utf-16"))
    (here / "t1252.csv").write_bytes(text.encode("cp1252"))
    (here / "t8.csv").write_bytes(text.encode("utf-8-sig"))
    arguments = ("--target", "ill", "--model", "logistic", "--out")
    first = fitted("t8.csv", *arguments, "m")["auc"]
    for name in ("t.csv.gz", "t16.csv", "t1252.csv"):
        assert fitted(name, *arguments, "m")["auc"] == first, name
    result = obil("fit", "-", *arguments, "m", "--json", stdin=text.encode())
    assert json.loads(result.stdout)["auc"] == first


def test_a_parquet_table_is_the_same_table(here: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra 'spark' brings it)")
    import pandas as pd

    pd.read_csv(here / "train.csv").to_parquet(here / "t.parquet")
    arguments = ("--target", "ill", "--model", "logistic", "--out", "m")
    assert fitted("t.parquet", *arguments)["auc"] == fitted("train.csv", *arguments)["auc"]


def test_three_classes_are_fitted_and_decided(here: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [[f"{rng.normal(2 * k):.3f}", "abc"[k]] for k in rng.integers(0, 3, 300)]
    table = write_csv(here / "three.csv", rows, header=["x", "kind"])
    assert fitted(table, "--target", "kind", "--model", "logistic", "--out", "m")["positive"] is None
    lines = obil("predict", "m", "three.csv", "--prior", "a=.5,b=.3,c=.2").stdout.splitlines()
    assert lines[0] == "log_ratio_b,log_ratio_c,posterior_a,posterior_b,posterior_c,decision"
    assert {line.split(",")[-1] for line in lines[1:]} == {"a", "b", "c"}
    alerts = obil("predict", "m", "three.csv", "--positive", "c", "--cost-fn", "50").stdout.splitlines()[1:]
    assert sum(line.endswith(",c") for line in alerts) > sum(line.endswith(",c") for line in lines)
    priors = json.loads(obil("prior", "m", "three.csv", "--json").stdout)["groups"][0]["prior"]
    assert priors == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}, abs=0.1)


def test_the_table_for_people_says_what_was_done_and_what_to_do_next(here: Path) -> None:
    result = obil("fit", "train.csv", "--target", "ill", "--model", "logistic", "--out", "m")
    assert result.exit_code == 0
    for expected in ("Model written to m", "class yes (positive)", "slope", "AUC", "obil verify m"):
        assert expected in result.stdout


def test_each_long_step_is_a_line_where_there_is_no_terminal(here: Path) -> None:
    result = obil("fit", "train.csv", "--target", "ill", "--model", "logistic", "--out", "m", "--json")
    assert result.stderr.splitlines() == [
        "Fitting logistic on 400 rows...", "Measuring how fast the prior is followed...",
    ]  # fmt: skip
    json.loads(result.stdout)


def test_brackets_in_a_label_are_text_and_not_markup(here: Path) -> None:
    text = (here / "train.csv").read_text().replace(",yes,", ",[/b]yes,")
    (here / "t.csv").write_text(text)
    result = obil("fit", "t.csv", "--target", "ill", "--model", "logistic", "--out", "m")
    assert result.exit_code == 0
    assert "[/b]yes" in result.stdout


def test_an_older_model_at_the_same_place_is_replaced(here: Path) -> None:
    fitted("train.csv", "--target", "ill", "--model", "logistic", "--out", "model", "--positive", "no")
    assert package.load("model").classes_.tolist() == ["yes", "no"]


def test_an_interrupted_fit_of_many_members_writes_nothing_and_says_so_in_a_line(tmp_path: Path) -> None:
    """The interrupt comes once the first members are being fitted: torch is loaded by then."""
    pytest.importorskip("torch", reason="needs the torch extra")
    rng = np.random.default_rng(0)
    labels = rng.random(20_000) < 0.1
    table = tmp_path / "t.csv"
    np.savetxt(
        table, np.column_stack([rng.normal(size=(20_000, 4)) + labels[:, None], labels]),
        delimiter=",", header="a,b,c,d,y", comments="", fmt="%.4g",
    )  # fmt: skip
    start = "from obil.cli.main import app; app()"
    command = [sys.executable, "-c", start, "fit", str(table), "--target", "y", "--model", "obil"]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path / "model")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # a background job ignores it
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while "libtorch_cpu" not in Path(f"/proc/{process.pid}/maps").read_text():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        time.sleep(2.0)
        for _ in range(15):  # an interrupt inside of an import can get lost: a person presses again
            process.send_signal(signal.SIGINT)
            try:
                out, err = process.communicate(timeout=8)
                break
            except subprocess.TimeoutExpired:
                continue
    finally:
        process.kill()
        process.communicate()
    assert process.returncode not in (0, None)
    assert "Traceback" not in out + err
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_a_column_that_only_rises_with_the_rows_or_the_time_is_named(tmp_path: Path) -> None:
    rows = [[*row, str(place // 4), str(900 - place // 4)] for place, row in enumerate(ward_rows(400, 0.3, seed=0))]
    header = [*HEADER, "day", "left"]
    arguments = ["--target", "ill", "--model", "logistic", "--drop", "score"]
    write_csv(tmp_path / "sorted.csv", rows, header=header)
    write_csv(tmp_path / "mixed.csv", rows[::-2] + rows[::2], header=header)

    def notes(table: str, *more: str) -> str:
        found = fitted(tmp_path / table, *arguments, *more, "--out", tmp_path / "model")["notes"]
        assert isinstance(found, list)
        return " ".join(note for note in found if "only rises or falls" in note)

    assert notes("sorted.csv").startswith("'day', 'left' only rises or falls along the table")
    assert "--drop day,left" in notes("sorted.csv")
    assert notes("mixed.csv") == ""
    assert notes("mixed.csv", "--time", "day").startswith("'left' only")
    assert notes("sorted.csv", "--drop", "score,day,left") == ""


def test_a_model_that_is_replaced_is_mentioned(here: Path) -> None:
    arguments = ["train.csv", "--target", "ill", "--drop", "score", "--model", "logistic", "--out", "another"]
    assert not any("replaced" in note for note in fitted(*arguments)["notes"])
    assert "Note: replaced the model that was in another" in obil("fit", *arguments).stdout
