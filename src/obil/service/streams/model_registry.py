"""Register every version of the model: read from its folder, stored in the store, loaded when a stream needs it."""

import hashlib
import math
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from obil.calibration.diagnose import diagnose
from obil.calibration.gate import Gate
from obil.calibration.reliability import ReliabilityBin
from obil.errors import ModelFileError, ObilError
from obil.service.records import ModelCard
from obil.service.refusals import ModelRefusedError, UnknownModelError
from obil.service.storage.store import Store
from obil.service.storage.writing import FROM_FOLDER, UPLOADED, ModelRow, Writing
from obil.service.streams.shadow_settings import ShadowSettings, shadow_of
from obil.serving.columns import Column
from obil.serving.files import load
from obil.serving.ratio_model import RatioModel, as_ratio_model

MAX_LOADED = 4  # versions in memory; older ones are loaded again when a stream needs one
MOST_UPLOADS = 20  # that were never active
CURRENT, TAKEN, SHADOW = "current_model", "folder_model", "shadow_model"


class ModelRegistry:
    """The versions of one model; a version is the hash of its files."""

    def __init__(self, folder: Path, store: Store, *, trusted: Sequence[str] = ()) -> None:
        self._folder, self._store, self._trusted = folder, store, tuple(trusted)
        self._loaded: OrderedDict[str, RatioModel] = OrderedDict()
        self._cards: dict[str, ModelCard] = {}
        self._lock = threading.Lock()

    def take_from_folder(self, *, by: str = "service", again: bool = False) -> str:
        """Store the model of the folder, and return the active version; refuse a model that the gate refuses.

        It becomes active if the folder has changed since it was last taken, or if `again` asks for it; otherwise what
        was activated since stays active.
        """
        files = {path.name: path.read_bytes() for path in sorted(self._folder.iterdir()) if path.is_file()}
        version, at = version_of(files), time.time()
        self._require_fit(version, files, self._trusted)
        with self._changing() as session:
            session.add_model(version, files, source=FROM_FOLDER, at=at, by=by)
            active = session.meta(CURRENT)
            if again or active is None or session.meta(TAKEN) != version:
                _activate(session, version, at, by)
                active = version
            session.set_meta(TAKEN, version)
        return active

    def add(self, files: Mapping[str, bytes], *, by: str) -> str:
        """Store an uploaded model, and return its version.

        Nothing of `trusted` holds for it. Before this process loads it, another one does, with limits.
        """
        from obil.service.streams.limited_load import require_loadable  # noqa: PLC0415  # a start needs no upload

        version, at = version_of(files), time.time()
        with _in_folder(files) as folder:
            require_loadable(folder)
        model = self._require_fit(version, files, ())
        self._require_columns(model, "an uploaded model")
        with self._changing() as session:
            models = session.models()
            waiting = [one for one in models if one.source == UPLOADED and one.activated is None]
            if len(waiting) >= MOST_UPLOADS and all(one.version != version for one in models):
                raise ModelRefusedError(
                    f"the store has {len(waiting)} uploaded models that were never active, as many as it keeps: "
                    "delete one"
                )
            session.add_model(version, files, source=UPLOADED, at=at, by=by)
        return version

    def activate(self, version: str, *, by: str) -> None:
        """Make a stored version the active one, for all processes on this store."""
        with self._changing() as session:
            _require_known(version, session.models())
            _activate(session, version, time.time(), by)

    def start_shadow(self, version: str, *, fraction: float, by: str) -> None:
        """Have all processes compare a version with the active one."""
        _require_known(version, self.versions())
        self._require_columns(self.get(version), "a shadow model")
        with self._changing() as session:
            _require_known(version, session.models())
            if version == session.meta(CURRENT):
                raise ModelRefusedError("a shadow model must be another version than the active one")
            session.set_meta(SHADOW, ShadowSettings(version, fraction, time.time(), by).to_text())

    def stop_shadow(self) -> None:
        """Compare no version."""
        with self._changing() as session:
            session.set_meta(SHADOW, "")

    def shadow(self) -> ShadowSettings:
        """Return which version is compared with the active one."""
        return shadow_of(self._store.meta(SHADOW))

    def remove(self, version: str) -> None:
        """Erase an uploaded version that was never active."""
        with self._changing() as session:
            found = _require_known(version, session.models())
            if found.source != UPLOADED or found.activated is not None:
                raise ModelRefusedError("only an uploaded model that was never active can be deleted: streams need it")
            if version == shadow_of(session.meta(SHADOW)).version:
                raise ModelRefusedError("the shadow model cannot be deleted: stop it first")
            session.remove_model(version)
        with self._lock:
            self._loaded.pop(version, None)
            self._cards.pop(version, None)

    def versions(self) -> list[ModelRow]:
        """Return all versions, the oldest first."""
        return self._store.models()

    def previous_version(self) -> str:
        """Return the version that was active before the active one."""
        return previous_of(self.versions(), self.active_version())

    def active_version(self) -> str:
        """Return the active version, shared by all processes."""
        version = self._store.meta(CURRENT)
        if version is None:
            raise ModelFileError("the store has no active model: start a service with a model folder")
        return version

    def get(self, version: str) -> RatioModel:
        """Return a version, loaded from the store if it is not in memory."""
        with self._lock:
            if version in self._loaded:
                self._loaded.move_to_end(version)
                return self._loaded[version]
        files, row = self._store.model_files(version), _row_of(version, self.versions())
        if row is None or not files or version_of(files) != version:
            raise ModelFileError(f"the store has no model of version {version:.20}")
        model = self._load(files, self._trusted if row.source == FROM_FOLDER else ())
        with self._lock:
            return self._keep(version, model)

    def card(self, version: str) -> ModelCard:
        """Return the model card of a version."""
        if version not in self._cards:
            self._cards[version] = card_of(version, self.get(version))
        return self._cards[version]

    @contextmanager
    def _changing(self) -> Iterator[Writing]:
        """Begin a transaction on the versions, one at a time over all processes: one that is activated stays stored."""
        with self._store.writing() as session:
            session.lock_meta(CURRENT)
            yield session

    def _require_columns(self, model: RatioModel, what: str) -> None:
        ours, theirs = _columns(self.get(self.active_version())), _columns(model)
        if ours != theirs:
            raise ModelRefusedError(f"{what} must have the columns of the active one, {ours}, got {theirs}")

    def _require_fit(self, version: str, files: Mapping[str, bytes], trusted: Sequence[str]) -> RatioModel:
        """Load a model, and refuse one that the gate refuses or that has other classes than the streams."""
        model = self._load(files, trusted)
        card = card_of(version, model)
        if card.gate["verdict"] == "refuse":
            reasons = "; ".join(card.gate["reasons"])
            raise ModelRefusedError(f"the deployment gate refuses this model: {reasons}")
        active = self._store.meta(CURRENT)
        if active is not None and self.get(active).classes_.tolist() != model.classes_.tolist():
            raise ModelRefusedError(
                f"the new model must have the streams' classes {self.get(active).classes_.tolist()}, "
                f"got {model.classes_.tolist()}"
            )
        with self._lock:
            self._cards[version] = card
            return self._keep(version, model)

    def _keep(self, version: str, model: RatioModel) -> RatioModel:
        kept = self._loaded.setdefault(version, model)
        self._loaded.move_to_end(version)
        while len(self._loaded) > MAX_LOADED:
            self._loaded.popitem(last=False)
        return kept

    def _load(self, files: Mapping[str, bytes], trusted: Sequence[str]) -> RatioModel:
        with _in_folder(files) as folder:
            try:
                return as_ratio_model(load(folder, trusted=trusted))
            except ObilError as error:
                raise ModelFileError(str(error).replace(str(folder), str(self._folder))) from None


