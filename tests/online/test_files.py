"""A stream that is saved, pickled or copied continues as if nothing had happened."""

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import obil
from obil.errors import InvalidStateError, ModelFileError
from obil.online.files import STREAM
from obil.online.online_classifier import OnlineClassifier
from obil.policies import FBetaPolicy
from obil.serving.ratio_model import RatioModel
from tests.online.cases import pair_model, pair_scores, triangle_model, triangle_scores


def through_files(online: OnlineClassifier, folder: Path) -> Any:
    obil.save(online, folder / "stream")
    return obil.load(folder / "stream")


def through_pickle(online: OnlineClassifier, _: Path) -> Any:
    return pickle.loads(pickle.dumps(online))


@pytest.mark.parametrize("restored", [through_files, through_pickle, lambda online, _: copy.deepcopy(online)])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_restored_stream_continues_bit_for_bit(
    restored: Callable[[OnlineClassifier, Path], Any], n_classes: int, tmp_path: Path
) -> None:
    if n_classes == 2:
        online = OnlineClassifier(pair_model(), policy=FBetaPolicy(), positive="fine")
        rows = pair_scores(600, 0.4, seed=3)
    else:
        online = OnlineClassifier(triangle_model())
        rows = triangle_scores(600, [0.2, 0.2, 0.6], seed=3)
    online.decide_many(rows[:300])
    for row in range(0, 300, 7):
        online.feedback(row, online.classes_.tolist()[row % n_classes])
    other = restored(online, tmp_path)
    assert isinstance(other, OnlineClassifier)
    for one in (online, other):
        one.feedback(299, one.classes_.tolist()[1])
    mine, theirs = online.decide_many(rows[300:]), other.decide_many(rows[300:])
    assert mine.posteriors.tobytes() == theirs.posteriors.tobytes()
    assert mine.numbers.tobytes() == theirs.numbers.tobytes()
    assert online.state() == other.state()


def test_a_saved_model_is_loaded_as_a_model_and_a_stream_s_folder_holds_one_too(tmp_path: Path) -> None:
    model = pair_model()
    obil.save(model, tmp_path / "place")
    assert isinstance(obil.load(tmp_path / "place"), RatioModel)
    obil.save(OnlineClassifier(model), tmp_path / "place")
    assert isinstance(obil.load(tmp_path / "place"), OnlineClassifier)
    obil.save(model, tmp_path / "place")
    assert not (tmp_path / "place" / STREAM).exists()


def test_a_damaged_stream_file_is_refused(tmp_path: Path) -> None:
    obil.save(OnlineClassifier(pair_model()), tmp_path / "stream")
    file = tmp_path / "stream" / STREAM
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.raises(ModelFileError, match="changed or cut short"):
        obil.load(tmp_path / "stream")
    file.write_bytes(whole)
    obil.save(OnlineClassifier(pair_model()), tmp_path / "stream")
    manifest = tmp_path / "stream" / "manifest.json"
    listed = json.loads(manifest.read_text())
    del listed["files"][STREAM]
    manifest.write_text(json.dumps(listed))
    assert isinstance(obil.load(tmp_path / "stream"), RatioModel)  # a file that nobody vouches for is not read


def test_a_stream_of_other_classes_is_refused(tmp_path: Path) -> None:
    from obil.serving import files

    files.save(triangle_model(), tmp_path / "stream", beside={STREAM: OnlineClassifier(pair_model()).state()})
    with pytest.raises(InvalidStateError, match="belongs to another model"):
        obil.load(tmp_path / "stream")
    files.save(triangle_model(), tmp_path / "stream", beside={STREAM: b"{"})
    with pytest.raises(InvalidStateError, match="not the state of an online classifier"):
        obil.load(tmp_path / "stream")


@pytest.mark.parametrize("names", [(0, 1), ("fine", "fraud"), (False, True)])
def test_a_decision_holds_plain_values(names: tuple[object, object]) -> None:
    online = OnlineClassifier(pair_model(names=names))
    one, many = online.decide(pair_scores(1, 0.2, seed=0)[0]), online.decide_many(pair_scores(5, 0.2, seed=1))
    for decision in (one, *many):
        text = json.dumps([decision.id, decision.label, decision.threshold, decision.trusted, decision.reachable])
        assert json.loads(text)[1] in names
        assert type(decision.label) is type(names[0])
        assert type(decision.posterior) is np.ndarray
    assert json.dumps(online.positive) == json.dumps(names[1])
