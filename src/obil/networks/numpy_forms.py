"""Name the numpy form of each torch operation that a frozen network may use."""

import operator
from collections.abc import Mapping
from typing import Any

import torch

# ours has torch's name: the overloads of each that it covers
_SAME_NAME = {
    "default": """
        abs adaptive_avg_pool2d addmm all amax amin any arange argmax avg_pool2d batch_norm bitwise_not cat ceil clamp
        constant_pad_nd convolution cos cumsum elu embedding erf exp expand expm1 flip floor floor_divide full
        full_like gather gelu group_norm hardtanh index_add index_select isinf isnan layer_norm leaky_relu linear log
        log1p logical_and logical_not logical_or matmul max_pool2d maximum mean minimum mm neg permute prelu prod
        reciprocal relu repeat round rsqrt scaled_dot_product_attention scatter_add sigmoid sign silu sin softplus
        split_with_sizes sqrt squeeze stack sum t tanh tril triu unsqueeze view
    """,
    "Tensor": """
        add bitwise_and bitwise_or clamp div eq ge gt index le lt masked_fill mul ne remainder slice split sub
    """,
    "Scalar": "add bitwise_and bitwise_or div eq floor_divide ge gt le lt masked_fill mul ne remainder sub",
    "Tensor_mode": "div",
    "Scalar_mode": "div",
    "ScalarOther": "where",
    "ScalarSelf": "where",
    "correction": "var",
    "dim": "all any mean squeeze",
    "dim_IntList": "sum",
    "dim_int": "prod",
    "dims": "all any squeeze",
    "int": "log_softmax select softmax transpose unbind",
    "self": "where",
    "start": "arange",
    "start_step": "arange",
    "using_ints": "flatten",
}
_OTHER_NAME = {
    "_adaptive_avg_pool2d.default": "adaptive_avg_pool2d",
    "_log_softmax.default": "log_softmax",
    "_softmax.default": "softmax",
    "_to_copy.default": "to",
    "_unsafe_view.default": "view",
    "bmm.default": "mm",
    "linalg_vector_norm.default": "vector_norm",
    "max.dim": "max_dim",
    "min.dim": "min_dim",
    "pow.Scalar": "pow",
    "pow.Tensor_Scalar": "pow",
    "pow.Tensor_Tensor": "pow",
    "reshape.default": "view",
    "sym_size.int": "size",
}
# torch gives several results, ours the first of them, which is the only one that eval mode needs
FIRST_OF_SEVERAL: Mapping[str, str] = {
    "_native_batch_norm_legit_no_training.default": "batch_norm",
    "max_pool2d_with_indices.default": "max_pool2d",
    "native_layer_norm.default": "layer_norm",
}
NUMPY_FORMS: Mapping[str, str] = {
    f"{name}.{overload}": name for overload, names in _SAME_NAME.items() for name in names.split()
} | {**_OTHER_NAME, **FIRST_OF_SEVERAL}
IDENTITIES = frozenset(
    f"{name}.default"
    for name in ("alias", "clone", "contiguous", "detach", "detach_", "dropout", "feature_dropout", "lift_fresh_copy")
)
PYTHON_FORMS: Mapping[Any, str] = {
    operator.add: "add",
    operator.floordiv: "floor_divide",
    operator.getitem: "getitem",
    operator.mod: "remainder",
    operator.mul: "mul",
    operator.sub: "sub",
    operator.truediv: "div",
}


def plain_name(target: Any) -> str:
    """Return torch's name of an operation, less its library: `add.Tensor`.

    >>> plain_name(torch.ops.aten.add.Tensor)
    'add.Tensor'
    """
    return str(target).removeprefix("aten.")


def decompositions() -> dict[Any, Any] | None:
    """Return torch's rules that break operations up, less those for operations that have a numpy form."""
    defaults = getattr(torch.export, "default_decompositions", None)
    if defaults is None:  # an older torch: it breaks up everything, and most of the pieces have numpy forms too
        return None
    kept = {*NUMPY_FORMS, *IDENTITIES}
    return {op: rule for op, rule in dict(defaults()).items() if plain_name(op) not in kept}
