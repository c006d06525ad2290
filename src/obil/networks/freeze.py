"""Freeze a trained torch network into plain numpy steps: train with torch, serve without it."""

import logging
import operator
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.fx import Node

from obil.errors import InvalidInputError
from obil.networks.numpy_forms import (
    FIRST_OF_SEVERAL,
    IDENTITIES,
    NUMPY_FORMS,
    PYTHON_FORMS,
    decompositions,
    plain_name,
)
from obil.serving.graph_network import INPUT, Attribute, GraphNetwork, Reference, Step
from obil.serving.operations import OPERATIONS
from obil.serving.step_arguments import LARGEST_ARRAY

AGREEMENT = 1e-5  # of frozen and torch outputs on the example, relative to max(1, |output|)

_SERVE_IT_WITH_TORCH = "write that part of the module with listed operations, or keep serving it with torch"

_RENAMED = {"self": "x", "input": "x", "shape": "size"}
# settings of memory, of training and of gradients: they do not change what a forward pass in eval mode gives
_IGNORED = {
    "cudnn_enable", "cudnn_enabled", "device", "half_to_float", "implicit", "layout", "memory_format", "momentum",
    "non_blocking", "output_padding", "padding_idx", "pin_memory", "requires_grad", "scale_grad_by_freq", "sparse",
    "sparse_grad",
}  # fmt: skip
_REFUSED = ("train", "training", "transposed")  # settings that, when on, have no numpy form
_CHECKS = ("_assert", "sym_constrain", "_guards")  # steps that only check sizes


def freeze(module: nn.Module, example: Tensor) -> GraphNetwork:
    """Return a network that computes in numpy what the module computes in eval mode.

    `example` is a batch of rows, (n, ...), of the type and shape the module takes; the number of rows is free
    afterwards. Rows must not depend on one another. What does not depend on them is computed once, here. The
    frozen network is tried on the example and refused where it differs from torch by more than 1e-5.

    >>> layer = nn.Linear(2, 1)
    >>> _ = layer.weight.data.fill_(1.0), layer.bias.data.fill_(0.5)
    >>> freeze(layer, torch.zeros(2, 2)).outputs([[1.0, 2.0]])
    array([[3.5]], dtype=float32)
    """
    rows = _as_example(example)
    with _in_eval_mode(module), torch.no_grad():
        program = _exported(module, rows)
        network = _Conversion(program).network(rows)
        _require_agreement(module, network, rows)
    return network


def _as_example(example: Tensor) -> Tensor:
    if getattr(example, "ndim", 0) < 2 or len(example) == 0:
        kind = getattr(example, "shape", type(example).__name__)
        raise InvalidInputError(f"the example must be a tensor of rows, (n, ...) with n at least 1, got {kind}")
    # with a single row torch takes the length 1 as fixed
    return torch.cat([example, example]) if len(example) == 1 else example


@contextmanager
def _in_eval_mode(module: nn.Module) -> Iterator[None]:
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def _exported(module: nn.Module, rows: Tensor) -> ExportedProgram:
    log = logging.getLogger("torch")
    level = log.level
    log.setLevel(logging.CRITICAL)  # what goes wrong is raised below
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on torch's own insides; agreement is checked afterwards
            program = export(module, (rows,), dynamic_shapes=({0: Dim("rows", min=1)},), strict=False)
            plain: ExportedProgram = program.run_decompositions(decompositions())
            return plain
    except Exception as error:  # torch raises what it likes on a module it cannot trace
        reason = (str(error).strip().splitlines() or [""])[0]
        raise InvalidInputError(
            f"the module cannot be frozen, torch.export says {type(error).__name__}: {reason:.300}: "
            f"its steps must not depend on the values or on the number of its rows; {_SERVE_IT_WITH_TORCH}"
        ) from error
    finally:
        log.setLevel(level)


