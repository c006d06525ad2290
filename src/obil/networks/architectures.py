"""Small architectures for images, texts and graphs: each gives the pre-activations that a head reads.

With `n_outputs=1` an architecture gives (n,), for a tanh head; else (n, n_outputs), for softmax or one-vs-rest.
All of them can be exported (`obil.networks.onnx_export`) and served by ONNX Runtime, without torch.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # its usual name

from obil.errors import InvalidInputError

IMAGE_SIDE = 28
PADDING = 0  # the padding token


class ConvNet(nn.Module):
    """A convolutional network for images of 28 x 28: each stage convolves, normalises, and halves the sides.

    >>> ConvNet(1)(torch.zeros(3, 1, 28, 28)).shape
    torch.Size([3])
    """

    def __init__(self, n_outputs: int, *, channels: Sequence[int] = (16, 32), width: int = 64, dropout: float = 0.2):
        super().__init__()
        side = IMAGE_SIDE // 2 ** len(channels)
        if not channels or side < 1:
            raise InvalidInputError(f"an image of side {IMAGE_SIDE} can be halved 1 to 4 times, got {len(channels)}")
        stages: list[nn.Module] = []
        for before, after in zip((1, *channels), channels, strict=False):
            stages += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
            stages += [nn.MaxPool2d(2)]
        self.stages = nn.Sequential(*stages)
        self.hidden = nn.Linear(channels[-1] * side * side, width)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, n_outputs)

    def forward(self, images: Tensor) -> Tensor:
        """Return the outputs of images (n, 1, 28, 28)."""
        hidden = F.relu(self.hidden(self.dropout(self.stages(images).flatten(1))))
        return _one_or_more(self.output(self.dropout(hidden)))


class TextTransformer(nn.Module):
    """A small Transformer for texts as rows of token numbers, 0 for padding; with a learned first token.

    >>> TextTransformer(100, 12, 2)(torch.zeros(3, 12, dtype=torch.int64)).shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        vocabulary_size: int,
        length: int,
        n_outputs: int,
        *,
        width: int = 64,
        heads: int = 4,
        layers: int = 2,
        dropout: float = 0.1,
    ):
        super().__init__()
        if width % heads:
            raise InvalidInputError(f"width must be a multiple of heads, got {width} and {heads}")
        self.tokens = nn.Embedding(vocabulary_size, width, padding_idx=PADDING)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, length + 1, width))
        nn.init.normal_(self.first, std=0.02)
        nn.init.normal_(self.places, std=0.02)
        self.layers = nn.ModuleList(_EncoderLayer(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, n_outputs)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the outputs of token numbers (n, L)."""
        numbers = tokens.long()
        present = F.pad(numbers != PADDING, (1, 0), value=True)  # (n, L + 1)
        hidden = torch.cat([self.first.expand(numbers.shape[0], -1, -1), self.tokens(numbers)], dim=1)
        hidden = self.dropout(hidden + self.places)
        for layer in self.layers:
            hidden = layer(hidden, present[:, None, None, :])
        weights = present.to(hidden.dtype).unsqueeze(-1)
        pooled = (self.norm(hidden) * weights).sum(dim=1) / weights.sum(dim=1)
        return _one_or_more(self.output(self.dropout(pooled)))


class _EncoderLayer(nn.Module):
    """Attention and a two-layer network, each pre-normalised and residual."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.mixed = nn.Linear(width, width)
        self.network = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(2 * width, width),
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor, present: Tensor) -> Tensor:
        """Return the layer's output, (n, L, width); only places that are `present` are attended to."""
        parts = self.query_key_value(self.before_attention(hidden)).unflatten(-1, (3, self.heads, -1))
        query, key, value = (part.transpose(1, 2) for part in parts.unbind(2))  # (n, heads, L, width / heads)
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=present)
        hidden = hidden + self.dropout(self.mixed(attended.transpose(1, 2).flatten(2)))
        changed: Tensor = hidden + self.dropout(self.network(hidden))
        return changed


class GraphConvNet(nn.Module):
    """A graph convolutional network of two layers (Kipf and Welling) that classifies the nodes of one graph.

    The graph is part of the network: `features` (N, d) and undirected `edges` (E, 2). A row is a node's number.

    >>> net = GraphConvNet(np.eye(3), np.array([[0, 1], [1, 2]]), 2)
    >>> net(torch.tensor([[0], [2]])).shape
    torch.Size([2, 2])
    """

    features: Tensor
    sources: Tensor
    targets: Tensor
    weights: Tensor

    def __init__(
        self, features: npt.ArrayLike, edges: npt.ArrayLike, n_outputs: int, *, hidden: int = 32, dropout: float = 0.5
    ):
        super().__init__()
        nodes = torch.as_tensor(np.asarray(features, dtype=np.float32))
        sources, targets, weights = normalised_edges(np.asarray(edges), len(nodes))
        self.register_buffer("features", nodes)
        self.register_buffer("sources", torch.as_tensor(sources))
        self.register_buffer("targets", torch.as_tensor(targets))
        self.register_buffer("weights", torch.as_tensor(weights, dtype=torch.float32)[:, None])
        self.dropout = nn.Dropout(dropout)
        self.first = nn.Linear(nodes.shape[1], hidden, bias=False)
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.second = nn.Linear(hidden, n_outputs, bias=False)
        self.second_bias = nn.Parameter(torch.zeros(n_outputs))

    def forward(self, nodes: Tensor) -> Tensor:
        """Return the outputs of nodes by their numbers, (n, 1)."""
        hidden = F.relu(self._from_neighbours(self.first(self.dropout(self.features))) + self.first_bias)
        outputs = self._from_neighbours(self.second(self.dropout(hidden))) + self.second_bias  # (N, n_outputs)
        return _one_or_more(F.embedding(nodes[:, 0].long(), outputs))

    def _from_neighbours(self, values: Tensor) -> Tensor:
        sent = values.index_select(0, self.sources) * self.weights
        return torch.zeros_like(values).index_add(0, self.targets, sent)


def normalised_edges(edges: npt.NDArray[Any], n_nodes: int) -> tuple[Any, Any, npt.NDArray[np.float64]]:
    """Return sources, targets and weights 1/sqrt(degree degree) of both directions of each edge, and of self loops.

    >>> normalised_edges(np.array([[0, 1]]), 2)
    (array([0, 0, 1, 1]), array([0, 1, 0, 1]), array([0.5, 0.5, 0.5, 0.5]))
    """
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
        raise InvalidInputError(f"edges must be pairs of node numbers, (E, 2), got {edges.dtype} {edges.shape}")
    if edges.size and not (edges.min() >= 0 and edges.max() < n_nodes):
        raise InvalidInputError(f"edges must join nodes 0 ... {n_nodes - 1}, got {edges.min()} ... {edges.max()}")
    loops = np.repeat(np.arange(n_nodes)[:, None], 2, axis=1)
    pairs = np.unique(np.concatenate([loops, edges, edges[:, ::-1]]).astype(np.int64), axis=0)
    sources, targets = pairs[:, 0].copy(), pairs[:, 1].copy()
    degrees = np.bincount(targets, minlength=n_nodes).astype(np.float64)
    return sources, targets, 1.0 / np.sqrt(degrees[sources] * degrees[targets])


def _one_or_more(outputs: Tensor) -> Tensor:
    return outputs.squeeze(-1) if outputs.shape[-1] == 1 else outputs
