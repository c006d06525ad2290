"""Whatever file arrives: one line that says what is wrong, exit code 2, nothing written."""

import gzip
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.cases import HEADER, error_line, listing, obil, ward_rows, write_csv

FIT = "fit bad.csv --target ill --model logistic --out new_model"
PREDICT = "predict model bad.csv --prior .1 --out scored.csv"
ROWS = ward_rows(40, 0.4, seed=9)


def text(*lines: str) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def table(rows: list[list[str]], header: list[str] | None = None) -> bytes:
    return text(",".join(header or HEADER), *(",".join(row) for row in rows))


def with_cell(column: str, value: str, row: int = 5) -> bytes:
    rows = [list(one) for one in ROWS]
    rows[row][HEADER.index(column)] = value
    return table(rows)


def with_column(column: str, values: list[str]) -> bytes:
    place = HEADER.index(column)
    return table([[*row[:place], value, *row[place + 1 :]] for row, value in zip(ROWS, values, strict=True)])


def without(column: str) -> bytes:
    place = HEADER.index(column)
    return table([row[:place] + row[place + 1 :] for row in ROWS], HEADER[:place] + HEADER[place + 1 :])


GOOD = table(ROWS)
TABLES: dict[str, tuple[bytes, str, str]] = {
    # name: (bad.csv, command, what the line must say)
    "empty": (b"", FIT, "empty file"),
    "white space": (b"\n \n\n", FIT, "bad.csv"),
    "header only": (text("id,size,ill"), FIT, "row below its header"),
    "binary": (bytes(range(256)) * 20, FIT, "bad.csv"),
    "image": (b"\x89PNG\r\n\x1a\n" + bytes(500), FIT, "an image"),
    "excel": (b"PK\x03\x04" + bytes(500), FIT, "Excel"),
    "ragged": (GOOD + b"p99,1.0\n", FIT, "6 fields, got 2 in line 42"),
    "too many fields": (GOOD + b"p99,1.0,70,North,yes,0.5,7\n", FIT, "got 7"),
    "open quote": (GOOD + b'p99,"1.0,70,North,yes,0.5\n', FIT, "quoted"),
    "duplicate columns": (GOOD.replace(b"pulse", b"size", 1), FIT, "'size' twice"),
    "target missing": (without("ill"), FIT, "must have a column 'ill'"),
    "target misspelt": (GOOD.replace(b"ill", b"Ill", 1), FIT, "a column 'ill' (is it 'Ill'?), got the columns"),
    "one class": (with_column("ill", ["no"] * 40), FIT, "two classes"),
    "no labels": (with_column("ill", [""] * 40), FIT, "must hold a label"),
    "one row of a class": (with_column("ill", ["no"] * 39 + ["yes"]), FIT, "at least 2 labelled rows"),
    "a number as the target": (GOOD, FIT.replace("ill", "size"), "at least 2 labelled rows"),
    "many numbers as the target": (
        table(ward_rows(120, 0.4, seed=3)),
        FIT.replace("ill", "size"),
        "at most 50 classes",
    ),
    "an infinite label": (with_column("ill", ["inf", "0"] * 20), FIT, "finite"),
    "only a target": (text("ill", *["yes", "no"] * 20), FIT, "besides the target"),
    "only ids": (
        text("id,ill", *(f"p{i},{'yes' if i % 2 else 'no'}" for i in range(40))),
        FIT,
        "a column to learn from",
    ),
    "infinite number": (with_cell("size", "inf"), FIT, "'size' holds numbers, got"),
    "truncated gzip": (gzip.compress(GOOD, mtime=0)[:-20], FIT, "gzip"),
    "damaged gzip": (b"\x1f\x8b" + os.urandom(200), FIT, "gzip"),
    "truncated parquet": (b"PAR1" + bytes(100), FIT, "parquet"),
    "two encodings": (GOOD + "p99,1.0,70,Nørd,yes,0.5\n".encode() + b"p98,1.0,70,N\xf8rd,yes,0.5\n", FIT, "encoding"),
    "UTF-16 without a mark": (GOOD.decode().encode("utf-16-le"), FIT, "NUL"),
    "wrong delimiter": (GOOD.replace(b",", b"#"), FIT, "must have a column 'ill'"),
    "no such positive": (GOOD, f"{FIT} --positive perhaps", "'perhaps' is not one of the classes"),
    "no such group": (GOOD, f"{FIT} --group patient", "'patient'"),
    "no such column to drop": (GOOD, f"{FIT} --drop size,hieght", "'hieght'"),
    "no such model": (GOOD, "fit bad.csv --target ill --model oracle --out new_model", "hist_gradient_boosting"),
    "no such calibration": (GOOD, f"{FIT} --calibration magic", "--calibration must be one of"),
    "vague dates": (with_column("id", ["03/04/2024"] * 40), f"{FIT} --time id", "write them as 2024-12-31"),
    "a score of text": (GOOD, "fit bad.csv --target ill --score ward --out new_model", "'ward' holds numbers"),
    "a score that is missing": (
        with_cell("score", ""),
        "fit bad.csv --target ill --score score --out new_model",
        "row 6",
    ),
    "score and model": (GOOD, f"{FIT} --score score", "leave out --model"),
    "one patient": (with_column("id", ["p1"] * 40), f"{FIT} --group id", "groups"),
    "text in a number column": (with_cell("size", "tall"), PREDICT, "'size' must hold numbers, got 'tall' in row 6"),
    "infinity to predict": (with_cell("size", "-inf"), PREDICT, "'size' holds numbers, got"),
    "a feature missing": (without("pulse"), PREDICT, "'pulse'"),
    "a categorical feature missing": (without("ward"), PREDICT, "'ward'"),
    "a kept column missing": (GOOD, f"{PREDICT} --keep id,date", "'date'"),
    "nothing to predict": (text(",".join(HEADER)), PREDICT, "row below its header"),
    "prior of 2": (GOOD, "predict model bad.csv --prior 2 --out scored.csv", "between 0 and 1"),
    "prior of nothing": (GOOD, "predict model bad.csv --prior nan --out scored.csv", "between 0 and 1"),
    "prior as text": (GOOD, "predict model bad.csv --prior low --out scored.csv", "--prior must be a number"),
    "decimal comma prior": (GOOD, "predict model bad.csv --prior 0,02 --out scored.csv", "--prior must be one number"),
    "prior of another class": (
        GOOD,
        "predict model bad.csv --prior a=.5,b=.5 --out scored.csv",
        "'a' is not one of the classes",
    ),
    "no such policy": (GOOD, f"{PREDICT} --policy luck", "a policy must be one of"),
    "policy and cost": (GOOD, f"{PREDICT} --policy f1 --cost-fn 9", "leave out --cost-fp"),
    "negative cost": (GOOD, f"{PREDICT} --cost-fn -1", "cost"),
    "text to estimate from": (with_cell("pulse", "fast"), "prior model bad.csv", "'pulse' must hold numbers"),
    "no such group to estimate": (GOOD, "prior model bad.csv --by county", "'county'"),
    "estimate by a feature": (GOOD, "prior model bad.csv --by ward", "--drop ward"),
    "level of 1": (GOOD, "prior model bad.csv --level 1", "--level"),
    "wrong classes": (
        with_column("ill", ["maybe", "yes"] * 20),
        "verify model bad.csv --target ill",
        "['no', 'yes'], got the label 'maybe'",
    ),
    "class missing": (with_column("ill", ["yes"] * 40), "verify model bad.csv --target ill", "got none of ['no']"),
    "nothing labelled": (with_column("ill", ["NA"] * 40), "calibrate model bad.csv --target ill", "must hold a label"),
    "numbers for text": (with_column("ill", ["1", "0"] * 20), "calibrate model bad.csv --target ill", "'1'"),
    "a feature as target": (GOOD, "verify model bad.csv --target size", "must not be a column the model"),
    "vector for two": (GOOD, "calibrate model bad.csv --target ill --calibration magic", "calibration must be one of"),
}


