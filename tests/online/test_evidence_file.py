"""Files of evidence: what they hold adds up, and whatever is in one, it is refused or harmless."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from obil.errors import InvalidInputError
from obil.online.evidence_file import _digest, evidence_record, read_evidence, write_evidence
from obil.online.row_counts import RowCounts
from obil.serving.ratio_model import RatioModel
from obil.trackers.pass_search import estimate_from_rows
from tests.online.cases import pair_model, pair_scores, triangle_model, triangle_scores

MODEL = pair_model(600)


def record_of(model: RatioModel = MODEL, *, epsilon: float | None = None) -> dict[str, Any]:
    rows = {name: model.evidence_rows(pair_scores(40, 0.2, seed)) for seed, name in enumerate("ab")}
    return evidence_record(model, "m", rows, by="ward", epsilon=epsilon, rng=np.random.default_rng(0))


def signed(record: dict[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in record.items() if key != "digest"}
    return rest | {"digest": _digest(rest)}


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_what_is_written_is_read(tmp_path: Path, epsilon: float | None) -> None:
    write_evidence(record_of(epsilon=epsilon), tmp_path / "e.json")
    found = read_evidence(tmp_path / "e.json", MODEL, "m")
    assert (found.by, list(found.segments), found.epsilons) == ("ward", ["a", "b"], (epsilon,))
    if epsilon is None:
        exact = RowCounts.of(MODEL.evidence_rows(pair_scores(40, 0.2, 0))).weighted()
        np.testing.assert_array_equal(found.segments["a"].log_ratios, exact.log_ratios)
        np.testing.assert_array_equal(found.segments["a"].weights, exact.weights)


@pytest.mark.parametrize(
    ("epsilon", "change"),
    [
        (None, {"by": 3}),
        (None, {"classes": 3}),
        (None, {"folds": 2}),
        (None, {"segments": None}),
        (None, {"segments": [3]}),
        (None, {"segments": [{"name": "a"}]}),
        (None, {"segments": [{"name": None, "counts": [1], "steps": [[0, -1]]}]}),
        (None, {"segments": [{"name": "a", "counts": [1], "steps": [[0, -1]]}] * 2}),
        (None, {"segments": [{"name": "a", "counts": [0], "steps": [[0, -1]]}]}),
        (None, {"segments": [{"name": "a", "counts": [-5], "steps": [[0, -1]]}]}),
        (None, {"segments": [{"name": "a", "counts": [1.5], "steps": [[0, -1]]}]}),
        (None, {"segments": [{"name": "a", "counts": [1], "steps": [[0, 1]]}]}),
        (None, {"segments": [{"name": "a", "counts": [1], "steps": [[-1, -1]]}]}),
        (None, {"segments": [{"name": "a", "counts": [1], "steps": [[0, -1, -2]]}]}),
        (None, {"segments": [{"name": "a", "counts": [1, 2], "steps": [[0, -1]]}]}),
        (None, {"segments": [{"name": "a", "counts": [1], "steps": [[0, -(10**30)]]}]}),
        (None, {"segments": [{"name": "a", "counts": [[1]], "steps": [[0, -1]]}]}),
        (None, {"segments": [{"name": "a", "counts": "many", "steps": [[0, -1]]}]}),
        (1.0, {"epsilon": "1"}),
        (1.0, {"epsilon": 0}),
        (1.0, {"epsilon": None}),
        (1.0, {"bins": "other"}),
        (1.0, {"segments": [{"name": "a", "counts": [1, 2]}]}),
        (1.0, {"segments": [{"name": "a", "counts": [2**60] * 16}]}),
    ],
)
def test_a_file_whose_content_makes_no_sense_is_refused(
    tmp_path: Path, epsilon: float | None, change: dict[str, Any]
) -> None:
    (tmp_path / "e.json").write_text(json.dumps(signed(record_of(epsilon=epsilon) | change)))
    with pytest.raises(InvalidInputError, match="is damaged: "):
        read_evidence(tmp_path / "e.json", MODEL, "m")


def test_a_missing_field_is_refused(tmp_path: Path) -> None:
    for key in ("by", "epsilon", "classes", "folds", "segments", "model"):
        record = {name: value for name, value in record_of().items() if name != key}
        (tmp_path / "e.json").write_text(json.dumps(signed(record)))
        with pytest.raises(InvalidInputError, match=f"(is damaged|was written with another).*({key}|None)"):
            read_evidence(tmp_path / "e.json", MODEL, "m")


def test_evidence_by_other_columns_is_not_pooled(tmp_path: Path) -> None:
    write_evidence(record_of(), tmp_path / "a.json")
    write_evidence(signed(record_of() | {"by": "site"}), tmp_path / "b.json")
    first, second = (read_evidence(tmp_path / name, MODEL, "m") for name in ("a.json", "b.json"))
    with pytest.raises(InvalidInputError, match="'ward' and by 'site' cannot be pooled"):
        first + second


@pytest.mark.parametrize("n_classes", [2, 3])
def test_counts_add_up_in_any_order_and_hardly_round(n_classes: int) -> None:
    model = MODEL if n_classes == 2 else triangle_model()
    scores = pair_scores(3_000, 0.1, 1) if n_classes == 2 else triangle_scores(3_000, [0.6, 0.3, 0.1], 1)
    rows = model.evidence_rows(scores)
    parts = [RowCounts.of(part) for part in np.array_split(rows, 5)]
    there, back = parts[0], parts[-1]
    for part in parts[1:]:
        there = there + part
    for part in parts[-2::-1]:
        back = back + part
    whole = RowCounts.of(rows)
    for counts in (there, back):
        np.testing.assert_array_equal(counts.steps, whole.steps)
        np.testing.assert_array_equal(counts.counts, whole.counts)
    found, exact = whole.weighted().estimate(), estimate_from_rows(rows)
    width = np.ptp(exact.interval, axis=1)
    assert (np.abs(found.prior - exact.prior) < 0.01 * width).all()
    assert (np.abs(found.interval - exact.interval) < 0.02 * width[:, None]).all()
    with pytest.raises(InvalidInputError, match="as many folds"):
        whole + RowCounts.of(np.repeat(rows, 2, axis=1))
