"""Every operation of a frozen network gives what torch gives."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from obil.errors import InvalidInputError
from obil.serving.operations import OPERATIONS, settled
from obil.serving.step_arguments import require_arguments

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")
F = torch.nn.functional

RNG = np.random.default_rng(3)
INF = float("inf")


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    return RNG.uniform(0.1, 3.0, size=shape).astype(np.float32)


def ints(high: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, high, size=shape)


def bools(*shape: int) -> np.ndarray:
    return RNG.random(shape) < 0.5


X, Y, IMAGES = floats(4, 5), positive(4, 5), floats(3, 4, 9, 8)
GRID = np.linspace(-6.0, 6.0, 60, dtype=np.float32).reshape(6, 10)

Case = tuple[str, dict[str, Any], Callable[..., Any]]
CASES: list[Case] = [
    *[(op, {"x": GRID}, getattr(torch, op)) for op in (
        "abs", "ceil", "cos", "erf", "exp", "expm1", "floor", "neg", "reciprocal", "relu", "round", "sigmoid", "sign",
        "sin", "tanh", "isnan", "isinf", "argmax",
    )],
    *[(op, {"x": Y}, getattr(torch, op)) for op in ("log", "log1p", "rsqrt", "sqrt")],
    *[(op, {"x": X, "other": Y}, getattr(torch, op)) for op in (
        "add", "div", "eq", "floor_divide", "ge", "gt", "le", "lt", "maximum", "minimum", "mul", "ne", "remainder",
        "sub",
    )],
    *[(op, {"x": ints(9, 4, 5), "other": 3}, getattr(torch, op)) for op in (
        "add", "div", "eq", "floor_divide", "ge", "gt", "le", "lt", "mul", "ne", "remainder", "sub",
    )],
    ("add", {"x": X, "other": Y, "alpha": 0.5}, torch.add),
    ("sub", {"x": X, "other": floats(5), "alpha": 2}, torch.sub),
    ("mul", {"x": ints(9, 4, 5), "other": X}, torch.mul),
    ("mul", {"x": ints(9, 4, 5), "other": 0.5}, torch.mul),
    ("div", {"x": ints(9, 4, 5), "other": ints(5, 5) + 1, "rounding_mode": "floor"}, torch.div),
    ("div", {"x": X, "other": 0.3, "rounding_mode": "trunc"}, torch.div),
    ("bitwise_and", {"x": bools(4, 5), "other": bools(4, 5)}, torch.bitwise_and),
    ("bitwise_or", {"x": bools(4, 5), "other": bools(5)}, torch.bitwise_or),
    ("bitwise_not", {"x": bools(4, 5)}, torch.bitwise_not),
    ("logical_and", {"x": bools(4, 5), "other": bools(5)}, torch.logical_and),
    ("logical_or", {"x": bools(4, 5), "other": ints(2, 5)}, torch.logical_or),
    ("logical_not", {"x": ints(3, 4, 5)}, torch.logical_not),
    ("pow", {"x": Y, "exponent": 1.7}, torch.pow),
    ("pow", {"x": Y, "exponent": X}, torch.pow),
    ("pow", {"x": X, "exponent": 2}, torch.pow),
    ("pow", {"x": 2.0, "exponent": X}, torch.pow),
    ("clamp", {"x": X, "min": -0.2, "max": 0.3}, torch.clamp),
    ("clamp", {"x": X, "min": Y}, torch.clamp),
    ("hardtanh", {"x": GRID, "min_val": 0.0, "max_val": 6.0}, F.hardtanh),
    ("gelu", {"x": GRID}, F.gelu),
    ("gelu", {"x": GRID, "approximate": "tanh"}, F.gelu),
    ("silu", {"x": GRID}, F.silu),
    ("elu", {"x": GRID, "alpha": 1.5, "scale": 1.1, "input_scale": 0.7}, torch.ops.aten.elu),
    ("leaky_relu", {"x": GRID, "negative_slope": 0.2}, F.leaky_relu),
    ("prelu", {"x": X, "weight": floats(5)}, F.prelu),
    ("prelu", {"x": IMAGES, "weight": floats(4)}, F.prelu),
    ("softplus", {"x": GRID * 10, "beta": 2.0, "threshold": 15.0}, F.softplus),
    ("where", {"condition": bools(4, 5), "x": X, "other": 0.5}, torch.where),
    ("masked_fill", {"x": X, "mask": bools(5), "value": -INF}, torch.masked_fill),
    ("to", {"x": X * 3, "dtype": "int64"}, lambda x, dtype: x.to(torch.int64)),
    ("to", {"x": bools(4), "dtype": "float32"}, lambda x, dtype: x.to(torch.float32)),
    ("sum", {"x": X}, torch.sum),
    ("sum", {"x": IMAGES, "dim": [1, -1], "keepdim": True}, torch.sum),
    ("sum", {"x": bools(4, 5), "dim": 1}, torch.sum),
    ("mean", {"x": IMAGES, "dim": (2, 3)}, torch.mean),
    ("mean", {"x": X}, torch.mean),
    ("var", {"x": IMAGES, "dim": (1, 2), "correction": 0, "keepdim": True}, torch.var),
    ("var", {"x": X, "dim": (1,)}, torch.var),
    ("amax", {"x": IMAGES, "dim": (1, 2)}, torch.amax),
    ("amin", {"x": IMAGES, "dim": -1, "keepdim": True}, torch.amin),
    ("any", {"x": bools(4, 5), "dim": 0}, torch.any),
    ("all", {"x": bools(4, 5)}, torch.all),
    ("argmax", {"x": X, "dim": 1, "keepdim": True}, torch.argmax),
    ("max_dim", {"x": X, "dim": 1}, lambda x, dim: tuple(torch.max(x, dim))),
    ("min_dim", {"x": X, "dim": 0, "keepdim": True}, lambda x, dim, keepdim: tuple(torch.min(x, dim, keepdim=keepdim))),
    ("prod", {"x": X, "dim": 1, "keepdim": True}, torch.prod),
    ("cumsum", {"x": X, "dim": 1}, torch.cumsum),
    ("vector_norm", {"x": X, "ord": 2, "dim": (1,)}, torch.linalg.vector_norm),
    ("vector_norm", {"x": X, "ord": 1}, torch.linalg.vector_norm),
    ("softmax", {"x": GRID * 5, "dim": -1}, torch.softmax),
    ("log_softmax", {"x": GRID * 5, "dim": 0}, torch.log_softmax),
    ("size", {"x": X, "dim": -1}, lambda x, dim: x.shape[dim]),
    ("getitem", {"x": (X, Y), "index": 1}, lambda x, index: x[index]),
    ("view", {"x": X, "size": (2, -1)}, lambda x, size: x.view(size)),
    ("flatten", {"x": IMAGES, "start_dim": 1}, torch.flatten),
    ("flatten", {"x": IMAGES, "start_dim": 1, "end_dim": 2}, torch.flatten),
    ("permute", {"x": IMAGES, "dims": (0, 2, -1, 1)}, torch.permute),
    ("transpose", {"x": IMAGES, "dim0": 1, "dim1": -1}, torch.transpose),
    ("t", {"x": X}, torch.t),
    ("unsqueeze", {"x": X, "dim": -2}, torch.unsqueeze),
    ("squeeze", {"x": floats(1, 3, 1)}, torch.squeeze),
    ("squeeze", {"x": floats(1, 3, 1), "dim": -1}, torch.squeeze),
    ("squeeze", {"x": floats(1, 3, 1), "dim": (0, 1)}, torch.squeeze),
    ("expand", {"x": floats(3, 1), "size": (2, -1, 4)}, lambda x, size: x.expand(size)),
    ("repeat", {"x": floats(3, 2), "repeats": (2, 1, 3)}, lambda x, repeats: x.repeat(repeats)),
    ("cat", {"tensors": [X, Y], "dim": -1}, torch.cat),
    ("cat", {"tensors": [X, ints(3, 2, 5)]}, torch.cat),
    ("stack", {"tensors": [X, Y], "dim": 1}, torch.stack),
    ("slice", {"x": X, "dim": 1, "start": 1, "end": -1, "step": 2}, torch.ops.aten.slice),
    ("slice", {"x": X, "dim": 0, "start": -2, "end": None}, torch.ops.aten.slice),
    ("select", {"x": IMAGES, "dim": 1, "index": -1}, torch.select),
    ("select", {"x": floats(4), "dim": 0, "index": 2}, torch.select),
    ("split", {"x": X, "split_size": 2, "dim": 1}, torch.split),
    ("split_with_sizes", {"x": X, "split_sizes": (1, 4), "dim": 1}, torch.split_with_sizes),
    ("unbind", {"x": X, "dim": 1}, torch.unbind),
    ("index", {"x": X, "indices": [ints(4, 3), ints(5, 3)]}, lambda x, indices: x[tuple(indices)]),
    ("index", {"x": IMAGES, "indices": [None, ints(4, 2, 3)]}, lambda x, indices: x[:, indices[1]]),
    ("index", {"x": IMAGES, "indices": [ints(3, 2), None, ints(9, 2)]},
     lambda x, indices: x[indices[0], :, indices[2]]),
    ("index", {"x": X, "indices": [bools(4)]}, lambda x, indices: x[indices[0]]),
    ("index_select", {"x": X, "dim": 1, "index": ints(5, 7)}, torch.index_select),
    ("gather", {"x": X, "dim": 1, "index": ints(5, 3, 2)}, torch.gather),
    ("index_add", {"x": X, "dim": 0, "index": ints(4, 9), "source": floats(9, 5)}, torch.index_add),
    ("index_add", {"x": X, "dim": 1, "index": ints(5, 9), "source": floats(4, 9), "alpha": 0.5}, torch.index_add),
    ("scatter_add", {"x": X, "dim": 0, "index": ints(4, 3, 5), "src": floats(3, 5)}, torch.scatter_add),
    ("constant_pad_nd", {"x": X, "pad": (1, 2, 0, 3), "value": 0.5}, torch.constant_pad_nd),
    ("constant_pad_nd", {"x": X, "pad": (-1, 2)}, torch.constant_pad_nd),
    ("flip", {"x": X, "dims": (1,)}, torch.flip),
    ("tril", {"x": X, "diagonal": 1}, torch.tril),
    ("triu", {"x": X}, torch.triu),
    ("arange", {"end": 7}, torch.arange),
    ("arange", {"start": 1, "end": 2.5, "step": 0.5}, torch.arange),
    ("full", {"size": (2, 3), "fill_value": 2}, torch.full),
    ("full", {"size": (2, 3), "fill_value": True}, torch.full),
    ("full", {"size": (2, 3), "fill_value": 1, "dtype": "float32"}, lambda size, fill_value, dtype: torch.ones(size)),
    ("full_like", {"x": ints(2, 3), "fill_value": 4}, torch.full_like),
    ("matmul", {"x": floats(2, 3, 4), "other": floats(4, 5)}, torch.matmul),
    ("matmul", {"x": floats(2, 1, 3, 4), "other": floats(6, 4, 5)}, torch.matmul),
    ("matmul", {"x": floats(2, 4, 3).transpose(0, 2, 1), "other": floats(5, 4, 2).transpose(2, 1, 0)}, torch.matmul),
    ("matmul", {"x": floats(3, 4), "other": floats(4)}, torch.matmul),
    ("matmul", {"x": floats(4), "other": floats(4)}, torch.matmul),
    ("mm", {"x": floats(2, 3, 4), "mat2": floats(2, 4, 5)}, torch.bmm),
    ("addmm", {"x": floats(5), "mat1": floats(3, 4), "mat2": floats(4, 5), "beta": 0.5, "alpha": 2}, torch.addmm),
    ("linear", {"x": floats(2, 3, 4), "weight": floats(5, 4), "bias": floats(5)}, F.linear),
    ("linear", {"x": floats(4), "weight": floats(5, 4)}, F.linear),
    ("embedding", {"weight": floats(9, 4), "indices": ints(9, 2, 3)},
     lambda weight, indices: F.embedding(indices, weight)),
    ("layer_norm", {"x": X, "normalized_shape": (5,), "weight": floats(5), "bias": floats(5)}, F.layer_norm),
    ("layer_norm", {"x": IMAGES, "normalized_shape": (9, 8), "eps": 0.1}, F.layer_norm),
    ("group_norm", {"x": IMAGES, "num_groups": 2, "weight": floats(4), "bias": floats(4)}, F.group_norm),
    ("batch_norm", {"x": IMAGES, "weight": floats(4), "bias": floats(4), "running_mean": floats(4),
                    "running_var": positive(4), "eps": 1e-3}, F.batch_norm),
    ("batch_norm", {"x": X, "weight": None, "bias": None, "running_mean": floats(5), "running_var": positive(5)},
     F.batch_norm),
    *[("convolution", {"x": IMAGES, "weight": floats(6, 4 // groups, *kernel), "bias": bias, "stride": stride,
                       "padding": padding, "dilation": dilation, "groups": groups},
       F.conv2d)
      for kernel, stride, padding, dilation, groups, bias in (
          ((3, 3), (1, 1), (1, 1), (1, 1), 1, floats(6)),
          ((3, 2), (2, 1), (0, 1), (1, 2), 2, floats(6)),
          ((1, 1), (1, 1), (0, 0), (1, 1), 1, None),
          ((5, 5), (3, 3), (2, 2), (1, 1), 2, None),
      )],
    ("convolution", {"x": floats(3, 4, 9), "weight": floats(4, 1, 3), "bias": floats(4), "stride": (2,),
                     "padding": (1,), "dilation": (2,), "groups": 4}, F.conv1d),
    *[("max_pool2d", {"x": IMAGES, **settings}, F.max_pool2d) for settings in (
        {"kernel_size": (2, 2)}, {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0)},
        {"kernel_size": (2, 2), "stride": (3, 3), "ceil_mode": True},
        {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1), "ceil_mode": True},
        {"kernel_size": (2, 3), "stride": (1, 1), "dilation": (2, 1)},
    )],
    *[("avg_pool2d", {"x": IMAGES, **settings}, F.avg_pool2d) for settings in (
        {"kernel_size": (2, 2)}, {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0)},
        {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1), "ceil_mode": True},
        {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1), "ceil_mode": True, "count_include_pad": False},
        {"kernel_size": (2, 2), "divisor_override": 3},
    )],
    *[("adaptive_avg_pool2d", {"x": IMAGES, "output_size": size}, F.adaptive_avg_pool2d) for size in ((1, 1), (4, 3))],
    ("scaled_dot_product_attention", {"query": floats(2, 3, 5, 4), "key": floats(2, 3, 6, 4),
                                      "value": floats(2, 3, 6, 7)}, F.scaled_dot_product_attention),
    ("scaled_dot_product_attention", {"query": floats(2, 5, 4), "key": floats(2, 5, 4), "value": floats(2, 5, 4),
                                      "is_causal": True, "scale": 0.3}, F.scaled_dot_product_attention),
    ("scaled_dot_product_attention", {"query": floats(2, 5, 4), "key": floats(2, 6, 4), "value": floats(2, 6, 4),
                                      "attn_mask": bools(2, 1, 6)}, F.scaled_dot_product_attention),
    ("scaled_dot_product_attention", {"query": floats(2, 5, 4), "key": floats(2, 6, 4), "value": floats(2, 6, 4),
                                      "attn_mask": floats(5, 6)}, F.scaled_dot_product_attention),
]  # fmt: skip


def as_torch(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    return type(value)(as_torch(part) for part in value) if isinstance(value, list | tuple) else value


@pytest.mark.parametrize(
    ("op", "arguments", "reference"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)]
)
def test_an_operation_gives_what_torch_gives(op: str, arguments: dict[str, Any], reference: Callable[..., Any]) -> None:
    require_arguments(OPERATIONS[op], arguments)
    before = {name: np.copy(value) for name, value in arguments.items() if isinstance(value, np.ndarray)}
    with np.errstate(all="ignore"):
        result = settled(OPERATIONS[op](**arguments))
    tensors = {name: as_torch(value) for name, value in arguments.items()}
    first = tensors.pop(next(iter(tensors)))
    try:
        expected = reference(first, **tensors)
    except TypeError:  # torch calls them otherwise
        expected = reference(first, *tensors.values())
    assert isinstance(result, tuple) == isinstance(expected, tuple)
    pairs = zip(result, expected, strict=True) if isinstance(result, tuple) else [(result, expected)]
    for ours, theirs in pairs:
        wanted = theirs.numpy() if isinstance(theirs, torch.Tensor) else np.asarray(theirs)
        assert np.shape(ours) == wanted.shape
        assert np.asarray(ours).dtype == wanted.dtype
        # sums of float32 in another order: the error goes with the largest terms, not with each result
        largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=1.0)
        np.testing.assert_allclose(ours, wanted, rtol=2e-6, atol=1e-6 * largest)
    for name, values in before.items():
        np.testing.assert_array_equal(arguments[name], values)


def test_no_operation_is_left_without_a_comparison() -> None:
    assert {case[0] for case in CASES} == set(OPERATIONS)


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        ("full", {"size": (2**20, 2**20), "fill_value": 0}),
        ("full", {"size": (-1,), "fill_value": 0}),
        ("arange", {"end": 2**39}),
        ("arange", {"end": 1.0, "step": 0}),
        ("arange", {"end": INF}),
        ("expand", {"x": floats(1), "size": (2**30,)}),
        ("repeat", {"x": floats(4), "repeats": (2**30,)}),
        ("constant_pad_nd", {"x": floats(4), "pad": (2**30, 0)}),
        ("add", {"x": np.zeros((2**14, 1), np.float32), "other": np.zeros(2**14, np.float32)}),
        ("matmul", {"x": np.zeros((2**14, 1), np.float32), "other": np.zeros((1, 2**14), np.float32)}),
        ("index", {"x": np.zeros((2, 2**14)), "indices": [np.zeros(2**14, np.int64)]}),
        ("embedding", {"weight": np.zeros((2, 2**14)), "indices": np.zeros(2**14, np.int64)}),
        ("embedding", {"weight": floats(3, 2), "indices": np.array([-1])}),
        ("max_pool2d", {"x": IMAGES, "kernel_size": (2, 2), "padding": (2**20, 2**20)}),
        ("max_pool2d", {"x": IMAGES, "kernel_size": (0, 0)}),
        ("max_pool2d", {"x": IMAGES, "kernel_size": (20, 20)}),
        ("adaptive_avg_pool2d", {"x": IMAGES, "output_size": (2**20, 2**20)}),
        ("split", {"x": X, "split_size": 0}),
        ("slice", {"x": X, "step": 0}),
        ("gelu", {"x": X, "approximate": "eval"}),
        ("to", {"x": X, "dtype": "object"}),
        ("vector_norm", {"x": X, "ord": 3}),
        ("convolution", {"x": IMAGES, "weight": floats(2, 3, 1, 1), "bias": None, "stride": (1, 1), "padding": (0, 0),
                         "dilation": (1, 1), "groups": 1}),
        ("convolution", {"x": IMAGES, "weight": floats(2, 4, 1, 1), "bias": None, "stride": (1, 1),
                         "padding": (2**20, 2**20), "dilation": (1, 1), "groups": 1}),
    ],
)  # fmt: skip
def test_what_is_absurd_is_refused_before_memory_is_taken(op: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        OPERATIONS[op](**arguments)


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        ("add", {"x": X}),
        ("add", {"x": X, "other": "1"}),
        ("add", {"x": X, "other": X, "more": 1}),
        ("view", {"x": X, "size": 4}),
        ("view", {"x": X, "size": (True, 1)}),
        ("view", {"x": X, "size": (2**60, 1)}),
        ("cat", {"tensors": X}),
        ("sum", {"x": X, "keepdim": 1}),
        ("getitem", {"x": X, "index": 0}),
        ("relu", {"x": 2}),
    ],
)
def test_arguments_of_another_kind_are_refused(op: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        require_arguments(OPERATIONS[op], arguments)
