"""Write a scorer as JSON values and arrays, and build it again from what a file holds, checked."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from obil.arrays import as_prior
from obil.errors import ModelFileError
from obil.serving.dense_network import DenseNetwork, DenseScorer
from obil.serving.ensemble import EnsembleScorer, GatingNetwork
from obil.serving.estimator_file import read_estimator, write_estimator
from obil.serving.features import FeatureMap
from obil.serving.layers import LayerScorer
from obil.serving.onnx_scorer import OnnxNetwork, OnnxScorer
from obil.serving.preprocessing import PreprocessedScorer
from obil.serving.scorers import ColumnScorer, EstimatorScorer, Scorer
from obil.serving.trees import TreeScorer

Arrays = dict[str, npt.NDArray[Any]]
MOST_MEMBERS = 10_000
# scorers that tell everything about themselves as JSON values and arrays
_PLAIN: dict[str, type[DenseScorer] | type[TreeScorer] | type[LayerScorer] | type[PreprocessedScorer]] = {
    "network": DenseScorer,
    "trees": TreeScorer,
    "layers": LayerScorer,
    "preprocessed": PreprocessedScorer,
}


def write_scorer(scorer: Scorer, name: str, folder: Path, arrays: Arrays, *, file: str | None = None) -> dict[str, Any]:
    """Return what JSON keeps of a scorer; arrays are added under `name`, foreign models get their own file."""
    if isinstance(scorer, EstimatorScorer):
        file = f"{name}.skops" if file is None else file
        write_estimator(scorer.estimator, folder / file)
        kind = {"kind": "estimator", "file": file, "method": scorer.method, "n_features": scorer.n_features}
        prior = {"training_prior": scorer.training_prior.tolist(), "floor": scorer.floor}
        return kind | prior | {"reason": scorer.reason}
    if isinstance(scorer, ColumnScorer):
        kind = {"kind": "column", "score": scorer.kind}
        return kind | {"training_prior": scorer.training_prior.tolist(), "floor": scorer.floor}
    if isinstance(scorer, OnnxScorer):
        (folder / f"{name}.onnx").write_bytes(scorer.network.content)
        kind = {"kind": "onnx", "file": f"{name}.onnx", "head": scorer.head}
        return kind | {"training_prior": scorer.training_prior.tolist(), "floor": scorer.floor}
    if isinstance(scorer, EnsembleScorer):
        return _write_ensemble(scorer, name, folder, arrays)
    for kind_name, plain in _PLAIN.items():
        if isinstance(scorer, plain):
            arrays |= _under(name, scorer.arrays())
            return {"kind": kind_name, "scorer": scorer.describe()}
    raise ModelFileError(f"a scorer of type {type(scorer).__name__} has no file format")


def read_scorer(
    saved: Mapping[str, Any],
    name: str,
    folder: Path,
    arrays: Mapping[str, npt.NDArray[Any]],
    *,
    n_classes: int,
    trusted: Collection[str],
) -> Scorer:
    """Return the scorer that `write_scorer` told of."""
    kind = saved["kind"]
    if kind in _PLAIN:
        scorer = _PLAIN[kind].rebuild(saved["scorer"], _own(name, arrays))
        if scorer.training_prior.shape != (n_classes,):
            raise ModelFileError(f"a scorer has {scorer.training_prior.size} classes, the model {n_classes}")
        return scorer
    if kind == "ensemble":
        return _read_ensemble(saved, name, folder, arrays, n_classes=n_classes, trusted=trusted)
    prior, floor = as_prior(saved["training_prior"], n_classes=n_classes), float(saved["floor"])
    if not 0.0 <= floor <= 0.5:
        raise ModelFileError(f"the floor of a model's probabilities lies in [0, .5], got {floor!r}")
    if kind == "column" and saved["score"] in ("probability", "margin"):
        return ColumnScorer(saved["score"], prior, floor)
    if kind == "onnx":
        return OnnxScorer(OnnxNetwork.read(folder / Path(saved["file"]).name), str(saved["head"]), prior, floor)
    if kind == "estimator" and saved["method"] in ("predict_proba", "decision_function"):
        estimator = read_estimator(folder / Path(saved["file"]).name, trusted=trusted)
        width = saved["n_features"]
        width = None if width is None else int(width)
        return EstimatorScorer(estimator, saved["method"], prior, floor, width, str(saved["reason"]))
    raise ModelFileError(f"this version knows no scorer {kind!r:.40}: the model may be from a later one")


def files_of(saved: Any) -> Iterator[Any]:
    """Yield the name of every file that a scorer read from JSON asks for."""
    if isinstance(saved, dict):
        if "file" in saved:
            yield saved["file"]
        for member in saved["members"] if isinstance(saved.get("members"), list) else ():
            yield from files_of(member)


def _write_ensemble(scorer: EnsembleScorer, name: str, folder: Path, arrays: Arrays) -> dict[str, Any]:
    """Write every member; the feature maps that networks share are written once."""
    maps: list[FeatureMap] = []

    def number_of(features: FeatureMap) -> int:
        for number, known in enumerate(maps):
            if known is features:
                return number
        maps.append(features)
        return len(maps) - 1

    members = []
    for number, member in enumerate(scorer.members):
        own = f"{name}.member{number}"
        if isinstance(member, DenseScorer):
            arrays |= _under(own, member.network.arrays())
            training_prior = {"head": member.head, "training_prior": member.training_prior.tolist()}
            members.append({"kind": "shared_network", "features": number_of(member.features)} | training_prior)
        else:
            members.append(write_scorer(member, own, folder, arrays))
    gating = None
    if scorer.gating is not None:
        gating = {"features": number_of(scorer.gating.features)}
        arrays |= _under(f"{name}.gating", scorer.gating.network.arrays())
    for number, features in enumerate(maps):
        arrays |= _under(f"{name}.features{number}", features.arrays())
    arrays[f"{name}.weights"] = scorer.weights
    return {
        "kind": "ensemble",
        "members": members,
        "gating": gating,
        "feature_maps": [features.describe() for features in maps],
    }


def _read_ensemble(
    saved: Mapping[str, Any],
    name: str,
    folder: Path,
    arrays: Mapping[str, npt.NDArray[Any]],
    *,
    n_classes: int,
    trusted: Collection[str],
) -> EnsembleScorer:
    if len(saved["members"]) > MOST_MEMBERS:
        raise ModelFileError(f"an ensemble has at most {MOST_MEMBERS} members, got {len(saved['members'])}")
    maps = [
        FeatureMap.rebuild(described, _own(f"{name}.features{number}", arrays))
        for number, described in enumerate(saved["feature_maps"])
    ]
    members: list[Scorer] = []
    for number, member in enumerate(saved["members"]):
        own = f"{name}.member{number}"
        if member["kind"] == "shared_network":
            network = DenseNetwork.rebuild(_own(own, arrays))
            training_prior = as_prior(member["training_prior"], n_classes=n_classes)
            members.append(DenseScorer(maps[member["features"]], network, str(member["head"]), training_prior))
        else:
            members.append(read_scorer(member, own, folder, arrays, n_classes=n_classes, trusted=trusted))
    gating = None
    if saved["gating"] is not None:
        network = DenseNetwork.rebuild(_own(f"{name}.gating", arrays))
        gating = GatingNetwork(maps[saved["gating"]["features"]], network)
    return EnsembleScorer(tuple(members), np.asarray(arrays[f"{name}.weights"], dtype=np.float64), gating)


def _under(name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Arrays:
    return {f"{name}.{own}": values for own, values in arrays.items()}


def _own(name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Arrays:
    return {full.removeprefix(f"{name}."): values for full, values in arrays.items() if full.startswith(f"{name}.")}