def require_one_line(command: str, expected: str, folder: Path) -> None:
    before = listing(folder)
    result = obil(*command.split())
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert expected in error_line(result)
    assert listing(folder) == before


@pytest.mark.parametrize("name", TABLES)
def test_a_hostile_table_is_one_line_and_nothing_is_written(name: str, here: Path) -> None:
    content, command, expected = TABLES[name]
    (here / "bad.csv").write_bytes(content)
    require_one_line(command, expected, here)


PLACES: dict[str, tuple[str, str]] = {
    "no such table": ("fit nowhere.csv --target ill --out m", "nowhere.csv"),
    "a folder as table": ("fit model --target ill --out m", "directory"),
    "no such model": ("predict nowhere new.csv", "not a model folder"),
    "a file as model": ("predict new.csv new.csv", "not a model folder"),
    "a folder without a manifest": ("verify sub new.csv --target ill", "holds no manifest.json"),
    "out is a file": ("fit train.csv --target ill --model logistic --out new.csv", "new.csv is a file"),
    "out is a folder of other things": ("fit train.csv --target ill --out sub", "holds other files"),
    "calibrated out is a file": ("calibrate model train.csv --target ill --out new.csv", "new.csv is a file"),
    "scored out is a folder": ("predict model new.csv --out sub", "sub is a folder"),
    "scored out is nowhere": ("predict model new.csv --out nowhere/s.csv", "make nowhere first"),
    "scored out is the input": ("predict model new.csv --out new.csv", "another file than the input"),
    "group and time": ("fit train.csv --target ill --group id --time size --out m", "not both"),
    "the target is dropped": ("fit train.csv --target ill --drop ill --out m", "none of the other columns"),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_wrong_place_is_one_line_and_nothing_is_written(name: str, here: Path) -> None:
    (here / "sub").mkdir()
    (here / "sub" / "diary.txt").write_text("mine")
    command, expected = PLACES[name]
    require_one_line(command, expected, here)


def manifest(change: Callable[[dict[str, object]], None]) -> Callable[[Path], None]:
    def rewrite(model: Path) -> None:
        record = json.loads((model / "manifest.json").read_text())
        change(record)
        (model / "manifest.json").write_text(json.dumps(record))

    return rewrite


def setting(**values: object) -> Callable[[Path], None]:
    return manifest(lambda record: record.update(values))


def columns(told: list[object]) -> Callable[[Path], None]:
    return setting(encoder={"columns": told})


def content(file: str, change: Callable[[bytes], bytes], *, resealed: bool = False) -> Callable[[Path], None]:
    """Return a damage to a file; resealed, by someone who also corrects the checksum."""

    def damage(model: Path) -> None:
        data = change((model / file).read_bytes())
        (model / file).write_bytes(data)
        if resealed:
            seal(model, file)

    return damage


def seal(model: Path, file: str) -> None:
    digest = hashlib.sha256((model / file).read_bytes()).hexdigest()
    manifest(lambda record: record["files"].update({file: digest}))(model)


def wrapped(damage: Callable[[Path], None]) -> Callable[[Path], None]:
    """Return the damage done to the model with an estimator in place of its frozen scorer."""

    def wrap_and_damage(model: Path) -> None:
        from dataclasses import replace

        import numpy as np
        from sklearn.linear_model import LogisticRegression

        from obil.serving.files import load, save
        from obil.serving.scorers import EstimatorScorer

        fitted = load(model)
        width = len(fitted.encoder.columns)
        estimator = LogisticRegression().fit(np.arange(4.0 * width).reshape(4, width), [0, 0, 1, 1])
        save(replace(fitted, scorer=EstimatorScorer(estimator, "predict_proba", fitted.prior_, 0.0, width)), model)
        damage(model)

    return wrap_and_damage


@wrapped
def foreign_type(model: Path) -> None:
    import skops.io
    from sklearn.preprocessing import FunctionTransformer

    skops.io.dump(FunctionTransformer(os.system), model / "scorer.skops")
    seal(model, "scorer.skops")


@wrapped
def no_classifier(model: Path) -> None:
    import skops.io
    from sklearn.preprocessing import StandardScaler

    skops.io.dump(StandardScaler(), model / "scorer.skops")
    seal(model, "scorer.skops")


@wrapped
def too_narrow(model: Path) -> None:
    import numpy as np
    import skops.io
    from sklearn.linear_model import LogisticRegression

    skops.io.dump(LogisticRegression().fit(np.arange(4.0)[:, None], [0, 0, 1, 1]), model / "scorer.skops")
    seal(model, "scorer.skops")


def arrays(**values: object) -> Callable[[Path], None]:
    def rewrite(model: Path) -> None:
        import numpy as np
        from safetensors.numpy import load_file, save_file

        file = model / "arrays.safetensors"
        changed = {name.replace("__", "."): np.asarray(value) for name, value in values.items()}
        save_file(load_file(file) | changed, file)
        seal(model, file.name)

    return rewrite


MODELS: dict[str, tuple[Callable[[Path], None], str]] = {
    "truncated arrays": (content("arrays.safetensors", lambda data: data[:-100]), "changed or cut short"),
    "truncated arrays, resealed": (content("arrays.safetensors", lambda data: data[:-100], resealed=True), "damaged"),
    "empty arrays, resealed": (content("arrays.safetensors", lambda data: b"", resealed=True), "damaged"),
    "an altered byte": (
        wrapped(content("scorer.skops", lambda data: data[:50] + b"!" + data[51:])),
        "changed or cut short",
    ),
    "truncated estimator, resealed": (
        wrapped(content("scorer.skops", lambda data: data[: len(data) // 2], resealed=True)),
        "scorer.skops",
    ),
    "no arrays": (lambda model: (model / "arrays.safetensors").unlink(), "lacks the file"),
    "no estimator": (wrapped(lambda model: (model / "scorer.skops").unlink()), "lacks the file"),
    "bad JSON": (content("manifest.json", lambda data: data[:200]), "damaged"),
    "manifest is no text": (content("manifest.json", lambda data: b"\xff\xfe\x00"), "damaged"),
    "manifest is a list": (content("manifest.json", lambda data: b"[1, 2]"), "does not describe"),
    "manifest nested without end": (content("manifest.json", lambda data: b"[" * 100_000), "damaged"),
    "another kind": (setting(kind="diary"), "does not describe"),
    "newer format": (setting(format=99), "update obil"),
    "no format": (setting(format=None), "format number"),
    "no files": (setting(files={}), "does not list"),
    "a path out of the folder": (
        manifest(lambda record: record["files"].update({"../new.csv": "0" * 64})),
        "lacks the file '../new.csv'",
    ),
    "an absolute path": (
        manifest(lambda record: record["files"].update({"/etc/passwd": "0" * 64})),
        "lacks the file '/etc/passwd'",
    ),
    "classes twice": (setting(classes=["no", "no"]), "distinct"),
    "three classes": (setting(classes=["no", "yes", "maybe"]), "the prior must be of 3 classes"),
    "no classes": (setting(classes=[]), "the prior must be of 0 classes"),
    "columns of nonsense": (columns([{"name": "size"}]), "no complete model"),
    "a column named by a list": (
        columns([{"name": ["size"], "levels": None}]),
        "no complete model",
    ),
    "categories that are objects": (
        columns([{"name": "ward", "levels": [{}]}]),
        "no complete model",
    ),
    "an infinite width": (
        wrapped(manifest(lambda record: record["scorer"].update({"n_features": float("inf")}))),
        "no complete model",
    ),
    "no scorer": (setting(scorer=None), "no complete model"),
    "unknown scorer": (setting(scorer={"kind": "oracle", "training_prior": [0.5, 0.5], "floor": 0}), "does not know"),
    "foreign type": (foreign_type, "not on the list"),
    "no classifier": (no_classifier, "cannot score"),
    "another width": (too_narrow, "cannot score"),
    "a prior above 1": (arrays(prior=[0.5, 1.5]), "no complete model"),
    "a calibrator that is not finite": (arrays(calibrator__slopes=[1.0, float("nan")]), "finite"),
    "a calibrator of three": (arrays(calibrator__slopes=[1.0, 1.0, 1.0]), "of every class"),
    "held-out labels that are fractions": (arrays(holdout__labels=[0.5, 0.5]), "no complete model"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_hostile_model_is_one_line_and_nothing_is_written_or_run(name: str, here: Path) -> None:
    damage, expected = MODELS[name]
    damage(here / "model")
    require_one_line("predict model new.csv --prior .1 --out scored.csv", expected, here)


@pytest.mark.parametrize("command", ["verify model new.csv --target ill", "prior model new.csv"])
def test_every_command_that_loads_a_model_refuses_a_damaged_one(command: str, here: Path) -> None:
    MODELS["an altered byte"][0](here / "model")
    require_one_line(command, "changed or cut short", here)


def test_a_failed_calibration_leaves_the_model_as_it_was(here: Path) -> None:
    write_csv(here / "bad.csv", [[*row[:4], "yes", row[5]] for row in ROWS])
    require_one_line("calibrate model bad.csv --target ill", "got none of ['no']", here)


def test_a_full_disk_leaves_no_half_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas as pd

    def full(self: pd.DataFrame, path: Path, **_: object) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    require_one_line("predict model new.csv --out scored.csv", "No space left", here)
