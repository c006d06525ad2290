"""Register every version of the model: read from its folder, stored in the store, loaded when a stream needs it."""

import hashlib
import math
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path

from obil.calibration.diagnose import diagnose
from obil.calibration.gate import Gate
from obil.calibration.reliability import ReliabilityBin
from obil.errors import ModelFileError, ObilError
from obil.service.records import ModelCard
from obil.service.refusals import ModelRefusedError
from obil.service.storage.store import Store
from obil.serving.columns import Column
from obil.serving.files import load
from obil.serving.ratio_model import RatioModel, as_ratio_model

MAX_LOADED = 4  # versions in memory; older ones are loaded again when a stream needs one
CURRENT = "current_model"


class ModelRegistry:
    """The versions of one model; a version is the hash of its files."""

    def __init__(self, folder: Path, store: Store, *, trusted: Sequence[str] = ()) -> None:
        self._folder, self._store, self._trusted = folder, store, tuple(trusted)
        self._loaded: OrderedDict[str, RatioModel] = OrderedDict()
        self._cards: dict[str, ModelCard] = {}
        self._lock = threading.Lock()

    def take_from_folder(self) -> str:
        """Read the folder, store its files, and return the version; refuse a model that the deployment gate refuses."""
        files = {path.name: path.read_bytes() for path in sorted(self._folder.iterdir()) if path.is_file()}
        version = version_of(files)
        model = self._load(files)
        card = self._card_of(version, model)
        if card.gate["verdict"] == "refuse":
            reasons = "; ".join(card.gate["reasons"])
            raise ModelRefusedError(f"the deployment gate refuses this model: {reasons}")
        current = self.current_version()
        if current is not None and self.get(current).classes_.tolist() != model.classes_.tolist():
            raise ModelRefusedError(
                f"the new model must have the streams' classes {self.get(current).classes_.tolist()}, "
                f"got {model.classes_.tolist()}"
            )
        with self._store.writing() as session:
            session.add_model(version, files)
            session.set_meta(CURRENT, version)
        with self._lock:
            self._keep(version, model)
        return version

    def current_version(self) -> str | None:
        """Return the current version, shared by all processes."""
        return self._store.meta(CURRENT)

    def get(self, version: str) -> RatioModel:
        """Return a version, loaded from the store if it is not in memory."""
        with self._lock:
            if version in self._loaded:
                self._loaded.move_to_end(version)
                return self._loaded[version]
        files = self._store.model_files(version)
        if not files or version_of(files) != version:
            raise ModelFileError(f"the store has no model of version {version:.20}")
        model = self._load(files)
        with self._lock:
            return self._keep(version, model)

    def card(self, version: str) -> ModelCard:
        """Return the model card of a version."""
        return self._card_of(version, self.get(version))

    def _keep(self, version: str, model: RatioModel) -> RatioModel:
        kept = self._loaded.setdefault(version, model)
        self._loaded.move_to_end(version)
        while len(self._loaded) > MAX_LOADED:
            self._loaded.popitem(last=False)
        return kept

    def _load(self, files: Mapping[str, bytes]) -> RatioModel:
        with tempfile.TemporaryDirectory(prefix="obil-model-") as folder:
            for name, content in files.items():
                if name != Path(name).name:
                    raise ModelFileError(f"a model must have plain file names, got {name!r:.60}")
                (Path(folder) / name).write_bytes(content)
            try:
                return as_ratio_model(load(folder, trusted=self._trusted))
            except ObilError as error:
                raise ModelFileError(str(error).replace(folder, str(self._folder))) from None

    def _card_of(self, version: str, model: RatioModel) -> ModelCard:
        if version not in self._cards:
            self._cards[version] = _card(version, model)
        return self._cards[version]


def version_of(files: Mapping[str, bytes]) -> str:
    """Return the version of a model: the hash of its files."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    return digest.hexdigest()[:16]


def _card(version: str, model: RatioModel) -> ModelCard:
    diagnosis = diagnose(model.holdout_)
    gate = Gate().judge(diagnosis).to_json()
    classes = model.classes_.tolist()
    columns = model.columns or [Column(name) for name in model.feature_names or ()]
    return ModelCard(
        version=version,
        classes=classes,
        training_prior=dict(zip(map(str, classes), model.prior_.tolist(), strict=True)),
        columns=[{"name": one.name, "type": "category" if one.is_category else "number"} for one in columns] or None,
        n_features=model.n_features,
        views=model.n_views,
        gate={"verdict": gate.pop("decision"), **gate},
        reliability=[_bin_record(one) for one in diagnosis.balanced.table if one.class_number == len(classes) - 1],
    )


def _bin_record(one: ReliabilityBin) -> dict[str, float]:
    """Return the predicted and observed frequency of a bin, with a 90 % confidence interval (Wilson's)."""
    n, rate, z = max(one.n_rows, 1), one.observed_rate, 1.645
    middle = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return {
        "predicted": one.mean_posterior,
        "observed": rate,
        "low": max(0.0, middle - half),
        "high": min(1.0, middle + half),
        "weight": one.weight,
    }
