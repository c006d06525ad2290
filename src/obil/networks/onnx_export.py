"""Export a trained torch module to ONNX: train with torch, serve without it."""

import logging
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim

from obil.errors import InvalidInputError, ModelFileError
from obil.networks.mc_dropout import in_eval_mode
from obil.serving.networks.onnx_scorer import OnnxNetwork

AGREEMENT = 1e-5  # of ONNX and torch outputs on the example, relative to max(1, |output|)


def export_onnx(module: nn.Module, example: Tensor) -> OnnxNetwork:
    """Return a network that computes with ONNX Runtime what the module computes in eval mode.

    `example` is a batch of rows, (n, ...), of the type and shape the module takes; the number of rows is free
    afterwards. Rows must not depend on one another. The exported network is run on the example and refused where it
    differs from torch by more than 1e-5.
    """
    rows = _as_example(example)
    with in_eval_mode(module), torch.no_grad():
        try:
            network = OnnxNetwork(_exported(module, rows))
        except ModelFileError as error:
            raise InvalidInputError(f"the module cannot be served by ONNX Runtime: {error}") from None
        _require_agreement(module, network, rows)
    return network


def _as_example(example: Tensor) -> Tensor:
    if getattr(example, "ndim", 0) < 2 or len(example) == 0:
        kind = getattr(example, "shape", type(example).__name__)
        raise InvalidInputError(f"the example must be a tensor of rows, (n, ...) with n at least 1, got {kind}")
    # with a single row torch takes the length 1 as fixed
    return torch.cat([example, example]) if len(example) == 1 else example


def _exported(module: nn.Module, rows: Tensor) -> bytes:
    try:
        from onnx_ir.passes.common import ClearMetadataAndDocStringPass  # noqa: PLC0415
    except ModuleNotFoundError:
        raise InvalidInputError(
            "a torch module is exported with onnxscript, which is not installed: pip install 'obil[torch]'"
        ) from None
    log = logging.getLogger("torch")
    level = log.level
    log.setLevel(logging.CRITICAL)  # what goes wrong is raised below
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on torch's own code; agreement is checked afterwards
            program = torch.onnx.export(
                module,
                (rows,),
                dynamo=True,
                dynamic_shapes=({0: Dim("rows", min=1)},),
                input_names=["rows"],
                output_names=["outputs"],
                verbose=False,
            )
            assert program is not None  # with dynamo
            ClearMetadataAndDocStringPass()(program.model)  # stack traces, with the paths of this machine
            content: bytes = program.model_proto.SerializeToString(deterministic=True)
            return content
    except Exception as error:  # torch raises what it likes on a module it cannot trace
        reason = (str(error.__cause__ or error).strip().splitlines() or [""])[0]
        raise InvalidInputError(
            f"the module cannot be exported to ONNX, torch says {type(error.__cause__ or error).__name__}: "
            f"{reason:.300}: its steps must not depend on the values or on the number of its rows"
        ) from error
    finally:
        log.setLevel(level)


def _require_agreement(module: nn.Module, network: OnnxNetwork, rows: Tensor) -> None:
    expected = module(rows).detach().to("cpu", torch.float64).numpy()
    plain = rows.detach().cpu().numpy()
    _require_close(network.outputs(plain), expected, "it gives other outputs than torch")
    alone = np.concatenate([network.outputs(row[None]) for row in plain[:2]])
    _require_close(alone, expected[:2], "a row gives other outputs alone than among others")


def _require_close(outputs: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], what: str) -> None:
    if outputs.shape != expected.shape:
        raise InvalidInputError(
            f"the module cannot be exported to ONNX, {what}: shapes {outputs.shape}, {expected.shape}"
        )
    with np.errstate(invalid="ignore"):  # equal infinities are no difference
        differences = np.abs(outputs - expected) / np.maximum(np.abs(expected), 1.0)
    worst = float(np.max(np.where(outputs == expected, 0.0, differences), initial=0.0))
    if not worst <= AGREEMENT:  # also where it is not a number
        raise InvalidInputError(f"the module cannot be exported to ONNX, {what}: the largest difference is {worst:g}")
