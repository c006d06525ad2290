"""A model folder gives back the model to the last bit, and is refused when it is anything else."""

import hashlib
import json
import shutil
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from obil.errors import InvalidInputError, ModelFileError
from obil.estimators.ratio_classifier import RatioClassifier
from obil.serving import files
from obil.serving.files import load, save
from obil.serving.ratio_model import RatioModel
from tests.serving.cases import MODELS, pair_rows, service_rows
from tests.serving.stored import arrays_of

N_FOLDS = {"frozen": 1, "held out once": 1, "refitted, with views": 2}  # where that is not the default
GOLDEN = Path(__file__).parent / "golden" / "format_1"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def assert_same_arrays(first: Any, second: Any) -> None:
    own, others = arrays_of(first), arrays_of(second)
    assert {name: values.tobytes() for name, values in own.items()} == {n: v.tobytes() for n, v in others.items()}


def assert_same_model(first: RatioModel, second: RatioModel, rows: Any) -> None:
    assert first.log_ratios(rows).tobytes() == second.log_ratios(rows).tobytes()
    assert first.score(rows).evidence.tobytes() == second.score(rows).evidence.tobytes()
    assert first.classes_.tolist() == second.classes_.tolist()
    assert first.classes_.dtype.kind == second.classes_.dtype.kind
    assert first.prior_.tobytes() == second.prior_.tobytes()
    for field in ("log_ratios", "labels", "weights"):
        assert getattr(first.holdout_, field).tobytes() == getattr(second.holdout_, field).tobytes()
    assert_same_arrays(first.calibrator, second.calibrator)
    assert (first.evidence is None) == (second.evidence is None)
    if first.evidence is not None and second.evidence is not None:
        assert_same_arrays(first.evidence.calibrator, second.evidence.calibrator)
        assert first.evidence.scores.tobytes() == second.evidence.scores.tobytes()
        for part in ("tolerance", "choice"):
            assert getattr(first.evidence, part) == getattr(second.evidence, part)
    assert first.feature_names == second.feature_names
    assert first.encoder == second.encoder
    assert [view.holdout.tobytes() for view in first.view_members] == [
        view.holdout.tobytes() for view in second.view_members
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A saved model with an estimator in it."""
    save(MODELS["naive Bayes"](), tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_back_to_the_last_bit(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    assert bool(model.view_members) == name.endswith("with views")
    assert model.n_folds == N_FOLDS.get(name, 1 if name.startswith("scores") else 5)
    save(model, tmp_path / "model")
    assert_same_model(model, load(tmp_path / "model"), service_rows(name))


@pytest.mark.parametrize("sampler", ["SMOTE", "RandomUnderSampler", "forest"])
def test_models_of_imbalanced_learn_come_back_to_the_last_bit(sampler: str, tmp_path: Path) -> None:
    pytest.importorskip("imblearn", reason="the extra 'experiments' is not installed")
    from imblearn.ensemble import BalancedRandomForestClassifier
    from imblearn.over_sampling import SMOTE
    from imblearn.pipeline import make_pipeline
    from imblearn.under_sampling import RandomUnderSampler

    samplers = {"SMOTE": SMOTE, "RandomUnderSampler": RandomUnderSampler}
    estimator = (
        BalancedRandomForestClassifier(5, random_state=0)
        if sampler == "forest"
        else make_pipeline(samplers[sampler](random_state=0), LogisticRegression())
    )
    model = RatioClassifier(estimator, random_state=0).fit(*pair_rows()).model_
    save(model, tmp_path / "model")
    assert_same_model(model, load(tmp_path / "model"), pair_rows(60, seed=1)[0])


def test_a_loaded_model_can_be_saved_again(folder: Path, tmp_path: Path) -> None:
    save(load(folder), tmp_path / "again")
    assert_same_model(load(folder), load(tmp_path / "again"), pair_rows(60, seed=1)[0])


@pytest.mark.parametrize("name", ["scores, margin", "scores, isotonic", "logistic, affine", "boosting", "with views"])
def test_saving_twice_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    save(model, tmp_path / "first")
    save(model, tmp_path / "second")
    assert contents(tmp_path / "first") == contents(tmp_path / "second")


def test_the_manifest_tells_no_time_and_names_every_file(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    assert set(manifest) == {
        "format", "kind", "versions", "scorer", "calibrator", "classes", "prior", "holdout", "feature_names", "encoder",
        "view_members", "calibration", "advice", "evidence", "inputs", "files",
    }  # fmt: skip
    assert set(manifest["files"]) == set(contents(folder)) - {"manifest.json"}


def test_a_newer_model_replaces_the_old_one_and_leaves_nothing_beside_it(folder: Path) -> None:
    model = MODELS["scores, margin"]()
    save(model, folder)
    assert [path.name for path in folder.parent.iterdir()] == ["model"]
    assert_same_model(model, load(folder), service_rows("scores, margin"))


def test_a_folder_that_is_not_a_model_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.txt").write_text("ten years of work")
    (tmp_path / "notes").write_text("a file")
    for name in ("thesis", "notes"):
        with pytest.raises(ModelFileError, match="not a model folder"):
            save(MODELS["scores, margin"](), tmp_path / name)
    assert (tmp_path / "thesis" / "chapter1.txt").read_text() == "ten years of work"
    assert (tmp_path / "notes").read_text() == "a file"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes", "thesis"]


def test_a_folder_with_a_foreign_manifest_is_never_overwritten(tmp_path: Path) -> None:
    """Web extensions have a manifest.json too."""
    (tmp_path / "extension").mkdir()
    (tmp_path / "extension" / "manifest.json").write_text('{"manifest_version": 3, "name": "my extension"}')
    (tmp_path / "extension" / "background.js").write_text("work")
    with pytest.raises(ModelFileError, match="not a model folder"):
        save(MODELS["scores, margin"](), tmp_path / "extension")
    assert (tmp_path / "extension" / "background.js").read_text() == "work"


def test_a_save_that_fails_leaves_the_old_model_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(folder)

    def no_space(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "_write", no_space)
    with pytest.raises(ModelFileError, match="No space left"):
        save(MODELS["scores, margin"](), folder)
    assert contents(folder) == before
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    save(MODELS["scores, margin"](), tmp_path)
    assert load(tmp_path).n_classes == 2


def test_an_estimator_without_a_safe_form_is_refused_when_saved(tmp_path: Path) -> None:
    model = RatioClassifier(GaussianNB(), random_state=0).fit(*pair_rows())
    model.model_.scorer.folds[1].estimator.callback = (value for value in range(3))
    with pytest.raises(ModelFileError, match="without pickle"):
        save(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_only_a_fitted_model_can_be_saved(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="not fitted"):
        save(RatioClassifier(), tmp_path / "model")
    with pytest.raises(InvalidInputError, match="gives no calibrated log ratios"):
        save({"not": "a model"}, tmp_path / "model")


@pytest.mark.parametrize("name", ["manifest.json", "arrays.safetensors", "scorer.folds0.skops"])
@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "gone", "noise"])
def test_a_damaged_file_is_refused(name: str, damage: str, folder: Path) -> None:
    path = folder / name
    whole = path.read_bytes()
    middle = len(whole) // 2
    damaged = {
        "cut": whole[:middle],
        "empty": b"",
        "flipped": whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :],
        "noise": np.random.default_rng(0).bytes(len(whole)),
    }
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(damaged[damage])
    with pytest.raises(ModelFileError):
        load(folder)


def rewritten(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest and make its sums right again, as one who means harm would."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"] = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.name != "manifest.json"
    }
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "change",
    [
        {"format": 0},
        {"format": "1"},
        {"format": True},
        {"format": None},
        {"kind": "something else"},
        {"classes": [0]},
        {"classes": [0, 0]},
        {"classes": [0, 1, 2]},
        {"classes": "ab"},
        {"classes": None},
        {"classes": [[0, 1], [2, 3]]},
        {"classes": [0, {"a": 1}]},
        {"scorer": None},
        {"scorer": {"kind": "pickle", "file": "x", "training_prior": [0.5, 0.5], "floor": 0.0}},
        {"scorer": {"kind": "column", "link": "rank", "training_prior": [0.5, 0.5], "floor": 0.0}},
        {"scorer": {"kind": "column", "link": "margin", "training_prior": [0.5, 0.6], "floor": 0.0}},
        {"scorer": {"kind": "column", "link": "margin", "training_prior": [0.5, 0.5], "floor": "none"}},
        {
            "scorer": {
                "kind": "linear",
                "slopes": "calibrator.slopes",
                "offsets": "calibrator.offsets",
                "axes": "calibrator.axes",
            }
        },
        {"calibrator": None},
        {"calibrator": {"kind": "column", "link": "margin", "training_prior": [0.5, 0.5], "floor": 0.0}},
        {"prior": "no such array"},
        {"prior": ["prior"]},
        {"prior": "holdout.labels"},
        {"view_members": None},
        {"view_members": [{"features": [0], "scorer": {}}]},
        {"feature_names": 7},
        {"feature_names": [1, 2]},
        {"encoder": {"columns": [{"name": "age"}]}},
        {"encoder": {"columns": [{"name": "age", "levels": None}] * 2}},
        {"encoder": {"columns": 3}},
        {"encoder": 3},
        {"advice": {"lead": "none", "start_weights": None}},
        {"advice": 3},
        {"files": []},
        {"files": {}},
        {"files": {"arrays.safetensors": 3}},
        {"files": {"../../etc/passwd": "0", "arrays.safetensors": "0"}},
    ],
)
def test_a_manifest_that_says_nonsense_is_refused(change: dict[str, Any], folder: Path) -> None:
    rewritten(folder, lambda manifest: manifest.update(change))
    with pytest.raises(ModelFileError):
        load(folder)


@pytest.mark.parametrize("text", ["", "null", "[]", "3", '"model"', "{", "[" * 100_000, '{"kind": "ratio_model"}'])
def test_a_manifest_that_is_no_object_is_refused(text: str, folder: Path) -> None:
    (folder / "manifest.json").write_text(text)
    with pytest.raises(ModelFileError):
        load(folder)


def test_a_newer_format_says_to_update(folder: Path) -> None:
    rewritten(folder, lambda manifest: manifest.update(format=2))
    with pytest.raises(ModelFileError, match="update obil"):
        load(folder)


@pytest.mark.parametrize("name", ["calibrator.slopes", "prior", "holdout.log_ratios", "holdout.labels"])
@pytest.mark.parametrize("damage", ["missing", "shape", "nan"])
def test_arrays_that_fit_no_model_are_refused(name: str, damage: str, folder: Path) -> None:
    from safetensors.numpy import load_file, save_file

    arrays = load_file(folder / "arrays.safetensors")
    if damage == "missing":
        del arrays[name]
    else:
        arrays[name] = np.zeros(5) if damage == "shape" else np.full(arrays[name].shape, np.nan)
    save_file(arrays, folder / "arrays.safetensors")
    rewritten(folder, lambda manifest: None)
    with pytest.raises(ModelFileError):
        load(folder)


@pytest.mark.parametrize("slope", [0.0, -1.0])
def test_a_calibrator_that_turns_the_ranking_round_is_refused(slope: float, folder: Path) -> None:
    from safetensors.numpy import load_file, save_file

    arrays = load_file(folder / "arrays.safetensors")
    arrays["calibrator.slopes"] = np.array([1.0, slope])
    save_file(arrays, folder / "arrays.safetensors")
    rewritten(folder, lambda manifest: None)
    with pytest.raises(ModelFileError):
        load(folder)


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("nothing", "file", "."):
        with pytest.raises(ModelFileError, match="not a model folder"):
            load(tmp_path / name)


def test_a_foreign_type_is_refused_without_being_imported(folder: Path, tmp_path: Path) -> None:
    """The estimator's file names a module whose import would leave a trace."""
    (tmp_path / "hostile_module.py").write_text(
        f"open({str(tmp_path / 'trace')!r}, 'w').close()\n\nclass Payload:\n    pass\n"
    )
    skops = folder / "scorer.folds0.skops"
    with zipfile.ZipFile(skops) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(members["schema.json"])
    schema["__class__"], schema["__module__"] = "Payload", "hostile_module"
    members["schema.json"] = json.dumps(schema).encode()
    with zipfile.ZipFile(skops, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    rewritten(folder, lambda manifest: None)
    program = f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import obil
        from obil.errors import ModelFileError
        try:
            obil.load({str(folder)!r})
        except ModelFileError as error:
            assert "hostile_module.Payload" in str(error) and "trusted=" in str(error), error
        else:
            raise SystemExit("loaded")
        assert "hostile_module" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
    assert not (tmp_path / "trace").exists()


def test_a_function_in_place_of_an_estimator_is_refused(folder: Path, tmp_path: Path) -> None:
    """`os.system` as the class to build, with a command as its argument."""
    skops = folder / "scorer.folds0.skops"
    schema = {
        "__class__": "system", "__module__": "os", "__loader__": "ObjectNode",
        "content": {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode",
                    "content": json.dumps(f"touch {tmp_path / 'trace'}"), "is_json": True, "__id__": 2},
        "__id__": 1, "protocol": 2, "_skops_version": "0.11",
    }  # fmt: skip
    with zipfile.ZipFile(skops, "w") as archive:
        archive.writestr("schema.json", json.dumps(schema))
    rewritten(folder, lambda manifest: None)
    with pytest.raises(ModelFileError):
        load(folder)
    assert not (tmp_path / "trace").exists()


def test_a_type_of_the_users_own_loads_when_it_is_trusted(tmp_path: Path) -> None:
    model = RatioClassifier(OwnClassifier(), random_state=0).fit(*pair_rows()).model_
    save(model, tmp_path / "model")
    own = f"{OwnClassifier.__module__}.OwnClassifier"
    with pytest.raises(ModelFileError, match="OwnClassifier"):
        load(tmp_path / "model")
    assert_same_model(model, load(tmp_path / "model", trusted=[own]), pair_rows(60, seed=1)[0])


class OwnClassifier(GaussianNB):
    pass


def test_the_golden_model_of_format_1_stays_loadable() -> None:
    """Made once by tests/serving/golden/make_format_1.py; its log ratios are those of the day it was made."""
    model = load(GOLDEN)
    assert model.classes_.tolist() == ["ill", "well"]
    expected = np.array(json.loads((GOLDEN.parent / "format_1_expected.json").read_text()))
    # the formula is a line, so other versions of numpy differ by rounding at most
    np.testing.assert_allclose(model.log_ratios([-2.0, 0.0, 3.5])[:, 1], expected, rtol=1e-12)


def test_serving_scores_loads_neither_scikit_learn_nor_pandas(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "model")
    program = f"""
        import sys
        import obil
        online = obil.OnlineClassifier(obil.load({str(tmp_path / "model")!r}), policy=obil.policies.FBetaPolicy())
        online.decide([1.5])
        online.decide_many([0.5, -1.5])
        online.interval()
        obil.estimate_prior(online.model, [0.5, -1.5, 2.0, 0.0])
        obil.OnlineClassifier.from_state(online.model, online.state())
        heavy = {{"sklearn", "pandas", "torch", "skops", "matplotlib"}} & set(sys.modules)
        assert not heavy, heavy
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)


def test_files_beside_a_model_are_never_lost(tmp_path: Path) -> None:
    model = RatioClassifier.from_scores([0.1, 0.2, 0.3, 0.7, 0.6, 0.8], [0, 0, 1, 0, 1, 1])
    save(model, tmp_path / "model")
    (tmp_path / "model" / "report.html").write_text("mine")
    with pytest.raises(ModelFileError, match=r"report\.html"):
        save(model, tmp_path / "model")
    assert (tmp_path / "model" / "report.html").read_text() == "mine"
    (tmp_path / "model" / "report.html").unlink()
    (tmp_path / "current").symlink_to(tmp_path / "model")
    save(model, tmp_path / "current")
    assert (tmp_path / "current").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["current", "model"]


def test_a_spline_comes_back_as_a_spline(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    labels = rng.integers(2, size=400)
    model = RatioClassifier.from_scores(labels + rng.normal(size=400), labels, kind="margin", calibration="spline")
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").calibration == "spline"


def test_a_replacement_that_fails_midway_puts_the_old_model_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = RatioClassifier.from_scores([0.1, 0.2, 0.3, 0.7, 0.6, 0.8], [0, 0, 1, 0, 1, 1])
    save(model, tmp_path / "model")
    before = (tmp_path / "model" / "manifest.json").read_bytes()
    renamed = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if target == tmp_path / "model" and self.name != "model":  # the new folder on its way in
            raise OSError(28, "No space left on device")
        return renamed(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(ModelFileError, match="No space left"):
        save(model, tmp_path / "model")
    monkeypatch.undo()
    assert (tmp_path / "model" / "manifest.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
