"""The architectures give the shapes that heads read, and learn real images, texts and a graph a little in seconds."""

import numpy as np
import pytest

from experiments.real_sets import load_cora, load_fashion_mnist, load_sms_spam
from experiments.vocabulary import Vocabulary
from obil.errors import InvalidInputError

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from torch import Tensor, nn
from torch.nn import functional as F

from obil.networks.architectures import ConvNet, GraphConvNet, TextTransformer, normalised_edges
from obil.networks.onnx_export import export_onnx


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def train(module: nn.Module, rows: Tensor, labels: Tensor, *, epochs: int, batch: int, rate: float = 3e-3) -> None:
    """Train with Adam; one output is a tanh unit whose log odds are 2z, more are logits."""
    optimiser = torch.optim.Adam(module.parameters(), lr=rate)
    module.train()
    for _ in range(epochs):
        for places in torch.randperm(len(rows)).split(batch):
            outputs = module(rows[places])
            wanted = labels[places]
            loss = (
                F.binary_cross_entropy_with_logits(2 * outputs, wanted.float())
                if outputs.ndim == 1
                else F.cross_entropy(outputs, wanted)
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    module.eval()


def served(module: nn.Module, rows: Tensor) -> np.ndarray:
    """What the exported network gives, which must be what torch gives."""
    outputs = export_onnx(module, rows[:4]).outputs(rows.numpy())
    with torch.no_grad():
        expected = module(rows).numpy()
    assert (np.abs(outputs - expected) / np.maximum(1.0, np.abs(expected))).max() < 1e-6
    return outputs


@pytest.mark.parametrize(("n_outputs", "shape"), [(1, (5,)), (3, (5, 3))])
def test_architectures_give_what_a_head_reads(n_outputs: int, shape: tuple[int, ...]) -> None:
    assert ConvNet(n_outputs, channels=(4, 4, 8))(torch.zeros(5, 1, 28, 28)).shape == shape
    tokens = torch.randint(0, 9, (5, 6))
    assert TextTransformer(9, 6, n_outputs, width=8, heads=2, layers=1)(tokens).shape == shape
    graph = GraphConvNet(np.eye(7), np.array([[0, 1], [2, 3]]), n_outputs, hidden=4)
    assert graph(torch.arange(5)[:, None]).shape == shape


def test_padding_does_not_change_a_text_and_an_empty_one_has_an_output() -> None:
    module = TextTransformer(20, 8, 1).eval()
    tokens = torch.tensor([[3, 4, 5, 0, 0, 0, 0, 0], [0] * 8])
    before = module(tokens)
    assert torch.isfinite(before).all()
    with torch.no_grad():
        module.tokens.weight[0] = 100.0  # what stands in the place of nothing
        module.places[:, 4:] += 5.0
    torch.testing.assert_close(module(tokens), before)


def test_the_graph_network_is_the_textbook_formula() -> None:
    """ReLU(A X W + b) then A H V + c with the dense normalised adjacency A = D^-1/2 (E + I) D^-1/2."""
    rng = np.random.default_rng(0)
    features, edges = rng.normal(size=(6, 4)), np.array([[0, 1], [1, 0], [1, 2], [3, 4], [4, 4]])
    module = GraphConvNet(features, edges, 3, hidden=5).eval()
    joined = np.eye(6)
    for first, second in edges:
        joined[first, second] = joined[second, first] = 1.0
    scale = 1.0 / np.sqrt(joined.sum(axis=1))
    adjacency = scale[:, None] * joined * scale
    state = {name: values.numpy().astype(float) for name, values in module.state_dict().items()}
    hidden = np.maximum(adjacency @ features @ state["first.weight"].T + state["first_bias"], 0.0)
    expected = adjacency @ hidden @ state["second.weight"].T + state["second_bias"]
    outputs = module(torch.arange(6)[:, None]).detach().numpy()
    np.testing.assert_allclose(outputs, expected, atol=1e-6)


def test_settings_that_make_no_network_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="multiple of heads"):
        TextTransformer(9, 6, 1, width=10, heads=4)
    with pytest.raises(InvalidInputError, match="halved"):
        ConvNet(1, channels=(2,) * 5)
    for edges in (np.zeros((3, 3), int), np.array([[0, 9]]), np.array([[-1, 0]]), np.array([[0.0, 1.0]])):
        with pytest.raises(InvalidInputError, match="edges must"):
            normalised_edges(edges, 3)


def test_a_convolutional_network_learns_fashion() -> None:
    """Shirt against the other nine on 3,000 images; chance is an area of .5, this reaches about .9."""
    try:
        data = load_fashion_mnist("test")
    except InvalidInputError as reason:
        pytest.skip(str(reason))
    rows, labels = torch.from_numpy(data.rows(slice(0, 4000))), torch.from_numpy(data.labels[:4000] == 6)
    module = ConvNet(1, channels=(8, 16))
    train(module, rows[:3000], labels[:3000], epochs=2, batch=64)
    assert area(served(module, rows[3000:]), labels[3000:].numpy()) > 0.8


def test_a_transformer_learns_to_detect_spam() -> None:
    try:
        data = load_sms_spam()
    except InvalidInputError as reason:
        pytest.skip(str(reason))
    tokens = Vocabulary.learn(data.texts[:3000], length=24)
    rows, labels = torch.from_numpy(tokens.encode(data.texts)), torch.from_numpy(data.labels)
    module = TextTransformer(tokens.size, tokens.length, 2, width=32, heads=2, layers=1)
    train(module, rows[:3000], labels[:3000], epochs=2, batch=64)
    outputs = served(module, rows[3000:])
    assert area(outputs[:, 1] - outputs[:, 0], data.labels[3000:]) > 0.95


def test_a_graph_network_learns_the_subjects_of_papers() -> None:
    """140 labelled papers; always naming the commonest subject is right for 32 % of the test papers."""
    try:
        data = load_cora()
    except InvalidInputError as reason:
        pytest.skip(str(reason))
    module = GraphConvNet(data.features, data.edges, 7, hidden=16)
    nodes = torch.from_numpy(data.training)[:, None]
    train(module, nodes, torch.from_numpy(data.labels[data.training]), epochs=25, batch=140, rate=0.02)
    outputs = served(module, torch.from_numpy(data.test)[:, None])
    assert (outputs.argmax(axis=1) == data.labels[data.test]).mean() > 0.7


def area(scores: np.ndarray, labels: np.ndarray) -> float:
    """The chance that a positive scores above a negative."""
    positive, negative = scores[labels == 1], scores[labels == 0]
    return float((positive[:, None] > negative).mean())