def previous_of(models: Sequence[ModelRow], active: str) -> str:
    """Return the version that was active before the active one."""
    earlier = [one for one in models if one.activated is not None and one.version != active]
    if not earlier:
        raise UnknownModelError("no other version was active before this one")
    return max(earlier, key=lambda one: one.activated or 0.0).version


def _activate(session: Writing, version: str, at: float, by: str) -> None:
    session.set_meta(CURRENT, version)
    session.activate_model(version, at, by)
    if shadow_of(session.meta(SHADOW)).version == version:  # it would be compared with itself
        session.set_meta(SHADOW, "")


def _row_of(version: str, models: Sequence[ModelRow]) -> ModelRow | None:
    return next((one for one in models if one.version == version), None)


def _require_known(version: str, models: Sequence[ModelRow]) -> ModelRow:
    found = _row_of(version, models)
    if found is None:
        raise UnknownModelError(f"there is no version {version!r:.40} of the model")
    return found


@contextmanager
def _in_folder(files: Mapping[str, bytes]) -> Iterator[Path]:
    """Write files to a folder of their own, for as long as they are read."""
    with tempfile.TemporaryDirectory(prefix="obil-model-") as folder:
        for name, content in files.items():
            if name != Path(name).name:
                raise ModelFileError(f"a model must have plain file names, got {name!r:.60}")
            (Path(folder) / name).write_bytes(content)
        yield Path(folder)


def _columns(model: RatioModel) -> Any:
    """Return what rows must look like for a model: the kinds of its columns by name, or their number."""
    if model.columns is not None:
        return {one.name: "category" if one.is_category else "number" for one in model.columns}
    if model.feature_names is not None:
        return dict.fromkeys(model.feature_names, "any")
    return model.n_features


def version_of(files: Mapping[str, bytes]) -> str:
    """Return the version of a model: the hash of its files."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    return digest.hexdigest()[:16]


def card_of(version: str, model: RatioModel) -> ModelCard:
    """Return the model card: classes, columns, the deployment gate's verdict and the reliability diagram."""
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
