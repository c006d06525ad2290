"""The Open Inference Protocol: with plain requests, and with Triton's own client."""

from typing import Any

import numpy as np
import pytest

from tests.service.conftest import ROW, Served, payments
from tests.service.serving import serving

INFER = "/v2/models/obil/infer"


def inputs_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kinds = {"amount": "FP64", "age": "FP64", "country": "BYTES"}
    return [
        {"name": name, "shape": [len(rows)], "datatype": kind, "data": [row[name] for row in rows]}
        for name, kind in kinds.items()
    ]


def test_decides_as_the_other_routes_do(make_served: Any) -> None:
    one, other = make_served(), make_served()
    rows = payments(30, seed=2)[0].to_dict("records")
    plain = one.client.post("/v1/streams/shop/decisions", json={"rows": rows}).json()
    body = {"id": "call 1", "parameters": {"stream": "shop"}, "inputs": inputs_of(rows)}
    answer = other.client.post(INFER, json=body).json()
    assert (answer["model_name"], answer["model_version"], answer["id"]) == ("obil", plain["model"], "call 1")
    found = {one["name"]: np.array(one["data"]).reshape(one["shape"]) for one in answer["outputs"]}
    assert found["label"].tolist() == [str(decision["label"]) for decision in plain["decisions"]]
    assert found["probability"].tolist() == [decision["probability"] for decision in plain["decisions"]]
    for name in ("posterior", "effective_prior"):
        assert found[name].tolist() == [list(decision[name].values()) for decision in plain["decisions"]]


def test_one_tensor_has_all_columns_in_their_order(served: Served) -> None:
    tensor = {"name": "rows", "shape": [2, 3], "datatype": "BYTES", "data": [[3.2, 41, "DE"], [3.2, 41, "DE"]]}
    answer = served.client.post(INFER, json={"parameters": {"stream": "shop"}, "inputs": [tensor]})
    assert answer.status_code == 200, answer.text
    assert served.client.get("/v1/streams/shop").json()["rows"] == 3


def test_a_label_finds_the_id_of_the_parameters(served: Served) -> None:
    body = {"parameters": {"stream": "shop", "id": "order 9"}, "inputs": inputs_of([ROW])}
    assert served.client.post(INFER, json=body).status_code == 200
    assert served.client.post("/v1/streams/shop/labels", json={"id": "order 9", "label": 1}).json()["known"] == 1


GOOD = {"parameters": {"stream": "shop"}, "inputs": inputs_of([ROW])}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"parameters": {}}, "parameters"),
        ({"parameters": {"stream": "a b"}}, "stream"),
        ({"inputs": []}, "inputs"),
        ({"inputs": [7]}, "inputs"),
        ({"inputs": inputs_of([ROW])[:2]}, "country"),
        ({"inputs": [*inputs_of([ROW]), {"name": "x1", "shape": [1], "data": [1]}]}, "x1"),
        ({"inputs": [*inputs_of([ROW])[:2], {"name": "country", "shape": [2], "data": ["DE", "DE"]}]}, "inputs"),
        ({"inputs": [*inputs_of([ROW]), inputs_of([ROW])[0]]}, "inputs"),
        ({"inputs": [{"name": "rows", "shape": [1, 4], "data": [1, 2, "DE"]}]}, "rows"),
        ({"inputs": [{"name": "rows", "shape": [1, 1, 3], "data": [1, 2, "DE"]}]}, "rows"),
        ({"parameters": {"stream": "shop", "id": "a"}, "inputs": inputs_of([ROW, ROW])}, "id"),
    ],
)
def test_refuses_what_breaks_the_protocol_and_changes_nothing(served: Served, change: Any, where: str) -> None:
    before = served.streams.state()
    answer = served.client.post(INFER, json=GOOD | change)
    assert (answer.status_code, answer.json()["where"]) == (422, where), answer.text
    assert served.streams.state() == before


def test_binary_tensors_and_other_models_are_refused(served: Served) -> None:
    binary = served.client.post(INFER, json=GOOD, headers={"inference-header-content-length": "100"})
    assert (binary.status_code, "binary_data=False" in binary.json()["detail"]) == (422, True)
    for path in ("/v2/models/other", "/v2/models/other/ready"):
        assert served.client.get(path).json()["code"] == "unknown_model"
    assert served.client.post("/v2/models/other/infer", json=GOOD).json()["code"] == "unknown_model"


def test_inference_needs_the_scope_decide_and_health_none(locked: Served) -> None:
    for scope, status in (("read", 403), ("decide", 200)):
        headers = {"authorization": f"Bearer {locked.keys[scope]}"}
        assert locked.client.post(INFER, json=GOOD, headers=headers).status_code == status
    assert locked.client.get("/v2/health/live").status_code == locked.client.get("/v2/health/ready").status_code == 200
    assert locked.client.get("/v2/models/obil").status_code == 401


@pytest.mark.filterwarnings("ignore")
def test_triton_s_client_can_use_it(served: Served) -> None:
    triton = pytest.importorskip("tritonclient.http", reason="tritonclient[http] is not installed")
    utils = pytest.importorskip("tritonclient.utils")
    with serving(served.app) as address:
        client = triton.InferenceServerClient(address.removeprefix("http://"))
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("obil")
        kinds = {one["name"]: one["datatype"] for one in client.get_model_metadata("obil")["inputs"]}
        assert kinds == {"amount": "FP64", "age": "FP64", "country": "BYTES"}
        inputs = []
        for name, kind in kinds.items():
            values = np.array([ROW[name]] * 2, dtype=float if kind == "FP64" else object)
            inputs.append(triton.InferInput(name, [2], kind))
            inputs[-1].set_data_from_numpy(values, binary_data=False)
        found = client.infer("obil", inputs, parameters={"stream": "shop"})
        assert found.as_numpy("posterior").shape == (2, 2)
        assert found.as_numpy("posterior").sum(axis=1) == pytest.approx(1.0)
        assert found.as_numpy("label").tolist()[0] in ("0", "1", b"0", b"1")
        with pytest.raises(utils.InferenceServerException, match="parameters must name the stream"):
            client.infer("obil", inputs)
        client.close()
