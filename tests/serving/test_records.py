"""Ensembles come back from a folder to the last bit, and a folder that was tampered with is refused."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from sklearn.linear_model import LogisticRegression

from obil.errors import ModelFileError
from obil.serving import files
from obil.serving.ensemble import EnsembleScorer, GatingNetwork
from obil.serving.files import load, save
from obil.serving.scorers import ColumnScorer, EstimatorScorer, Scorer
from tests.serving.ensembles import (
    N_INPUTS,
    WIDTH,
    as_model,
    binary,
    feature_map,
    network,
    rows,
    softmax_of_three,
    standard_map,
    stump_forest,
)
from tests.serving.stored import arrays_of

GOLDEN = Path(__file__).parent / "golden" / "network_1"


def complete(n: int = 60) -> np.ndarray:
    """Rows without gaps, which a linear model takes too."""
    return np.nan_to_num(rows(n, seed=1))


def logistic(n_classes: int) -> EstimatorScorer:
    fitted = LogisticRegression().fit(np.nan_to_num(rows(90, seed=4)), np.arange(90) % n_classes)
    return EstimatorScorer(fitted, "predict_proba", np.full(n_classes, 1.0 / n_classes), 1e-12, WIDTH)


def networks(n: int = 2) -> list[Any]:
    features = feature_map()
    return [binary(features, seed, prior=0.2 + 0.05 * seed) for seed in range(n)]


def gated() -> EnsembleScorer:
    members = networks()
    gating = GatingNetwork(members[0].features, network((N_INPUTS, 5, 2), seed=9))
    return EnsembleScorer(tuple(members), np.array([0.4, 0.6]), gating)


def mixed(n_classes: int = 2) -> EnsembleScorer:
    if n_classes == 2:
        first, second = networks()
    else:
        features = feature_map(straight=True)
        first, second = softmax_of_three(features, 0), softmax_of_three(features, 1, head="one_vs_rest")
    members = (first, stump_forest(n_classes), logistic(n_classes), second)
    return EnsembleScorer(members, np.array([0.1, 0.2, 0.3, 0.4]))


def graph() -> Scorer:
    """An ONNX graph on rows of six numbers, beside nothing else that takes them."""
    from obil.serving.networks.onnx_scorer import OnnxNetwork, OnnxScorer
    from tests.serving.onnx_models import linear

    weight = np.linspace(-1.0, 1.0, 6, dtype=np.float32)[:, None]
    network = OnnxNetwork(linear(weight, np.ones(1, dtype=np.float32)).SerializeToString())
    return OnnxScorer(network, "tanh", np.array([0.8, 0.2]))


def graph_beside_trees() -> EnsembleScorer:
    from dataclasses import replace

    return EnsembleScorer((graph(), replace(stump_forest(), n_features=6), graph()), np.array([0.2, 0.3, 0.5]))


def six(n: int = 60) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(n, 6)).astype(np.float32)


CASES: dict[str, tuple[Callable[[], Scorer], int, Callable[[], Any]]] = {
    "one network": (lambda: networks(1)[0], 2, lambda: rows(60)),
    "one network of three classes": (lambda: softmax_of_three(feature_map(), 0), 3, lambda: rows(60)),
    "trees": (stump_forest, 2, lambda: rows(60)),
    "networks": (lambda: EnsembleScorer(tuple(networks(3)), np.array([0.2, 0.3, 0.5])), 2, lambda: rows(60)),
    "networks with a gating network": (gated, 2, lambda: rows(60)),
    "networks, trees and an estimator": (mixed, 2, complete),
    "three classes": (lambda: mixed(3), 3, complete),
    "networks of features of their own": (
        lambda: EnsembleScorer((binary(feature_map(), 0), binary(standard_map(), 1)), np.full(2, 0.5)),
        2,
        lambda: rows(60),
    ),
    "an ensemble in an ensemble": (
        lambda: EnsembleScorer((gated(), mixed(), stump_forest()), np.array([0.3, 0.3, 0.4])),
        2,
        complete,
    ),
    "eleven members": (lambda: EnsembleScorer(tuple(networks(11)), np.full(11, 1 / 11)), 2, lambda: rows(60)),
    "columns": (
        lambda: EnsembleScorer(
            (ColumnScorer("margin", np.array([0.5, 0.5])), ColumnScorer("margin", np.array([0.9, 0.1]))),
            np.array([0.5, 0.5]),
        ),
        2,
        lambda: np.linspace(-3.0, 3.0, 20),
    ),
    "a graph": (graph, 2, six),
    "graphs beside trees": (graph_beside_trees, 2, six),
}


@pytest.mark.parametrize("case", CASES)
def test_an_ensemble_comes_back_to_the_last_bit(case: str, tmp_path: Path) -> None:
    make, n_classes, draw = CASES[case]
    model, fresh = as_model(make(), n_classes), draw()
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.log_ratios(fresh).tobytes() == model.log_ratios(fresh).tobytes()
    one = fresh[:1]
    assert loaded.log_ratios(one).tobytes() == model.log_ratios(one).tobytes()
    assert loaded.scorer.n_features == model.scorer.n_features
    save(loaded, tmp_path / "again")
    assert {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()} == {
        path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()
    }


@pytest.mark.parametrize("make", [gated, mixed, lambda: EnsembleScorer(tuple(networks(3)), np.full(3, 1 / 3))])
def test_networks_have_one_feature_map_again_and_run_as_one_stack(
    make: Callable[[], EnsembleScorer], tmp_path: Path
) -> None:
    save(as_model(make()), tmp_path / "model")
    scorer: Any = load(tmp_path / "model").scorer
    dense = [member for member in scorer.members if hasattr(member, "network")]
    assert len({id(member.features) for member in dense}) == 1
    assert [len(stack.rest) for stack in scorer.stacks] == [len(dense)]
    assert len(scorer.others) == len(scorer.members) - len(dense)
    if scorer.gating is not None:
        assert scorer.gating.features is dense[0].features


def test_features_that_are_not_shared_stay_apart(tmp_path: Path) -> None:
    save(as_model(CASES["networks of features of their own"][0]()), tmp_path / "model")
    scorer: Any = load(tmp_path / "model").scorer
    assert len(scorer.stacks) == 2
    assert [member.features.straight for member in scorer.members] == [False, True]


def test_shared_features_are_written_once(tmp_path: Path) -> None:
    save(as_model(gated()), tmp_path / "model")
    names = set(load_file(tmp_path / "model" / "arrays.safetensors"))
    assert {name for name in names if "layout" in name} == {"scorer.members0.features.layout"}


def test_a_scorer_without_a_format_is_refused_when_saved(tmp_path: Path) -> None:
    class Foreign:
        n_features, n_classes = WIDTH, 2

        def scores(self, X: Any) -> Any:
            return np.zeros((len(X), 2))

    with pytest.raises(ModelFileError, match="Foreign"):
        save(as_model(EnsembleScorer((Foreign(), stump_forest()), np.full(2, 0.5))), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def tampered(
    folder: Path,
    *,
    manifest: Callable[[dict[str, Any]], object] | None = None,
    arrays: Callable[[dict[str, Any]], object] | None = None,
) -> None:
    """Change a manifest or the arrays and make the sums right again, as one who means harm would."""
    if arrays is not None:
        held = load_file(folder / "arrays.safetensors")
        arrays(held)
        save_file({name: np.ascontiguousarray(values) for name, values in held.items()}, folder / "arrays.safetensors")
    told = json.loads((folder / "manifest.json").read_text())
    told["files"] = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.name != "manifest.json"
    }
    if manifest is not None:
        manifest(told)
    (folder / "manifest.json").write_text(json.dumps(told))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A saved ensemble of two networks, trees, an estimator and nothing that weighs them."""
    save(as_model(mixed()), tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def gated_folder(tmp_path: Path) -> Path:
    """A saved ensemble of two networks and the network that weighs them."""
    save(as_model(gated()), tmp_path / "model")
    return tmp_path / "model"


def member(number: int, **change: Any) -> Callable[[dict[str, Any]], object]:
    return lambda told: told["scorer"]["members"][number].update(change)


def scorer(**change: Any) -> Callable[[dict[str, Any]], object]:
    return lambda told: told["scorer"].update(change)


def features(**change: Any) -> Callable[[dict[str, Any]], object]:
    return lambda told: told["scorer"]["members"][0]["features"].update(change)


HOSTILE_MANIFESTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "an unknown kind": member(0, kind="pickle"),
    "no kind": lambda told: told["scorer"]["members"][0].pop("kind"),
    "a kind that is a list": member(1, kind=["trees"]),
    "a member that is a string": lambda told: told["scorer"]["members"].__setitem__(0, "network"),
    "a member that is nothing": lambda told: told["scorer"]["members"].__setitem__(0, None),
    "members that are none": scorer(members=[]),
    "members that are a string": scorer(members="abcd"),
    "members that are missing": lambda told: told["scorer"].pop("members"),
    "a member too few": lambda told: told["scorer"]["members"].pop(),
    "a member too many": lambda told: told["scorer"]["members"].append(told["scorer"]["members"][1]),
    "ten thousand members": lambda told: told["scorer"].update(members=[told["scorer"]["members"][0]] * 10_001),
    "features that do not exist": member(3, features={"same_as": "scorer.members7.features"}),
    "features that come later": member(0, features={"same_as": "scorer.members3.features"}),
    "features that are a network": member(3, features={"same_as": "scorer.members0.network"}),
    "features that are trees": member(3, features={"same_as": "scorer.members1"}),
    "features that are the ensemble itself": member(3, features={"same_as": "scorer"}),
    "features that are a list": member(3, features={"same_as": ["scorer.members0.features"]}),
    "features that are a string": member(0, features="0"),
    "features that are nothing": member(0, features=None),
    "features without a description": member(0, features={}),
    "a curve that is neither straight nor flat": features(straight=1),
    "a row narrower than its columns": features(n_features=WIDTH - 1),
    "a row wider than that of the other members": features(n_features=WIDTH + 1),
    "arrays that are named by a number": features(curves=3),
    "an array that is another's": features(curves="scorer.members0.features.layout"),
    "layers that are no list": member(0, network={"weights": "scorer.members0.network.weights0", "biases": []}),
    "a network of one class": member(0, training_prior=[1.0]),
    "a network of three classes": member(0, training_prior=[0.5, 0.3, 0.2]),
    "a weight of 0": member(0, training_prior=[1.0, 0.0]),
    "an unknown head": member(0, head="sigmoid"),
    "a softmax with one output": member(0, head="softmax"),
    "trees of three classes": member(1, training_prior=[0.5, 0.3, 0.2]),
    "trees of an unknown kind": member(1, link="grove"),
    "trees without a prior of a class": member(1, training_prior=[1.0, 0.0]),
    "trees of a narrower row": member(1, n_features=3),
    "trees of a wider row": member(1, n_features=5),
    "an estimator's file that is not listed": member(2, estimator="other.skops"),
    "an estimator's file outside the folder": member(2, estimator="../scorer.members2.skops"),
    "an estimator's file that is a number": member(2, estimator=7),
    "an estimator's file that holds arrays": member(2, estimator="arrays.safetensors"),
    "an estimator's method that is none": member(2, method="fit"),
    "an estimator of three classes": member(2, training_prior=[0.5, 0.3, 0.2]),
    "an estimator's floor above one half": member(2, floor=0.9),
    "three classes all over": lambda told: told.update(classes=[0, 1, 2]),
    "a gating network of features that do not exist": scorer(
        gating={"features": {"same_as": "scorer.members9.features"}}
    ),
    "a gating network without a network": scorer(gating={"features": {"same_as": "scorer.members0.features"}}),
    "a gating network that is a string": scorer(gating="yes"),
    "a gating network that is missing": lambda told: told["scorer"].pop("gating"),
}


