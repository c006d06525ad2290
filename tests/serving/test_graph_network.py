"""A frozen network gives what torch gives, comes back from a file, and is refused when the file is anything else."""

import copy
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from obil.errors import InvalidInputError, ModelFileError
from obil.serving.graph_network import GraphNetwork, Step
from obil.serving.graph_scorer import GraphScorer
from obil.serving.heads import scores_of_outputs

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from tests.serving.networks import CASES, frozen

WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3)


def small(**changes: Any) -> GraphNetwork:
    """relu(x W) + shift: two inputs, three outputs."""
    whole: dict[str, Any] = {
        "steps": (
            Step("product", "matmul", {"x": "input", "other": "weight"}),
            Step("kept", "relu", {"x": "product"}),
            Step("answer", "add", {"x": "kept", "other": "shift"}, {"alpha": 2}),
        ),
        "tensors": {"weight": WEIGHT, "shift": np.float32([1, 2, 3])},
        "input_shape": (2,),
        "input_dtype": "float32",
        "output": "answer",
    }
    return GraphNetwork(**(whole | changes))


def through_bytes(network: GraphNetwork) -> GraphNetwork:
    described = json.loads(json.dumps(network.describe(), allow_nan=False))
    return GraphNetwork.rebuild(described, load(save(network.arrays())))


@pytest.mark.parametrize("name", CASES)
def test_a_frozen_network_agrees_with_torch(name: str) -> None:
    module, network, rows = frozen(name)
    with torch.no_grad():
        expected = module(torch.from_numpy(rows)).numpy()
    outputs = network.outputs(rows)
    assert outputs.dtype == np.float32
    assert outputs.shape == expected.shape
    assert (np.abs(outputs - expected) / np.maximum(1.0, np.abs(expected))).max() < 1e-6


@pytest.mark.parametrize("name", CASES)
def test_a_network_comes_back_from_bytes_to_the_last_bit(name: str) -> None:
    _, network, rows = frozen(name)
    again = through_bytes(network)
    assert again.outputs(rows).tobytes() == network.outputs(rows).tobytes()
    assert again.describe() == network.describe()


@pytest.mark.parametrize("name", CASES)
def test_chunks_do_not_change_the_outputs(name: str) -> None:
    _, network, rows = frozen(name)
    whole = network.outputs(rows)
    for n_rows in (1, 7):
        chunked = copy.copy(network)
        object.__setattr__(chunked, "rows_at_once", n_rows)
        np.testing.assert_allclose(chunked.outputs(rows), whole, rtol=1e-6, atol=1e-6)


def test_a_chunk_is_smaller_the_larger_a_row_becomes_on_its_way() -> None:
    assert frozen("ConvNet")[1].rows_at_once < frozen("mlp")[1].rows_at_once
    many = small(steps=(Step("wide", "expand", {"x": "input"}, {"size": (1000, -1, -1)}),
                        Step("answer", "sum", {"x": "wide"}, {"dim": (0,)})))  # fmt: skip
    assert many.rows_at_once == 2**19 // 2000
    np.testing.assert_allclose(many.outputs(np.ones((700, 2))), np.full((700, 2), 1000.0))


def test_the_steps_compute_what_they_say() -> None:
    X = np.array([[1.0, -1.0], [0.5, 2.0]])
    np.testing.assert_allclose(small().outputs(X), np.maximum(X @ WEIGHT, 0) + 2 * np.array([1, 2, 3]))
    assert small().output_shape == (3,)


def test_rows_are_taken_as_lists_integers_and_tables() -> None:
    pandas = pytest.importorskip("pandas")
    expected = small().outputs(np.array([[1.0, 2.0]]))
    for rows in ([[1, 2]], np.array([[1, 2]]), pandas.DataFrame([[1, 2]]), np.array([[1, 2]], dtype=object)):
        np.testing.assert_array_equal(small().outputs(rows), expected)
    assert small().outputs(np.empty((0, 2))).shape == (0, 3)


@pytest.mark.parametrize(
    "rows", [[1.0, 2.0], [[1.0]], [[[1.0, 2.0]]], 3.0, [["a", "b"]], [[1.0], [1.0, 2.0]], [[1j, 2j]], None]
)
def test_rows_of_another_shape_or_type_are_refused(rows: Any) -> None:
    with pytest.raises(InvalidInputError, match="rows must"):
        small().outputs(rows)


def test_tokens_must_be_whole_and_known() -> None:
    _, network, rows = frozen("TextTransformer")
    np.testing.assert_array_equal(network.outputs(rows.astype(float)), network.outputs(rows))
    for bad, message in ((0.5, "whole"), (np.nan, "whole"), (np.inf, "whole"), (50.0, "fails"), (-1.0, "fails")):
        wrong = rows.astype(float)
        wrong[3, 0] = bad
        with pytest.raises(InvalidInputError, match=message):
            network.outputs(wrong)


