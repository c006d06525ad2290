"""Save a ratio model as a folder and load it again: JSON and safetensors, no pickle, every byte checked."""

import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Collection, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from obil.errors import InvalidInputError, ModelFileError
from obil.serving.ratio_model import RatioModel, as_ratio_model
from obil.serving.records import Stored, Written, read_record, write_record

FORMAT, KIND = 1, "ratio_model"
MANIFEST, TENSORS = "manifest.json", "arrays.safetensors"
LARGEST_MANIFEST = 16_000_000  # bytes
LIBRARIES = ("obil", "numpy", "scikit-learn", "skops", "safetensors")


def save(model: Any, folder: str | os.PathLike[str], *, beside: Mapping[str, bytes] | None = None) -> None:
    """Write a fitted classifier's model folder, whole or not at all; `beside` holds further files by name.

    An older model at the same place is replaced; anything else that is there is left alone.

    >>> from obil import RatioClassifier
    >>> model = RatioClassifier.from_scores([-2.0, -1.0, 1.0, -1.0, 1.0, 2.0] * 10, [0, 0, 0, 1, 1, 1] * 10)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/model")
    ...     load(f"{folder}/model").classes_
    array([0, 1])
    """
    fitted = as_ratio_model(model)
    target = Path(folder).resolve()
    _require_replaceable(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise ModelFileError(f"cannot write to {target.parent}: {error.strerror}") from None
    try:
        for name, data in (beside or {}).items():
            (staging / name).write_bytes(data)
        _write(fitted, staging)
        staging.chmod(0o755)
        for file in staging.iterdir():
            file.chmod(0o644)  # one user fits a model, and another one, that of the service, reads it
        _put_in_place(staging, target)
    except OSError as error:
        raise ModelFileError(f"cannot write {target}: {error.strerror}") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _require_replaceable(target: Path) -> None:
    """Refuse a place where something other than a model, or anything beside its files, would be lost."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    try:
        manifest = json.loads((target / MANIFEST).read_text(encoding="utf-8"))
        ours = {MANIFEST, *manifest["files"]} if manifest["kind"] == KIND else set()
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        ours = set()
    if not ours:
        raise ModelFileError(f"{target} exists and is not a model folder: name another, or remove it first")
    foreign = sorted(path.name for path in target.iterdir() if path.name not in ours)
    if foreign:
        raise ModelFileError(f"{target} also holds {foreign[0]!r:.60}, which would be lost: move it, or name another")


def _put_in_place(staging: Path, target: Path) -> None:
    """Rename the new folder to its place; if that fails, the old one is put back."""
    if not target.exists():
        staging.rename(target)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
    try:
        target.rename(aside / "model")
        try:
            staging.rename(target)
        except OSError:
            (aside / "model").rename(target)
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def load(folder: str | os.PathLike[str], *, trusted: Collection[str] = ()) -> RatioModel:
    """Read a model folder, checking every file before anything is built from it.

    A wrapped estimator is built only from listed scikit-learn and imbalanced-learn types; `trusted` names
    further types that you vouch for.

    >>> load("no such folder")
    Traceback (most recent call last):
        ...
    obil.errors.ModelFileError: ...
    """
    source = Path(folder)
    manifest = _read_manifest(source)
    try:
        arrays = load_file(source / TENSORS)
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise ModelFileError(f"{source / TENSORS} is damaged: {error}") from None
    try:
        model: RatioModel = read_record(RatioModel, manifest, Stored(arrays, source, manifest["files"], trusted))
        return model
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError, ValueError, RecursionError) as error:
        if isinstance(error, ModelFileError):
            raise
        reason = str(error) if isinstance(error, InvalidInputError) else f"{type(error).__name__}: {error}"
        raise ModelFileError(f"{source} is no complete model: {reason}") from None


def _write(model: RatioModel, folder: Path) -> None:
    written = Written()
    record = write_record(model, written)
    for name, content in written.files.items():
        (folder / name).write_bytes(content)
    save_file({name: np.ascontiguousarray(values) for name, values in written.arrays.items()}, folder / TENSORS)
    versions = {"python": platform.python_version()} | {name: _version(name) for name in LIBRARIES}
    manifest = {"format": FORMAT, "kind": KIND, "versions": versions} | record
    manifest["files"] = {path.name: _sha256(path) for path in sorted(folder.iterdir())}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def saved_beside(folder: str | os.PathLike[str], name: str) -> bytes | None:
    """Return a file that was saved beside the model, checked by its hash; None where the manifest lists none."""
    source = Path(folder)
    digest = json.loads((source / MANIFEST).read_text(encoding="utf-8"))["files"].get(name)
    if digest is None:
        return None
    data = (source / name).read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise ModelFileError(f"{source / name} was changed or cut short since it was saved")
    return data


def listed_files(folder: Path) -> list[str]:
    """Return the names of the files that make a model folder, each checked by its hash, the manifest first."""
    return [MANIFEST, *sorted(_read_manifest(folder)["files"])]


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
        raise ModelFileError(f"{folder} is not a model folder: it holds no {MANIFEST}")
    try:
        if path.stat().st_size > LARGEST_MANIFEST:
            raise ModelFileError(f"{path} is larger than any manifest")
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path} is damaged: {type(error).__name__}") from None
    if not isinstance(manifest, dict) or manifest.get("kind") != KIND:
        raise ModelFileError(f"{path} does not describe a ratio model")
    number = manifest.get("format")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ModelFileError(f"{path} has no format number")
    if number > FORMAT:
        raise ModelFileError(f"{path} has format {number}, and this version of obil reads up to {FORMAT}: update obil")
    files = manifest.get("files")
    if not isinstance(files, dict) or TENSORS not in files:
        raise ModelFileError(f"{path} does not list its files")
    for name, digest in files.items():
        if name != Path(name).name or not (folder / name).is_file():
            raise ModelFileError(f"{folder} lacks the file {name!r:.60} that its manifest lists")
        if _sha256(folder / name) != digest:
            raise ModelFileError(f"{folder / name} was changed or cut short since it was saved")
    return manifest


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "unknown"