@pytest.mark.parametrize("change", HOSTILE_MANIFESTS)
def test_a_manifest_of_an_ensemble_that_says_nonsense_is_refused(change: str, folder: Path) -> None:
    tampered(folder, manifest=HOSTILE_MANIFESTS[change])
    with pytest.raises(ModelFileError):
        load(folder)


THREE_CLASSES: dict[str, Callable[[], Scorer]] = {
    "a network": lambda: softmax_of_three(feature_map(), 0),
    "trees": lambda: stump_forest(3),
    "an estimator": lambda: logistic(3),
    "an ensemble of networks": lambda: EnsembleScorer((softmax_of_three(feature_map(), 0),), np.ones(1)),
    "an ensemble of trees": lambda: EnsembleScorer((stump_forest(3), stump_forest(3, seed=1)), np.full(2, 0.5)),
    "an ensemble of ensembles": lambda: EnsembleScorer((mixed(3), mixed(3)), np.full(2, 0.5)),
}


@pytest.mark.parametrize("kind", THREE_CLASSES)
def test_a_scorer_of_three_classes_in_a_model_of_two_is_refused(kind: str, tmp_path: Path) -> None:
    save(as_model(THREE_CLASSES[kind](), 2), tmp_path / "model")
    with pytest.raises(ModelFileError, match="classes"):
        load(tmp_path / "model")


