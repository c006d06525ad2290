"""Start a small ConvNet from weights that learned five other kinds of clothing, and tell shirts from the rest."""

from functools import lru_cache
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from experiments.choices.measures import Measures, calibrated_variants, measured, prior_at
from experiments.real_sets import ImageSet, load_fashion_mnist
from obil.estimators.obil_classifier import OBILClassifier
from obil.networks.architectures import ConvNet
from obil.networks.losses import named_loss
from obil.networks.settings import ModuleKind, Training
from obil.networks.training import TrainingRows, reproducible, train

LEARNED = (0, 1, 5, 7, 8)  # T-shirt, trouser, sandal, sneaker, bag: what the backbone was trained on
POSITIVE, NEGATIVE = 6, (2, 3, 4, 9)  # shirt; pullover, dress, coat, ankle boot
EVEN = "classes weighted evenly"
CHANNELS, WIDTH = (8, 16), 32


class FrozenBody(ConvNet):
    """A ConvNet whose convolutions stay as they are, running statistics included: the dense layers are trained."""

    def train(self, mode: bool = True) -> Self:
        """Switch the dropout of the dense layers only."""
        super().train(mode)
        self.stages.eval()
        self.stages.requires_grad_(False)
        return self


def run(cell: dict[str, Any], settings: dict[str, Any]) -> dict[str, Measures]:
    """Return the measures of one loss and one start, before and after calibration."""
    seed, start = cell["seed"], cell["start"]
    rng = np.random.default_rng(seed)
    n_positives, n_negatives = settings["image_positives"], settings["image_negatives"]
    rows, labels = _task(_images("train"), n_positives, n_negatives, rng)
    test_rows, test_labels = _task(_images("test"), 1_000, settings["image_test_negatives"], rng)
    weights = None if start == "from scratch" else _pretrained(settings["backbone_rows"], settings["backbone_epochs"])

    def build() -> ConvNet:
        network = (FrozenBody if start == "frozen convolutions" else ConvNet)(1, channels=CHANNELS, width=WIDTH)
        if weights is not None:
            network.load_state_dict(network.state_dict() | weights)
        return network

    training = Training(
        epochs=settings["image_epochs"], least_steps=0, batch_size=64, learning_rate=1e-3, warmup=20, weight_decay=1e-4
    )
    ratio = n_negatives / n_positives
    model = OBILClassifier(
        n_members=1,
        ratios=[1.0 if EVEN in start else ratio],
        sampling="weight",
        loss=cell["loss"],
        member=ModuleKind(build, training),
        cv=0.3,
        random_state=seed,
    ).fit(rows, labels)
    methods = calibrated_variants(model.model_, model.model_.scores(test_rows))
    return {method: measured(ratios, test_labels, prior_at(ratio)) for method, ratios in methods.items()}


def _task(images: ImageSet, n_positives: int, n_negatives: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Draw shirts and as many of each other kind as make up the negatives."""
    wanted = {POSITIVE: n_positives} | dict.fromkeys(NEGATIVE, n_negatives // len(NEGATIVE))
    places = np.concatenate(
        [rng.choice(np.flatnonzero(images.labels == k), n, replace=False) for k, n in wanted.items()]
    )
    return images.rows(places), (images.labels[places] == POSITIVE).astype(np.int64)


@lru_cache(maxsize=2)
def _images(part: str) -> ImageSet:
    return load_fashion_mnist(part)


@lru_cache(maxsize=1)
def _pretrained(n_rows: int, epochs: int) -> dict[str, Tensor]:
    """Return the weights of the convolutions of a network that tells the five learned kinds apart."""
    images = _images("train")
    rng = np.random.default_rng(0)
    places = rng.choice(np.flatnonzero(np.isin(images.labels, LEARNED)), n_rows, replace=False)
    labels = np.searchsorted(LEARNED, images.labels[places]).astype(np.int64)
    everything = np.arange(n_rows)
    with reproducible(0):
        network = ConvNet(len(LEARNED), channels=CHANNELS, width=WIDTH)
        data = TrainingRows.of(torch.from_numpy(images.rows(places)), labels, everything, np.ones(n_rows), "cpu")
        settings = Training(epochs=epochs, least_steps=0, batch_size=64, learning_rate=2e-3)
        train(network, data, loss=named_loss("categorical_cross_entropy"), settings=settings, rng=rng)
    return {name: values for name, values in network.state_dict().items() if name.startswith("stages.")}
