"""Training finds posteriors that are known, stops in time, repeats to the bit, and leaves torch as it found it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from obil.arrays import FloatArray, IntArray
from obil.datasets.gaussian_stream import GaussianClasses, Stream
from obil.errors import EstimationError, InvalidInputError
from obil.networks.settings import Training

torch = pytest.importorskip("torch", reason="needs the torch extra")

from torch import Tensor, nn

from obil.networks import training
from obil.networks.losses import named_loss
from obil.networks.mlp import MLP
from obil.networks.training import TrainingRows, loss_of, reproducible, train
from obil.serving.networks.heads import scores_of_outputs

PAIR = GaussianClasses.pair(2.0)
LINE = GaussianClasses(np.array([[0.0], [2.0], [-2.0]]), np.eye(1))
QUICK = Training(epochs=30, learning_rate=0.01, averaging=0.9)


def plain(**settings: Any) -> Training:
    """Return settings without a schedule, decay or least number of steps."""
    return replace(Training(least_steps=0, warmup=0, cosine=False, weight_decay=0.0), **settings)


@pytest.fixture(autouse=True)
def _as_it_was() -> Any:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    yield
    torch.set_num_threads(threads)
    torch.set_rng_state(state)


def pair(n: int, prior: float, seed: int = 0) -> Stream:
    return PAIR.draw(np.full(n, prior), random_state=seed)


def as_rows(
    features: FloatArray, labels: IntArray, rows: IntArray | None = None, weights: FloatArray | None = None
) -> TrainingRows:
    picked = np.arange(len(labels)) if rows is None else rows
    given = np.ones(len(picked)) if weights is None else weights
    return TrainingRows.of(torch.from_numpy(features.astype(np.float32)), labels, picked, given, "cpu")


def trained(
    data: TrainingRows, loss: str, *, width: int = 1, settings: Training = QUICK, seed: int = 0, dropout: float = 0.0
) -> nn.Module:
    with reproducible(seed):
        network = MLP(data.inputs.shape[1], width, hidden=(16,), dropout=dropout)
        train(network, data, loss=named_loss(loss), settings=settings, rng=np.random.default_rng(seed))
    return network


def scores(network: nn.Module, at: FloatArray, head: str, training_prior: list[float]) -> FloatArray:
    with torch.inference_mode():
        outputs = network(torch.from_numpy(at.astype(np.float32))).double().numpy()
    return scores_of_outputs(outputs, head=head, training_prior=training_prior)


GRID = np.linspace(-1.0, 3.0, 41)[:, None]  # one standard deviation beyond both means


@pytest.mark.parametrize("loss", ["squared_error", "cross_entropy", "exponential", "logistic"])
def test_a_tanh_unit_finds_the_ratio_of_two_normal_classes(loss: str) -> None:
    """8,000 rows at .3; over five seeds the largest error was .45 (log ratios run from -4 to 4), the mean one .14."""
    stream = pair(8_000, 0.3)
    network = trained(as_rows(stream.features, stream.labels), loss)
    prior = float(stream.labels.mean())
    slope = 1.0 if loss != "cross_entropy" else named_loss("cross_entropy").log_odds_slope / 2.0
    with torch.inference_mode():
        z = slope * network(torch.from_numpy(GRID.astype(np.float32))).double().numpy()
    found = scores_of_outputs(z, head="tanh", training_prior=[1.0 - prior, prior])[:, 1]
    errors = abs(found - PAIR.log_ratios(GRID)[:, 1])
    assert errors.mean() < 0.3
    assert errors.max() < 0.9


@pytest.mark.parametrize(
    ("loss", "head"), [("categorical_cross_entropy", "softmax"), ("brier", "softmax"), ("squared_error", "one_vs_rest")]
)
def test_three_classes_find_their_ratios(loss: str, head: str) -> None:
    """12,000 rows at .5, .3, .2, judged where no class is rarer than 1 in 100: mean error below .35."""
    stream = LINE.draw(np.tile([0.5, 0.3, 0.2], (12_000, 1)), random_state=0)
    network = trained(as_rows(stream.features, stream.labels), loss, width=3)
    at = np.linspace(-1.0, 1.0, 21)[:, None]
    training_prior = (np.bincount(stream.labels) / len(stream.labels)).tolist()
    errors = abs(scores(network, at, head, training_prior) - LINE.log_ratios(at))
    assert errors.mean() < 0.35


def test_weights_are_the_prior_that_is_divided_out() -> None:
    """Positives weighed 5 times move the log odds by log 5, and nothing else: within .25 everywhere."""
    stream = pair(8_000, 0.2)
    weights = np.where(stream.labels == 1, 5.0, 1.0)
    weighted = trained(as_rows(stream.features, stream.labels, weights=weights), "logistic")
    plain = trained(as_rows(stream.features, stream.labels), "logistic")
    at = np.linspace(0.0, 2.0, 21)[:, None]
    both = [scores(network, at, "tanh", [0.5, 0.5])[:, 1] for network in (weighted, plain)]
    np.testing.assert_allclose(both[0] - both[1], np.log(5.0), atol=0.4)


def test_only_the_proportions_of_the_weights_count() -> None:
    stream = pair(400, 0.3)
    weights = np.random.default_rng(0).random(400) + 0.5
    settings = plain(epochs=2, batch_size=64, patience=0)
    first, second = (
        trained(as_rows(stream.features, stream.labels, weights=scale * weights), "logistic", settings=settings)
        for scale in (1.0, 1024.0)  # a power of two, so that not even rounding differs
    )
    assert_same_weights(first, second)


def assert_same_weights(first: nn.Module, second: nn.Module) -> None:
    own, others = first.state_dict(), second.state_dict()
    assert all(torch.equal(own[name], others[name]) for name in own)


@pytest.mark.parametrize("loss", ["squared_error", "logistic", "exponential", "cross_entropy"])
def test_losses_take_any_shape_of_outputs(loss: str) -> None:
    chosen, labels = named_loss(loss), torch.tensor([0, 1, 1])
    z = torch.tensor([0.3, -0.2, 1.5])
    flat = loss_of(chosen, z, labels)
    assert torch.equal(flat, loss_of(chosen, z[:, None], labels))
    rest = torch.stack([-z, z], dim=1)  # one against the rest of two classes says everything twice
    np.testing.assert_allclose(loss_of(chosen, rest, labels).numpy(), 2.0 * flat.numpy(), rtol=1e-6)


class Scripted(nn.Module):
    """A network of one bias whose held-out loss follows a script: the bias is the number of the epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs[:, :1] * 0.0 + self.epoch * 1e-30


