"""Load the real images, texts and graph that networks are tried on, from files that are at hand."""

import gzip
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from obil.arrays import IntArray
from obil.datasets.named_set import data_folders
from obil.errors import InvalidInputError

FASHION_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
DEBIAN_FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")  # of the package dataset-fashion-mnist
_FASHION_FILES = {"train": ("train", 60_000), "test": ("t10k", 10_000)}
_SMS_COUNTS = (5_574, 747)  # texts, spam
_CORA_COUNTS = (2_708, 1_433, 5_278, 7)  # nodes, features, edges, classes


@dataclass(frozen=True, slots=True, eq=False)
class ImageSet:
    """Grey images with their classes."""

    images: npt.NDArray[np.uint8]  # (n, side, side)
    labels: IntArray  # (n,)
    classes: tuple[str, ...]
    source: str

    def rows(self, places: Any = slice(None)) -> npt.NDArray[np.float32]:
        """Return images as a network takes them, (n, 1, side, side) in [0, 1], all or those at `places`."""
        rows: npt.NDArray[np.float32] = self.images[places][:, None].astype(np.float32) / np.float32(255.0)
        return rows


@dataclass(frozen=True, slots=True, eq=False)
class TextSet:
    """Texts with their classes."""

    texts: tuple[str, ...]
    labels: IntArray  # (n,)
    classes: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True, eq=False)
class NodeSet:
    """The nodes of one graph, with features and classes, and its published split."""

    features: npt.NDArray[np.float32]  # (N, d)
    edges: IntArray  # (E, 2), undirected
    labels: IntArray  # (N,)
    training: IntArray  # node numbers
    validation: IntArray
    test: IntArray
    source: str


def load_fashion_mnist(part: str = "train") -> ImageSet:
    """Return Fashion-MNIST's "train" (60,000) or "test" (10,000) images: articles of clothing, 28 x 28, 10 classes."""
    if part not in _FASHION_FILES:
        raise InvalidInputError(f"part must be 'train' or 'test', got {part!r}")
    prefix, count = _FASHION_FILES[part]
    folders = [*(folder / "fashion-mnist" for folder in data_folders()), *data_folders(), DEBIAN_FASHION_MNIST]
    names = (f"{prefix}-images-idx3-ubyte.gz", f"{prefix}-labels-idx1-ubyte.gz")
    remedy = "install the Debian package dataset-fashion-mnist"
    image_file, label_file = (_find("fashion_mnist", name, folders, remedy) for name in names)
    images, labels = _read_idx(image_file), _read_idx(label_file)
    if images.shape != (count, 28, 28) or labels.shape != (count,) or labels.max() >= len(FASHION_CLASSES):
        raise InvalidInputError(
            f"fashion_mnist must have {count} images of 28 x 28, got {images.shape} and {labels.shape} in {image_file}"
        )
    return ImageSet(images, labels.astype(np.int64), FASHION_CLASSES, str(image_file.parent))


def load_sms_spam() -> TextSet:
    """Return the SMS spam collection: 5,574 English texts, 747 of them spam (class 1)."""
    path = _find("sms_spam", "sms_spam.tsv", data_folders())
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"sms_spam must be a text file, got damage in {path}: {error}") from None
    pairs = [line.rstrip("\r").split("\t", 1) for line in lines if line.strip()]
    if not all(len(pair) == 2 and pair[0] in ("ham", "spam") for pair in pairs):
        raise InvalidInputError(f"sms_spam must have lines of ham or spam, a tab and a text, got others in {path}")
    labels = np.array([pair[0] == "spam" for pair in pairs], dtype=np.int64)
    if (len(labels), int(labels.sum())) != _SMS_COUNTS:
        got = (len(labels), int(labels.sum()))
        raise InvalidInputError(f"sms_spam must have (texts, spam) {_SMS_COUNTS}, got {got} in {path}")
    return TextSet(tuple(pair[1] for pair in pairs), labels, ("ham", "spam"), str(path))


def load_cora() -> NodeSet:
    """Return the Cora citation graph: 2,708 papers by which of 1,433 terms they hold, 7 subjects."""
    path = _find("cora", "cora.npz", data_folders())
    try:
        with np.load(path, allow_pickle=False) as saved:
            arrays = {name: np.asarray(saved[name]) for name in saved.files}
        nodes, width = (int(length) for length in arrays["X_shape"])
        if (nodes, width) != _CORA_COUNTS[:2]:
            raise InvalidInputError(f"cora must have (nodes, terms) {_CORA_COUNTS[:2]}, got {(nodes, width)} in {path}")
        features = np.zeros((nodes, width), dtype=np.float32)
        features[np.repeat(np.arange(nodes), np.diff(arrays["X_indptr"])), arrays["X_indices"]] = 1.0
        edges, labels = arrays["edges"].astype(np.int64), arrays["y"].astype(np.int64)
        training, validation, test = [arrays[f"{part}_idx"].astype(np.int64) for part in ("train", "val", "test")]
    except (OSError, EOFError, LookupError, TypeError, zipfile.BadZipFile, zlib.error, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"cora must be a whole npz file, got damage in {path}: {error}") from None
    got = (len(labels), width, len(edges), len(np.unique(labels)))
    if got != _CORA_COUNTS:
        raise InvalidInputError(f"cora must have (nodes, terms, edges, classes) {_CORA_COUNTS}, got {got} in {path}")
    return NodeSet(features, edges, labels, training, validation, test, str(path))


def _find(name: str, file: str, folders: Sequence[Path], remedy: str | None = None) -> Path:
    for folder in folders:
        if (folder / file).is_file():
            return folder / file
    remedies = [f"put {file} in {data_folders()[0]}", *([remedy] if remedy else [])]
    raise InvalidInputError(f"data set {name!r} was not found: {', or '.join(remedies)}")


def _read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """Return the array of bytes in a gzipped IDX file: two zeros, 8, the number of axes, their lengths, the bytes."""
    try:
        with gzip.open(path) as file:
            content = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInputError(f"an IDX file must be a whole gzip file, got damage in {path}: {error}") from None
    axes = content[3] if content[:3] == b"\x00\x00\x08" and len(content) > 3 else 0
    shape = tuple(int(length) for length in np.frombuffer(content[4 : 4 + 4 * axes], dtype=">u4")) if axes else ()
    values = np.frombuffer(content[4 + 4 * axes :], dtype=np.uint8)
    if not axes or len(shape) != axes or values.size != int(np.prod(shape, dtype=object)):
        raise InvalidInputError(f"an IDX file must hold the bytes that its head tells of, got {values.size} in {path}")
    return values.reshape(shape)
