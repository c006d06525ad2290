"""Write and read a scikit-learn estimator without pickle, by an exact list of types."""

import re
import sys
from collections.abc import Collection
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

from obil.errors import ModelFileError

SCHEMA = "schema.json"
# What scikit-learn's and imbalanced-learn's own classifiers hold beside what skops trusts by itself.
ALLOWED_TYPES = frozenset(
    {
        "functools.partial",  # boosters with categories; skops asks for the function inside it by its own name
        "imblearn.combine._smote_enn.SMOTEENN",
        "imblearn.combine._smote_tomek.SMOTETomek",
        "imblearn.ensemble._bagging.BalancedBaggingClassifier",
        "imblearn.ensemble._easy_ensemble.EasyEnsembleClassifier",
        "imblearn.ensemble._forest.BalancedRandomForestClassifier",
        "imblearn.ensemble._weight_boosting.RUSBoostClassifier",
        "imblearn.over_sampling._adasyn.ADASYN",
        "imblearn.over_sampling._random_over_sampler.RandomOverSampler",
        "imblearn.over_sampling._smote.base.SMOTE",
        "imblearn.over_sampling._smote.filter.BorderlineSMOTE",
        "imblearn.pipeline.Pipeline",
        "imblearn.under_sampling._prototype_selection._edited_nearest_neighbours.EditedNearestNeighbours",
        "imblearn.under_sampling._prototype_selection._random_under_sampler.RandomUnderSampler",
        "imblearn.under_sampling._prototype_selection._tomek_links.TomekLinks",
        "numpy.dtype",
        "scipy.interpolate._bsplines.BSpline",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.metrics._dist_metrics.EuclideanDistance64",
        "sklearn.neighbors._kd_tree.KDTree",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.tree._tree.Tree",
        "sklearn.utils._bunch.Bunch",
        "sklearn.utils.validation.check_array",
    }
)


class _WithoutTorch:
    """A finder of modules for which torch is not installed; one that is imported already stays."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "torch":
            raise ModuleNotFoundError(name, name=name)


def _skops_io() -> Any:
    """Import skops, and scikit-learn with it, but not torch.

    skops imports every module of scikit-learn that can be imported, and one of them is there for torch alone: hundreds
    of megabytes that no estimator here uses.
    """
    finder = _WithoutTorch()
    sys.meta_path.insert(0, finder)
    try:
        from skops import io  # noqa: PLC0415  # only a wrapped estimator needs it
    finally:
        sys.meta_path.remove(finder)
    return io


def write_estimator(estimator: Any) -> bytes:
    """Return a fitted estimator as bytes, the same each time; refuse one that could not be read back."""
    io = _skops_io()
    try:
        written = io.dumps(estimator)
    except Exception as error:
        raise ModelFileError(f"{type(estimator).__name__} cannot be saved without pickle: {error}") from None
    return _steady(written)


def _steady(written: bytes) -> bytes:
    """Return a skops archive without dates, its objects numbered by appearance instead of memory address."""
    numbers: dict[str, int] = {}

    def number(address: str) -> str:
        return str(numbers.setdefault(address, len(numbers) + 1))

    with ZipFile(BytesIO(written)) as source:
        schema = source.read(SCHEMA).decode()
        contents = {name: source.read(name) for name in source.namelist() if name != SCHEMA}
    schema = re.sub(r'("__id__": )(\d+)', lambda found: found[1] + number(found[2]), schema)
    schema = re.sub(r'("file": ")(\d+)(\.\w+")', lambda found: found[1] + number(found[2]) + found[3], schema)
    renamed = {re.sub(r"^\d+", lambda found: number(found[0]), name): content for name, content in contents.items()}
    steady = BytesIO()
    with ZipFile(steady, "w") as target:
        for name in sorted(renamed):
            target.writestr(ZipInfo(name), renamed[name])
        target.writestr(ZipInfo(SCHEMA), schema)
    return steady.getvalue()


def read_estimator(path: Path, *, trusted: Collection[str] = ()) -> Any:
    """Read an estimator, building nothing but listed types; `trusted` adds to the list."""
    io = _skops_io()
    try:
        found = set(io.get_untrusted_types(file=path))
    except Exception:
        raise ModelFileError(f"{path.name} is damaged: it is no estimator file") from None
    unknown = sorted(found - ALLOWED_TYPES - set(trusted))
    if unknown:
        raise ModelFileError(
            f"{path.name} holds types that are not on the list: {', '.join(unknown)}. "
            f"If you trust where it comes from, load it with trusted={unknown!r} (--trust on the command line)"
        )
    try:
        return io.load(path, trusted=sorted(found))
    except Exception as error:
        raise ModelFileError(f"{path.name} could not be read: {type(error).__name__}: {error}") from None