def scripted(
    monkeypatch: pytest.MonkeyPatch, losses: list[float], patience: int, averaging: float = 0.0
) -> tuple[Scripted, int]:
    network, left = Scripted(), iter(losses)
    monkeypatch.setattr(training, "_held_out_loss", lambda *_: next(left))

    def mark(epoch: int) -> None:
        with torch.no_grad():
            network.epoch.fill_(float(epoch))

    data = as_rows(np.zeros((40, 1)), np.arange(40) % 2)
    settings = plain(epochs=len(losses), patience=patience, batch_size=64, averaging=averaging)
    n_epochs = train(
        network, data, loss=named_loss("logistic"), settings=settings, rng=np.random.default_rng(0), after_epoch=mark
    )
    return network, n_epochs


@pytest.mark.parametrize(
    ("losses", "patience", "best", "stopped"),
    [
        ([5.0, 4.0, 3.0, 3.5, 3.6, 1.0], 2, 3, 5),
        ([5.0, 4.0, 3.0, 3.5, 3.6, 1.0], 3, 6, 6),
        ([1.0, 2.0, 3.0, 4.0], 1, 1, 2),
        ([4.0, 3.0, 2.0, 1.0], 1, 4, 4),
        ([2.0, 2.0, 2.0], 5, 1, 3),  # as good is no better
    ],
)
def test_early_stopping_restores_the_best(
    losses: list[float], patience: int, best: int, stopped: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, n_epochs = scripted(monkeypatch, losses, patience)
    assert float(network.epoch.detach()) == best
    assert n_epochs == stopped
    assert not network.training


@pytest.mark.parametrize(("n_rows", "in_epoch"), [(30, 12), (96, 12), (400, 13)])
def test_an_epoch_of_a_small_problem_has_several_passes(n_rows: int, in_epoch: int) -> None:
    """Of 30 rows one batch, so 12 passes; of 96 three, so 4; 400 make 13 batches and one pass is enough."""
    rng = np.random.default_rng(0)
    data = as_rows(rng.normal(size=(n_rows, 1)), np.arange(n_rows) % 2)
    taken: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training._MovingAverage, "update", lambda self: taken.append(1))
        settings = plain(epochs=3, epoch_steps=12, batch_size=32, patience=0)
        trained(data, "logistic", settings=settings)
    assert len(taken) == 3 * in_epoch