def test_a_file_that_a_member_names_deep_inside_must_be_listed_too(tmp_path: Path) -> None:
    save(as_model(EnsembleScorer((mixed(), stump_forest()), np.full(2, 0.5))), tmp_path / "model")
    skops = next((tmp_path / "model").glob("*.skops"))
    shutil.copy(skops, tmp_path / "model" / "other.skops")

    def unlist(told: dict[str, Any]) -> None:
        told["scorer"]["members"][0]["members"][2]["estimator"] = "other.skops"
        del told["files"]["other.skops"]

    tampered(tmp_path / "model", manifest=unlist)
    with pytest.raises(ModelFileError, match="stored as"):
        load(tmp_path / "model")


@pytest.mark.parametrize("depth", [5, 100, 450, 490])
def test_ensembles_nested_without_end_are_refused(depth: int, folder: Path) -> None:
    """Written by hand, since Python's own writer gives up before its reader does."""
    tampered(folder)
    told = (folder / "manifest.json").read_text()
    scorer = json.dumps(json.loads(told)["scorer"])
    nested = (
        '{"kind": "ensemble", "members": [' * depth + scorer + '], "gating": null, "weights": "scorer.weights"}' * depth
    )
    assert scorer in told
    (folder / "manifest.json").write_text(told.replace(scorer, nested))
    with pytest.raises(ModelFileError):
        load(folder)


