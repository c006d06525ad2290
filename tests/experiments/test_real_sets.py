"""The real images, texts and graph are those of the tables, and their absence or damage is told."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from experiments import real_sets
from experiments.real_sets import load_cora, load_fashion_mnist, load_sms_spam
from obil.errors import InvalidInputError

DataFile = Callable[[str], Path]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder that is looked into, and it is empty."""
    monkeypatch.setenv("OBIL_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(real_sets, "DEBIAN_FASHION_MNIST", tmp_path / "nowhere")
    return tmp_path


def idx(values: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, values.ndim]) + b"".join(length.to_bytes(4, "big") for length in values.shape)
    return gzip.compress(head + values.astype(np.uint8).tobytes(), 1, mtime=0)


@pytest.mark.parametrize(("part", "count"), [("train", 60_000), ("test", 10_000)])
def test_fashion_mnist_has_the_published_images(part: str, count: int) -> None:
    try:
        data = load_fashion_mnist(part)
    except InvalidInputError as reason:
        pytest.skip(str(reason))
    assert data.images.shape == (count, 28, 28)
    assert np.bincount(data.labels).tolist() == [count // 10] * 10
    assert data.classes[6] == "Shirt"
    rows = data.rows([0, 5, 7])
    assert rows.shape == (3, 1, 28, 28)
    assert rows.dtype == np.float32
    assert (rows.min(), rows.max()) == (0.0, 1.0)
    np.testing.assert_allclose(rows[1, 0] * 255.0, data.images[5], atol=1e-4)


def test_sms_spam_has_the_published_texts(data_file: DataFile) -> None:
    path = data_file("sms_spam.tsv")
    data = load_sms_spam()
    assert data.source == str(path)
    assert (len(data.texts), int(data.labels.sum())) == (5_574, 747)
    assert data.texts[1] == "Ok lar... Joking wif u oni..."
    assert data.labels[:3].tolist() == [0, 0, 1]


def test_cora_has_the_published_graph(data_file: DataFile) -> None:
    data_file("cora.npz")
    data = load_cora()
    assert data.features.shape == (2_708, 1_433)
    assert set(np.unique(data.features)) == {0.0, 1.0}
    assert data.features.sum() == 49_216
    assert data.edges.shape == (5_278, 2)
    assert [len(part) for part in (data.training, data.validation, data.test)] == [140, 500, 1_000]
    assert np.bincount(data.labels[data.training]).tolist() == [20] * 7
    assert not set(data.training) & set(data.test)


@pytest.mark.parametrize("load", [load_fashion_mnist, load_sms_spam, load_cora])
def test_an_absent_set_says_what_to_put_where(load: Callable[[], object], folder: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"was not found: put .* in ") as caught:
        load()
    assert str(folder) in str(caught.value)


def test_fashion_mnist_is_read_from_the_folder_first(folder: Path) -> None:
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (10_000, 28, 28)), np.arange(10_000) % 10
    (folder / "fashion-mnist").mkdir()
    (folder / "fashion-mnist" / "t10k-images-idx3-ubyte.gz").write_bytes(idx(images))
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(idx(labels))
    data = load_fashion_mnist("test")
    np.testing.assert_array_equal(data.images, images)
    np.testing.assert_array_equal(data.labels, labels)


@pytest.mark.parametrize(
    "images",
    [
        b"",
        b"no gzip",
        gzip.compress(b"", mtime=0),
        gzip.compress(b"\x00\x00\x08\x03", mtime=0),
        gzip.compress(b"\x00\x00\x0d\x01\x00\x00", mtime=0),
        gzip.compress(b"\x00\x00\x08\x03" + b"\xff" * 12, mtime=0),
        idx(np.zeros((10, 28, 28))),
        idx(np.zeros((10, 28, 28)))[:-9],
    ],
)
def test_damaged_images_are_refused(images: bytes, folder: Path) -> None:
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(images)
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(idx(np.zeros(10)))
    with pytest.raises(InvalidInputError, match="must"):
        load_fashion_mnist("test")


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="'train' or 'test'"):
        load_fashion_mnist("validation")


@pytest.mark.parametrize("content", [b"", b"ham\tone text\n", b"eggs\tone text\n", b"ham\n", b"\xff\xfe\x00\xd8"])
def test_other_texts_are_refused(content: bytes, folder: Path) -> None:
    (folder / "sms_spam.tsv").write_bytes(content)
    with pytest.raises(InvalidInputError, match="sms_spam must"):
        load_sms_spam()


@pytest.mark.parametrize("damage", ["empty", "no zip", "keys", "shape", "pickle", "edges", "indices"])
def test_another_graph_is_refused(damage: str, folder: Path) -> None:
    arrays = {
        "X_shape": np.array([2_708, 1_433]), "X_indptr": np.zeros(2_709, int), "X_indices": np.zeros(0, int),
        "edges": np.zeros((5_278, 2), int), "y": np.arange(2_708) % 7, "train_idx": np.arange(3),
        "val_idx": np.arange(3), "test_idx": np.arange(3),
    }  # fmt: skip
    np.savez(folder / "cora.npz", **arrays)
    assert load_cora().features.shape == (2_708, 1_433)
    if damage == "keys":
        del arrays["y"]
    elif damage == "shape":
        arrays["X_shape"] = np.array([2_708_000_000, 1_433])
    elif damage == "pickle":
        arrays["y"] = np.array([{}], dtype=object)
    elif damage == "edges":
        arrays["edges"] = arrays["edges"][1:]
    elif damage == "indices":
        arrays["X_indptr"], arrays["X_indices"] = np.append(np.zeros(2_708, int), 1), np.array([5_000])
    np.savez(folder / "cora.npz", **arrays)
    if damage in ("empty", "no zip"):
        (folder / "cora.npz").write_bytes(b"" if damage == "empty" else b"PK not a zip")
    with pytest.raises(InvalidInputError, match="cora must"):
        load_cora()