def test_a_refit_trains_afresh_on_every_row_for_the_epochs_found_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """The held-out loss is lowest after the second epoch: two epochs of all 40 rows follow, from the same start."""
    left = iter([5.0, 3.0, 4.0, 4.0])
    monkeypatch.setattr(training, "_held_out_loss", lambda *_: next(left))
    seen: list[tuple[int, float]] = []
    original = TrainingRows.mean_loss

    def recorded(self: TrainingRows, network: nn.Module, loss: Any, places: Tensor) -> Tensor:
        seen.append((len(places), float(next(network.parameters()).detach().abs().sum())))
        return original(self, network, loss, places)

    monkeypatch.setattr(TrainingRows, "mean_loss", recorded)
    data = as_rows(np.random.default_rng(0).normal(size=(40, 1)), np.arange(40) % 2)
    settings = plain(epochs=9, patience=2, batch_size=64, validation_fraction=0.2, learning_rate=0.1, refit=True)
    trained(data, "logistic", settings=settings)
    assert [rows for rows, _ in seen] == [32] * 4 + [40] * 2
    assert seen[4][1] == seen[0][1] != seen[3][1]


def test_early_stopping_saves_a_network_from_learning_noise_by_heart() -> None:
    """60 rows of pure noise, a network that could learn them all: stopped early, it is far less sure of them."""
    rng = np.random.default_rng(0)
    data = as_rows(rng.normal(size=(60, 10)), rng.integers(0, 2, 60))
    settings = {"epochs": 100, "learning_rate": 0.02, "batch_size": 64, "validation_fraction": 0.3}
    largest = {}
    for patience in (0, 5):
        network = trained(data, "logistic", settings=plain(patience=patience, **settings))
        with torch.inference_mode():
            largest[patience] = float(network(data.inputs).abs().max())
    assert largest[0] > 3.0
    assert largest[5] < largest[0] / 2.0


@pytest.mark.parametrize("n_epochs", [1, 2, 12])
def test_averaging_is_the_exponential_moving_average_of_the_steps(n_epochs: int) -> None:
    """Replayed by hand in float64 from the weights after each step; the decay starts low: min(decay, t / (t + 9))."""
    stream = pair(256, 0.3)
    data = as_rows(stream.features, stream.labels)
    settings = plain(epochs=n_epochs, learning_rate=0.05, batch_size=64, patience=0, averaging=0.7)
    steps: list[dict[str, Tensor]] = []
    original = training._MovingAverage.update

    def recorded(self: Any) -> None:
        steps.append({name: value.detach().double().clone() for name, value in self._network.state_dict().items()})
        original(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training._MovingAverage, "update", recorded)
        averaged = trained(data, "logistic", settings=settings, seed=3)
    assert len(steps) == 4 * n_epochs
    with reproducible(3):
        by_hand = {name: value.double() for name, value in MLP(1, hidden=(16,), dropout=0.0).state_dict().items()}
    for step, now in enumerate(steps, start=1):
        decay = min(0.7, step / (step + 9.0))
        by_hand = {name: decay * value + (1.0 - decay) * now[name] for name, value in by_hand.items()}
    for name, value in averaged.state_dict().items():
        np.testing.assert_allclose(value.double().numpy(), by_hand[name].numpy(), atol=1e-5)
        assert not torch.equal(value.double(), steps[-1][name])


def test_the_average_is_what_is_judged_and_kept() -> None:
    """With patience and averaging the best average is kept, and training continues from the weights themselves."""
    stream = pair(600, 0.3)
    data = as_rows(stream.features, stream.labels)
    judged: list[Tensor] = []
    original = training._held_out_loss

    def recording(network: nn.Module, *rest: Any) -> float:
        judged.append(torch.cat([value.flatten() for value in network.state_dict().values()]))
        return original(network, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "_held_out_loss", recording)
        network = trained(
            data, "logistic", settings=plain(epochs=6, patience=3, averaging=0.9, batch_size=64, learning_rate=0.01)
        )
    final = torch.cat([value.flatten() for value in network.state_dict().values()])
    assert any(torch.equal(final, one) for one in judged)