class _Conversion:
    """Walks an exported program and writes its steps; what does not depend on the rows becomes a tensor."""

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.constants: dict[str, Any] = {}  # values that do not depend on the rows, by the name of their node
        self.aliases: dict[str, str] = {}  # nodes that pass a value on unchanged
        self.steps: list[Step] = []
        self.rows_name = ""

    def network(self, rows: Tensor) -> GraphNetwork:
        """Return the whole program as a graph network."""
        self._name_placeholders()
        output = None
        for node in self.program.graph.nodes:
            if node.op == "call_function":
                self._add(node)
            elif node.op == "get_attr":
                self.constants[node.name] = _as_array(_attribute(self.program.graph_module, str(node.target)))
            elif node.op == "output":
                output = self._only_output(node.args[0])
        if output is None or not self.steps:
            raise InvalidInputError("a module's output must depend on its rows")
        used = {output}
        for step in reversed(self.steps):
            used.update(step.references() if step.name in used else ())
        return GraphNetwork(
            steps=tuple(step for step in self.steps if step.name in used),
            tensors={name: values for name, values in self.constants.items() if name in used},
            input_shape=tuple(rows.shape[1:]),
            input_dtype="float32" if rows.is_floating_point() else "int64",
            output=output,
        )

    def _name_placeholders(self) -> None:
        program, signature = self.program, self.program.graph_signature
        named = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        lifted = dict(signature.inputs_to_lifted_tensor_constants)
        if len(signature.user_inputs) != 1:
            raise InvalidInputError(f"a module must take one tensor of rows, got {len(signature.user_inputs)} inputs")
        for node in program.graph.nodes:
            if node.op != "placeholder":
                continue
            if node.name in named:
                name = named[node.name]
                held = program.constants.get(name)  # a buffer that is not in the state dict
                self.constants[node.name] = _as_array(program.state_dict[name] if held is None else held)
            elif node.name in lifted:
                self.constants[node.name] = _as_array(program.constants[lifted[node.name]])
            else:
                self.rows_name = node.name

    def _only_output(self, outputs: Any) -> str:
        nodes = [node for node in outputs if isinstance(node, Node)]
        produced = {
            spec.arg.name for spec in self.program.graph_signature.output_specs if spec.kind.name == "USER_OUTPUT"
        }
        answers = [node for node in nodes if node.name in produced]
        if len(answers) != 1 or len(answers) != len(self.program.graph_signature.user_outputs):
            raise InvalidInputError("a module must give one tensor of outputs")
        name = self._value_name(answers[0])
        if name in self.constants or name == INPUT:
            raise InvalidInputError("a module's output must be computed from its rows")
        return name

    def _value_name(self, node: Node) -> str:
        name = self.aliases.get(node.name, node.name)
        return INPUT if name == self.rows_name else name

    def _add(self, node: Node) -> None:
        target = plain_name(node.target)
        if any(target.startswith(check) for check in _CHECKS):
            return
        op, arguments = self._operation(node)
        if op is None:
            passed = next(iter(arguments.values()))
            self.aliases[node.name] = self.aliases.get(passed.name, passed.name)
            return
        step = self._step(node.name, op, arguments)
        if all(name in self.constants for name in step.references()):
            value = step.compute(self.constants, checked=False)
            largest = max((np.size(self.constants[name]) for name in step.references()), default=0)
            if not isinstance(value, np.ndarray) or value.size <= max(largest, LARGEST_ARRAY // 64):
                self.constants[node.name] = value
                return
        self.steps.append(self._settled(step))

    def _operation(self, node: Node) -> tuple[str | None, dict[str, Any]]:
        """Return our name of a node's operation, None for one that changes nothing, and its arguments by name."""
        source = node.args[0] if node.args else None
        if (
            node.target is operator.getitem
            and isinstance(source, Node)
            and plain_name(source.target) in FIRST_OF_SEVERAL
        ):
            if node.args[1] != 0:
                raise InvalidInputError(
                    f"the operation {source.target} has a numpy form of its first result only: {_SERVE_IT_WITH_TORCH}"
                )
            return None, {"x": source}
        if node.target in PYTHON_FORMS:
            names = ("x", "index") if node.target is operator.getitem else ("x", "other")
            return PYTHON_FORMS[node.target], dict(zip(names, node.args, strict=True))
        target = plain_name(node.target)
        schema = getattr(node.target, "_schema", None)
        if schema is None or target not in {*NUMPY_FORMS, *IDENTITIES}:
            raise InvalidInputError(f"the operation {node.target} has no numpy form: {_SERVE_IT_WITH_TORCH}")
        given = {argument.name: value for argument, value in zip(schema.arguments, node.args, strict=False)}
        given |= node.kwargs
        defaults = {argument.name: argument.default_value for argument in schema.arguments}
        if target == "dropout.default" and given.get("train", True):
            raise InvalidInputError("dropout that stays on in eval mode has no numpy form: make it follow the mode")
        if target in IDENTITIES:
            return None, given
        op = NUMPY_FORMS[target]
        return op, self._bound(target, op, given, defaults)

    def _bound(self, target: str, op: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
        parameters = OPERATIONS[op].__annotations__
        bound: dict[str, Any] = {}
        for name, value in given.items():
            ours = _RENAMED.get(name, name)
            if name in _REFUSED:
                if value:
                    raise InvalidInputError(
                        f"the operation {target} with {name}={value} has no numpy form: {_SERVE_IT_WITH_TORCH}"
                    )
            elif name == "dtype":
                if "dtype" in parameters and value is not None:
                    bound["dtype"] = _dtype_name(value)
                elif value is not None and not value.is_floating_point:
                    raise InvalidInputError(f"the operation {target} to {value} has no numpy form")
            elif ours in parameters:
                bound[ours] = value
            elif name not in _IGNORED and value != defaults.get(name):
                raise InvalidInputError(f"the operation {target} with {name}={value} has no numpy form")
        if op == "slice" and bound.get("end") == sys.maxsize:
            bound["end"] = None
        if op == "to" and "dtype" not in bound:  # moved to another device only
            return {"x": bound["x"], "dtype": _dtype_name(given["self"].meta["val"].dtype)}
        return bound

    def _step(self, name: str, op: str, arguments: Mapping[str, Any]) -> Step:
        inputs: dict[str, Reference] = {}
        attributes: dict[str, Attribute] = {}
        for argument, value in arguments.items():
            if isinstance(value, Node):
                inputs[argument] = self._value_name(value)
            elif isinstance(value, list | tuple) and any(isinstance(part, Node) for part in value):
                inputs[argument] = tuple(self._value_name(part) if isinstance(part, Node) else part for part in value)
            else:
                attributes[argument] = tuple(value) if isinstance(value, list | tuple) else value
        return Step(name, op, inputs, attributes)

    def _settled(self, step: Step) -> Step:
        """Return the step with numbers that are known by now in place of their names."""
        inputs: dict[str, Reference] = {}
        attributes = dict(step.attributes)
        for argument, reference in step.inputs.items():
            if isinstance(reference, str):
                known = self.constants.get(reference)
                if isinstance(known, bool | int | float):
                    attributes[argument] = known
                else:
                    inputs[argument] = reference
            else:
                inputs[argument] = tuple(self._number(part) for part in reference)
        return Step(step.name, step.op, inputs, attributes)

    def _number(self, part: str | int | None) -> str | int | None:
        known = self.constants.get(part) if isinstance(part, str) else None
        return known if isinstance(known, int) else part


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _as_array(tensor: Any) -> np.ndarray[Any, Any]:
    if not isinstance(tensor, Tensor) or tensor.is_sparse or tensor.is_complex():
        raise InvalidInputError(f"a module's tensors must be dense and real, got {type(tensor).__name__}")
    wanted = getattr(torch, _dtype_name(tensor.dtype))
    return np.ascontiguousarray(tensor.detach().to("cpu", wanted).numpy()).copy()


def _dtype_name(dtype: torch.dtype) -> str:
    if dtype == torch.bool:
        return "bool"
    if dtype.is_complex:
        raise InvalidInputError("complex numbers have no numpy form here")
    return "float32" if dtype.is_floating_point else "int64"


def _require_agreement(module: nn.Module, network: GraphNetwork, rows: Tensor) -> None:
    expected = module(rows).detach().to("cpu", torch.float64).numpy()
    plain = rows.detach().cpu().numpy()
    _require_close(network.outputs(plain), expected, "it gives other outputs than torch")
    alone = np.concatenate([network.outputs(row[None]) for row in plain[:2]])
    _require_close(alone, expected[:2], "a row gives other outputs alone than among others")


def _require_close(outputs: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], what: str) -> None:
    with np.errstate(invalid="ignore"):  # equal infinities are no difference
        gaps = np.abs(outputs - expected) / np.maximum(np.abs(expected), 1.0)
    worst = float(np.max(np.where(outputs == expected, 0.0, gaps), initial=0.0))
    if not worst <= AGREEMENT:  # also where it is not a number
        raise InvalidInputError(f"the module cannot be frozen, {what}: the largest difference is {worst:g}")
