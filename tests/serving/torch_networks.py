"""Torch modules of several kinds, exported once for all tests: what a user might bring."""

from functools import cache

import numpy as np
import pytest

from obil.serving.networks.onnx_scorer import OnnxNetwork

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")
pytest.importorskip("onnxscript", reason="the extra 'torch' is not installed")

from torch import Tensor, nn

from obil.networks.architectures import ConvNet, GraphConvNet, TextTransformer
from obil.networks.onnx_export import export_onnx


class Residual(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, padding=1, groups=after, bias=False), nn.BatchNorm2d(after), nn.SiLU(),
        )  # fmt: skip
        self.excite = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(after, 4, 1), nn.ReLU(), nn.Conv2d(4, after, 1), nn.Sigmoid()
        )
        self.short = nn.Sequential(nn.Conv2d(before, after, 1, stride=2, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        branch = self.branch(x)
        return torch.relu_(branch * self.excite(branch) + self.short(x))


class Backbone(nn.Module):
    """Like a pre-trained residual network with a new head: stem, stages, global pool, classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, stride=2, padding=3), nn.BatchNorm2d(8), nn.ReLU6())
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.stages = nn.Sequential(Residual(8, 12), Residual(12, 16))
        self.head = nn.Sequential(nn.Dropout(0.5), nn.Linear(16, 5))

    def forward(self, x: Tensor) -> Tensor:
        features = self.stages(self.pool(self.stem((x - 0.45) / 0.22)))
        return self.head(torch.flatten(nn.functional.adaptive_avg_pool2d(features, (1, 1)), 1))


class TorchEncoder(nn.Module):
    """Torch's own Transformer, with the mask that most people give it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 16, padding_idx=0)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.output = nn.Linear(16, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.encoder(self.embed(tokens), src_key_padding_mask=tokens == 0)
        return self.output(hidden[:, 0])


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.GRU(4, 6, batch_first=True)
        self.output = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(nn.functional.normalize(self.gates(x)[0].amax(dim=1), dim=-1))


def _mlp() -> nn.Module:
    layers = [nn.Linear(6, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 64), nn.ELU(), nn.Linear(64, 1)]
    return nn.Sequential(*layers, nn.Flatten(0))


def _graph() -> GraphConvNet:
    rng = np.random.default_rng(0)
    return GraphConvNet(rng.random((60, 9)) < 0.2, rng.integers(0, 60, (150, 2)), 3)


def _tokens(n: int, high: int, length: int) -> Tensor:
    tokens = torch.randint(1, high, (n, length))
    filled = torch.randint(1, length + 1, (n, 1))
    return tokens * (torch.arange(length) < filled)


CASES = {
    "mlp": (_mlp, lambda: torch.randn(300, 6)),
    "ConvNet": (lambda: ConvNet(1), lambda: torch.rand(120, 1, 28, 28)),
    "TextTransformer": (lambda: TextTransformer(50, 12, 2), lambda: _tokens(300, 50, 12)),
    "GraphConvNet": (_graph, lambda: torch.randint(0, 60, (300, 1))),
    "backbone": (Backbone, lambda: torch.rand(60, 3, 32, 32)),
    "torch's encoder": (TorchEncoder, lambda: _tokens(120, 40, 9)),
    "recurrent": (Recurrent, lambda: torch.randn(120, 5, 4)),
}


@cache
def exported(name: str) -> tuple[nn.Module, OnnxNetwork, np.ndarray]:
    """Return the module in eval mode, its ONNX network, and rows of which it has seen only the first 4."""
    torch.set_num_threads(1)
    make, draw = CASES[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        module, rows = make().train(), draw()
        if rows.is_floating_point():
            for _ in range(5):  # batch norms learn means and variances
                module(rows)
    network = export_onnx(module, rows[:4])
    return module.eval(), network, rows.numpy()