def test_batch_normalisation_is_averaged_and_counted() -> None:
    stream = pair(200, 0.3)
    with reproducible(0):
        network = nn.Sequential(nn.Linear(1, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
        train(
            network,
            as_rows(stream.features, stream.labels),
            loss=named_loss("logistic"),
            settings=plain(epochs=3, averaging=0.9, batch_size=50),
            rng=np.random.default_rng(0),
        )
    assert all(bool(torch.isfinite(value).all()) for value in network.state_dict().values())


def seeded_bits(settings: Training, seed: int = 5) -> bytes:
    stream = pair(300, 0.3)
    network = trained(as_rows(stream.features, stream.labels), "logistic", settings=settings, seed=seed, dropout=0.3)
    return b"".join(value.numpy().tobytes() for value in network.state_dict().values())


@pytest.mark.parametrize("patience", [0, 2])
def test_the_same_seed_gives_the_same_bits_whatever_torch_was_doing(patience: int) -> None:
    settings = plain(epochs=4, batch_size=64, patience=patience, averaging=0.9)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    first = seeded_bits(settings)
    torch.manual_seed(999)
    torch.rand(1_000)
    np.random.default_rng(0).random(5)
    torch.set_num_threads(2)
    assert seeded_bits(settings) == first
    assert seeded_bits(settings, seed=6) != first


@pytest.mark.parametrize("fails", [False, True])
def test_torch_is_left_as_it_was_found(fails: bool) -> None:
    torch.manual_seed(77)
    torch.set_num_threads(2)
    before = torch.get_rng_state()

    def work() -> None:
        with reproducible(3):
            assert torch.get_num_threads() == 1
            torch.rand(100)
            if fails:
                raise KeyboardInterrupt

    if fails:
        with pytest.raises(KeyboardInterrupt):
            work()
    else:
        work()
    assert torch.get_num_threads() == 2
    assert torch.equal(torch.get_rng_state(), before)


def test_the_seed_of_numpys_own_global_generator_is_not_touched() -> None:
    np.random.seed(4)
    before = np.random.get_state()[1].copy()
    seeded_bits(plain(epochs=1))
    assert (np.random.get_state()[1] == before).all()


@pytest.mark.parametrize("patience", [0, 3])
def test_a_training_that_diverges_says_so(patience: int) -> None:
    stream = pair(200, 0.3)
    data = as_rows(stream.features * 1e18, stream.labels)
    settings = plain(epochs=20, learning_rate=1e25, batch_size=32, patience=patience)
    with pytest.raises(EstimationError, match=r"diverged.*learning rate"):
        trained(data, "logistic", settings=settings)


def test_repeats_of_a_row_are_never_on_both_sides() -> None:
    """A row of the problem that is judged by is nowhere among those learned from, however often it repeats."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [50, 10])
    rows = np.concatenate([np.arange(50), rng.choice(np.arange(50, 60), 50)])
    data = as_rows(np.zeros((60, 1)), labels, rows)
    learn, validate = training.split_places(data, 0.2, rng)
    learned, judged = set(rows[learn.numpy()]), set(rows[validate.numpy()])
    assert not learned & judged
    assert learned | judged == set(rows)
    assert {labels[row] for row in learned} == {labels[row] for row in judged} == {0, 1}
    assert sum(row < 50 for row in judged) == 10


def test_a_class_of_one_row_is_learned_from_and_nothing_is_held_out() -> None:
    data = as_rows(np.zeros((30, 1)), np.repeat([0, 1], [29, 1]))
    learn, validate = training.split_places(data, 0.2, np.random.default_rng(0))
    assert len(learn) == 30
    assert len(validate) == 0
    trained(data, "logistic", settings=plain(epochs=2))


def test_a_small_problem_takes_its_least_steps() -> None:
    stream = pair(100, 0.4)
    epochs: list[int] = []
    with reproducible(0):
        network = MLP(1, hidden=(4,))
        n_epochs = train(
            network,
            as_rows(stream.features, stream.labels),
            loss=named_loss("logistic"),
            settings=plain(epochs=3, batch_size=50, patience=0, least_steps=21),
            rng=np.random.default_rng(0),
            after_epoch=epochs.append,
        )
    assert n_epochs == 11  # two steps an epoch
    assert epochs == list(range(1, 12))


def test_a_tiny_problem_is_not_gone_through_without_end() -> None:
    data = as_rows(np.arange(4.0)[:, None], np.array([0, 1, 0, 1]))
    with reproducible(0):
        settings = plain(epochs=2, least_steps=1_000, most_epochs=7)
        n_epochs = train(
            MLP(1, hidden=(4,)), data, loss=named_loss("logistic"), settings=settings, rng=np.random.default_rng(0)
        )
    assert n_epochs == 7


def rates_of(settings: Training, n_rows: int = 128) -> list[float]:
    """The learning rate of every step, read from the optimiser."""
    seen: list[float] = []
    original = torch.optim.AdamW.step

    def recorded(self: Any, *rest: Any, **named: Any) -> Any:
        seen.append(self.param_groups[0]["lr"])
        return original(self, *rest, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", recorded)
        trained(as_rows(np.ones((n_rows, 1)), np.arange(n_rows) % 2), "logistic", settings=settings)
    return seen


def test_the_rate_rises_in_a_line_and_falls_along_a_cosine() -> None:
    """4 epochs of 2 steps: step t has min(1, (t + 1) / 3) (1 + cos(pi t / 8)) / 2 of the highest rate."""
    t = np.arange(8)
    found = rates_of(plain(epochs=4, batch_size=64, learning_rate=0.1, warmup=3, cosine=True))
    expected = 0.1 * np.minimum(1.0, (t + 1) / 3) * (1.0 + np.cos(np.pi * t / 8)) / 2.0
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert rates_of(plain(epochs=2, batch_size=64, learning_rate=0.1)) == [0.1] * 4


def test_weight_decay_shrinks_weights_and_spares_biases() -> None:
    """Rows whose loss has no slope: AdamW with rate .1 and decay .5 leaves .95 of each weight a step."""
    network = nn.Linear(2, 1)
    with torch.no_grad():
        network.weight.fill_(1.0)
        network.bias.fill_(1.0)
    data = as_rows(np.zeros((4, 2)), np.array([0, 1, 0, 1]), weights=np.array([1.0, 1.0, 1.0, 1.0]))

    class NoSlope(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own = network

        def forward(self, inputs: Tensor) -> Tensor:
            return 0.0 * self.own(inputs)

    settings = plain(epochs=3, learning_rate=0.1, weight_decay=0.5)
    train(NoSlope(), data, loss=named_loss("logistic"), settings=settings, rng=np.random.default_rng(0))
    np.testing.assert_allclose(network.weight.detach().numpy(), 0.95**3, rtol=1e-6)
    assert network.bias.item() == 1.0


def test_parameters_that_are_frozen_stay_as_they_are() -> None:
    stream = pair(100, 0.4)
    data = as_rows(stream.features, stream.labels)
    with reproducible(0):
        network = MLP(1, hidden=(4,), dropout=0.0)
        network.layers[0].requires_grad_(requires_grad=False)
        before = {name: value.clone() for name, value in network.state_dict().items()}
        settings = Training(epochs=2)
        train(network, data, loss=named_loss("logistic"), settings=settings, rng=np.random.default_rng(0))
    after = network.state_dict()
    assert all(torch.equal(after[name], before[name]) == name.startswith("layers.0.") for name in before)
    network.requires_grad_(requires_grad=False)
    with pytest.raises(InvalidInputError, match="no parameter to train"):
        train(network, data, loss=named_loss("logistic"), settings=settings, rng=np.random.default_rng(0))


def test_ctrl_c_goes_through() -> None:
    def stop(_: int) -> None:
        raise KeyboardInterrupt

    stream = pair(100, 0.4)
    with pytest.raises(KeyboardInterrupt), reproducible(0):
        train(
            MLP(1, hidden=(4,)),
            as_rows(stream.features, stream.labels),
            loss=named_loss("logistic"),
            settings=plain(epochs=3),
            rng=np.random.default_rng(0),
            after_epoch=stop,
        )


@pytest.mark.parametrize(
    "bad",
    [
        {"epochs": 0},
        {"warmup": -1},
        {"epochs": 9, "most_epochs": 8},
        {"batch_size": 0},
        {"patience": -1},
        {"least_steps": -1},
        {"validation_fraction": 0.0},
        {"validation_fraction": 1.0},
        {"averaging": 1.0},
        {"averaging": -0.1},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
    ],
)
def test_settings_that_train_nothing_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        Training(**bad)