def test_ensembles_nested_deeper_than_python_can_follow_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From Python 3.12 on the reader of JSON goes deeper than functions can: its result is put in here."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for _ in range(2_000):
        own = {"kind": "ensemble", "members": [manifest["scorer"]], "gating": None, "weights": "scorer.weights"}
        manifest["scorer"] = own
    monkeypatch.setattr(files, "_read_manifest", lambda _: manifest)
    with pytest.raises(ModelFileError):
        load(folder)


def replaced(**change: Any) -> Callable[[dict[str, Any]], object]:
    return lambda arrays: arrays.update({name.replace("__", "."): values for name, values in change.items()})


NARROW = arrays_of(network((3, 6, 5, 1)), "scorer.members0.network")
TWO_OUTPUTS = arrays_of(network((N_INPUTS, 6, 5, 2)), "scorer.members0.network")
HOSTILE_ARRAYS: dict[str, Callable[[dict[str, Any]], object]] = {
    "a network of fewer inputs than its features give": lambda arrays: arrays.update(NARROW),
    "a binary network of two outputs": lambda arrays: arrays.update(TWO_OUTPUTS),
    "a network without a layer": lambda arrays: arrays.pop("scorer.members0.network.weights1"),
    "a network without its last layer": lambda arrays: (
        arrays.pop("scorer.members0.network.weights2"),
        arrays.pop("scorer.members0.network.biases2"),
    ),
    "a network without layers": lambda arrays: [
        arrays.pop(name) for name in list(arrays) if name.startswith("scorer.members0.network.")
    ],
    "features without a layout": lambda arrays: arrays.pop("scorer.members0.features.layout"),
    "features without curves": lambda arrays: arrays.pop("scorer.members0.features.curves"),
    "curves that are not numbers": replaced(scorer__members0__features__curves=np.full((2, 14), np.nan)),
    "a layout that wraps round": replaced(
        scorer__members0__features__layout=np.array([[0, 0, 1, -(2**63)]] * N_INPUTS)
    ),
    "a layout of another type": replaced(scorer__members0__features__layout=np.full((N_INPUTS, 4), np.nan)),
    "trees in a circle": replaced(scorer__members1__nodes__child=np.zeros(8, dtype=np.int32)),
    "trees without values": lambda arrays: arrays.pop("scorer.members1.values"),
    "no weights": lambda arrays: arrays.pop("scorer.weights"),
    "weights of other members": replaced(scorer__weights=np.full(3, 1 / 3)),
    "negative weights": replaced(scorer__weights=np.array([-0.1, 0.5, 0.3, 0.3])),
    "weights that are not numbers": replaced(scorer__weights=np.full(4, np.nan)),
    "weights as a table": replaced(scorer__weights=np.full((4, 1), 0.25)),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, of casting NaN to an integer
@pytest.mark.parametrize("change", HOSTILE_ARRAYS)
def test_arrays_that_fit_no_ensemble_are_refused(change: str, folder: Path) -> None:
    tampered(folder, arrays=HOSTILE_ARRAYS[change])
    with pytest.raises(ModelFileError):
        load(folder)


@pytest.mark.parametrize("widths", [(N_INPUTS, 5, 1), (N_INPUTS, 5, 3), (3, 5, 2), (N_INPUTS + 1, 5, 2)])
def test_a_gating_network_that_does_not_fit_its_features_and_members_is_refused(
    widths: tuple[int, ...], gated_folder: Path
) -> None:
    """One row is written past the end of a narrower network: what the kernel reads is checked here or nowhere."""
    gating = arrays_of(network(widths), "scorer.gating.network")
    tampered(gated_folder, arrays=lambda arrays: arrays.update(gating))
    with pytest.raises(ModelFileError):
        load(gated_folder)


def test_the_golden_network_stays_loadable() -> None:
    """Made once by tests/serving/golden/make_network_1.py; its log ratios are those of the day it was made."""
    model = load(GOLDEN)
    scorer: Any = model.scorer
    assert model.classes_.tolist() == ["ill", "well"]
    assert [len(stack.rest) for stack in scorer.stacks] == [2]
    assert scorer.stacks[0].gating is None
    assert len(scorer.others) == 2
    told = json.loads((GOLDEN.parent / "network_1_expected.json").read_text())
    fresh = np.array([[np.nan if cell is None else cell for cell in row] for row in told["rows"]])
    # sums in float32 in another order differ by rounding at most
    np.testing.assert_allclose(model.log_ratios(fresh)[:, 1], told["log_ratios"], rtol=1e-6, atol=1e-6)
    alone = np.concatenate([model.log_ratios(fresh[[i]]) for i in range(len(fresh))])
    np.testing.assert_allclose(alone[:, 1], told["log_ratios"], rtol=1e-6, atol=1e-6)


def test_the_golden_network_with_a_gating_network_stays_loadable() -> None:
    model = load(GOLDEN.parent / "network_1_gated")
    scorer: Any = model.scorer
    assert scorer.stacks[0].gating is not None
    told = json.loads((GOLDEN.parent / "network_1_expected.json").read_text())
    fresh = np.array([[np.nan if cell is None else cell for cell in row] for row in told["rows"]])
    np.testing.assert_allclose(model.log_ratios(fresh)[:, 1], told["gated_log_ratios"], rtol=1e-6, atol=1e-6)
    alone = np.concatenate([model.log_ratios(fresh[[i]]) for i in range(len(fresh))])
    np.testing.assert_allclose(alone[:, 1], told["gated_log_ratios"], rtol=1e-6, atol=1e-6)