def test_an_infinity_among_the_settings_survives_json() -> None:
    network = small(
        steps=(
            Step("negative", "lt", {"x": "input"}, {"other": 0}),
            Step("answer", "masked_fill", {"x": "input", "mask": "negative"}, {"value": -np.inf}),
        ),
        tensors={},
    )
    assert through_bytes(network).outputs([[1.0, -1.0]]).tolist() == [[1.0, -np.inf]]


Damage = Callable[[dict[str, Any], dict[str, np.ndarray]], Any]


def of_step(number: int, **changes: Any) -> Damage:
    return lambda described, arrays: described["steps"][number].update(changes)


def of_part(part: str, number: int, **changes: Any) -> Damage:
    return lambda described, arrays: described["steps"][number][part].update(changes)


def of_tensors(**changes: np.ndarray) -> Damage:
    return lambda described, arrays: arrays.update(changes)


def of_network(**changes: Any) -> Damage:
    return lambda described, arrays: described.update(changes)


DAMAGES: dict[str, tuple[Damage, str]] = {
    "unknown operation": (of_step(1, op="__import__"), "knows no operation '__import__'"),
    "operation of another type": (of_step(1, op=["relu"]), "a name must be a text"),
    "a name twice": (of_step(1, name="weight"), "its own name, got 'weight' twice"),
    "no name": (of_step(1, name=None), "a name must be a text"),
    "a value that comes later": (of_part("inputs", 0, x="answer"), "takes 'answer', which no step before it gives"),
    "dangling reference": (of_part("inputs", 0, x="nothing"), "takes 'nothing', which no step before it gives"),
    "reference of another type": (of_part("inputs", 0, x={"a": 1}), "a name must be a text"),
    "a list for an array": (of_part("inputs", 0, x=["input"]), "'x' is of the wrong kind"),
    "unknown argument": (of_part("inputs", 0, more="input"), "its arguments are x, other, got 'more'"),
    "missing argument": (lambda d, a: d["steps"][0]["inputs"].pop("other"), "it needs the argument 'other'"),
    "missing inputs": (lambda d, a: d["steps"][0].pop("inputs"), "incomplete"),
    "setting of another type": (of_part("attributes", 2, alpha="2"), "'alpha' is of the wrong kind"),
    "number for a truth value": (
        of_step(2, op="softmax", inputs={"x": "kept"}, attributes={"dim": True}),
        "'dim' is of the wrong kind",
    ),
    "nested setting": (of_part("attributes", 2, alpha=[[1]]), "a step's setting must be"),
    "odd float": (of_part("attributes", 2, alpha={"float": "1e5"}), "a step's setting must be"),
    "an argument stated twice": (of_part("attributes", 2, other=1), "states one argument twice"),
    "no steps": (of_network(steps=[]), "1 to 20,000 steps"),
    "steps of another type": (of_network(steps=None), "incomplete"),
    "too many steps": (
        lambda d, a: d.update(steps=[d["steps"][0] | {"name": str(number)} for number in range(20_001)]),
        "1 to 20,000 steps",
    ),
    "output that is no step": (of_network(output="weight"), "output must be a step's result"),
    "output of another type": (of_network(output=["answer"]), "incomplete"),
    "rows that do not fit": (of_network(input_shape=[3]), r"'product' \(matmul\) fails"),
    "absurd rows": (of_network(input_shape=[2**40, 2]), "shape of a row"),
    "negative rows": (of_network(input_shape=[-2]), "shape of a row"),
    "rows of another type": (of_network(input_shape=[True, 2]), "shape of a row"),
    "unknown type of rows": (of_network(input_dtype="object"), "rows are of float32 or int64"),
    "type of rows of another type": (of_network(input_dtype=["float32"]), "rows are of float32 or int64"),
    "no output": (lambda d, a: d.pop("output"), "incomplete"),
    "missing tensor": (lambda d, a: a.pop("weight"), "takes 'weight', which no step before it gives"),
    "a tensor that takes the name of the rows": (of_tensors(input=WEIGHT), "no tensor may be called 'input'"),
    "tensor of another type": (of_tensors(weight=WEIGHT.astype(np.float64)), "tensors are float32, int64, bool"),
    "tensor without numbers": (of_tensors(weight=WEIGHT * np.float32(np.nan)), "got NaN in 'weight'"),
    "tensor of another shape": (of_tensors(weight=WEIGHT.T), r"'product' \(matmul\) fails"),
    "absurd broadcast": (of_tensors(shift=np.zeros((2**13, 2**13, 1), np.float32)), "fails"),
    "rows that mix": (of_tensors(shift=np.zeros((3, 1), np.float32)), r"'answer' \(add\) fails"),
    "no output a row": (of_step(2, op="sum", inputs={"x": "kept"}, attributes={}), "one output a row"),
    "output that is no number": (
        of_step(2, op="gt", inputs={"x": "kept", "other": "shift"}, attributes={}),
        "must be an array of floats",
    ),
    "endless power": (of_step(1, op="pow", inputs={}, attributes={"x": 2**39, "exponent": 2**39}), "fails"),
    "absurd array": (
        of_step(1, op="full", inputs={}, attributes={"size": [2**39, 2**39], "fill_value": 0}),
        "an array has at most",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_description_that_is_no_network_is_refused(name: str) -> None:
    damage, message = DAMAGES[name]
    described, arrays = json.loads(json.dumps(small().describe())), small().arrays()
    assert isinstance(GraphNetwork.rebuild(described, arrays), GraphNetwork)
    damage(described, arrays)
    with pytest.raises(ModelFileError, match=message):
        GraphNetwork.rebuild(described, arrays)


KEYS = st.sampled_from(["name", "op", "inputs", "attributes", "x", "float"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(KEYS, part, max_size=3),
    max_leaves=6,
)


@given(
    JSON, st.sampled_from(["", "steps", "input_shape", "input_dtype", "output", "name", "op", "inputs", "attributes"])
)
def test_whatever_a_file_holds_in_place_of_a_part_it_is_refused_with_a_reason(part: Any, place: str) -> None:
    described: Any = small().describe()
    if place in described:
        described[place] = part
    elif place:
        described["steps"][1][place] = part
    else:
        described = part
    try:
        network = GraphNetwork.rebuild(described, small().arrays())
    except (ModelFileError, InvalidInputError):
        return
    assert network.outputs(np.zeros((1, *network.input_shape))).shape == (1, *network.output_shape)


@pytest.mark.parametrize(
    ("name", "head", "training_prior"),
    [
        ("ConvNet", "tanh", [0.9, 0.1]),
        ("TextTransformer", "softmax", [0.7, 0.3]),
        ("GraphConvNet", "one_vs_rest", [0.5, 0.3, 0.2]),
    ],
)
def test_a_scorer_reads_the_outputs_with_its_head_and_comes_back(
    name: str, head: str, training_prior: list[float]
) -> None:
    _, network, rows = frozen(name)
    scorer = GraphScorer(network, head, np.array(training_prior))
    scores = scorer.scores(rows)
    np.testing.assert_array_equal(
        scores, scores_of_outputs(network.outputs(rows), head=head, training_prior=training_prior)
    )
    assert scorer.n_features is None
    again = GraphScorer.rebuild(json.loads(json.dumps(scorer.describe())), load(save(scorer.arrays())))
    assert again.scores(rows).tobytes() == scores.tobytes()


def test_a_scorer_whose_head_does_not_fit_its_network_is_refused() -> None:
    for head, training_prior in (("tanh", [0.5, 0.5]), ("softmax", [0.5, 0.5]), ("argmax", [0.3, 0.3, 0.4])):
        with pytest.raises(InvalidInputError):
            GraphScorer(small(), head, np.array(training_prior))
    scorer = GraphScorer(small(), "softmax", np.array([0.3, 0.3, 0.4]))
    described, arrays = scorer.describe(), scorer.arrays()
    for broken, held in (
        (described | {"head": "tanh"}, arrays),
        (described | {"network": None}, arrays),
        ({}, arrays),
        ([], arrays),
        (described, {**arrays, "more": np.zeros(1)}),
        (described, {name: values for name, values in arrays.items() if name != "training_prior"}),
        (described, {**arrays, "training_prior": np.array([0.5, np.nan, 0.5])}),
        (described, {**arrays, "training_prior": np.array(["a", "b", "c"])}),
    ):
        with pytest.raises(ModelFileError):
            GraphScorer.rebuild(broken, held)


@pytest.mark.parametrize("name", ["ConvNet", "TextTransformer", "GraphConvNet"])
def test_a_fresh_interpreter_serves_a_network_without_torch(name: str, tmp_path: Path) -> None:
    _, network, rows = frozen(name)
    head, training_prior = ("tanh", [0.9, 0.1]) if name == "ConvNet" else ("softmax", np.ones(network.output_shape[0]))
    scorer = GraphScorer(network, head, np.asarray(training_prior))
    many = np.resize(rows, (1000, *rows.shape[1:]))
    (tmp_path / "scorer.json").write_text(json.dumps(scorer.describe()))
    (tmp_path / "scorer.safetensors").write_bytes(save(scorer.arrays()))
    np.save(tmp_path / "rows.npy", many)
    program = f"""
        import json, sys
        from pathlib import Path
        import numpy as np
        from safetensors.numpy import load_file
        from obil.serving.graph_scorer import GraphScorer
        folder = Path({str(tmp_path)!r})
        scorer = GraphScorer.rebuild(
            json.loads((folder / "scorer.json").read_text()), load_file(folder / "scorer.safetensors"))
        np.save(folder / "scores.npy", scorer.scores(np.load(folder / "rows.npy")))
        heavy = {{"torch", "sklearn", "pandas"}} & set(sys.modules)
        assert not heavy, heavy
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
    assert np.load(tmp_path / "scores.npy").shape == (1000, len(training_prior))
    np.testing.assert_allclose(np.load(tmp_path / "scores.npy"), scorer.scores(many), rtol=1e-6, atol=1e-6)
