"""Change the class prior tenfold under a CNN, a Transformer and a GNN, and see what the tracked prior wins back.

Each network is an `OBILClassifier` fitted on the training side of a real set; the rows that calibrate it are split
off before any member sees the rest. Streams are drawn from test rows at a prior that the model was not told of.
The gain is what the *true* prior saves in log loss over the training prior, and the recovered fraction is how much of
that the bank saves, each row judged at the prior from before it.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax

import obil
from experiments.cifar_stream import draw_rows
from experiments.markdown import markdown_table
from experiments.protocol import arriving
from experiments.real_sets import ImageSet, load_cora, load_fashion_mnist, load_sms_spam
from experiments.runner import Cell, Settings
from experiments.vocabulary import Vocabulary, tokens_of
from obil.arrays import FloatArray, IntArray
from obil.calibration.linear import fit_linear
from obil.datasets.splits import stratified_split
from obil.errors import InvalidInputError
from obil.networks.settings import ModuleKind, Training
from obil.serving.networks.heads import scores_of_outputs
from obil.serving.ratio_model import RatioModel, Scores
from obil.trackers import BayesBank

SHIRT = 6  # the class of Fashion-MNIST that is most often mistaken
RAREST_SUBJECT = 6  # of Cora
SHIFTS = {"up": 1.0, "down": -1.0}  # the odds of a class times the factor, and divided by it
CLEAR = 3.0  # standard errors above which a gain is to be recovered
WANTED = 0.8  # the fraction of it
SERVED_ROWS = 500  # on which the saved model is held against torch
# for a fresh interpreter: the folder of a model, rows, and where its pre-activations and log ratios go
SERVE = """
import sys
import numpy as np
import obil
folder, rows, target = sys.argv[1:]
model, rows = obil.load(folder), np.load(rows)
outputs = np.stack([member.network.outputs(rows) for member in model.scorer.members])
np.savez(target, outputs=outputs, log_ratios=model.log_ratios(rows))
sys.exit("torch" in sys.modules)
"""


@dataclass(frozen=True, slots=True)
class Task:
    """A network with a head and a loss, on a set; `positive` makes one class against the others of it."""

    architecture: str  # "cnn", "transformer" or "gnn"
    head: str
    loss: str
    about: str
    positive: int | None = None


FASHION, SPAM, CORA = "Fashion-MNIST", "SMS spam", "Cora"
TASKS = {
    "cnn.softmax": Task("cnn", "softmax", "categorical_cross_entropy", FASHION),
    "cnn.one_vs_rest": Task("cnn", "one-vs-rest", "logistic", FASHION),
    "cnn.one_vs_rest_squared": Task("cnn", "one-vs-rest", "squared_error", FASHION),
    "cnn.tanh": Task("cnn", "tanh", "logistic", f"{FASHION}, shirts", SHIRT),
    "transformer.tanh": Task("transformer", "tanh", "logistic", SPAM, 1),
    "gnn.softmax": Task("gnn", "softmax", "categorical_cross_entropy", CORA),
    "gnn.one_vs_rest": Task("gnn", "one-vs-rest", "logistic", CORA),
    "gnn.one_vs_rest_squared": Task("gnn", "one-vs-rest", "squared_error", CORA),
    "gnn.tanh": Task("gnn", "tanh", "logistic", f"{CORA}, rarest subject", RAREST_SUBJECT),
}


PROTOCOL = """**A class prior changed by a factor of {factor:g}**, {streams} streams of {n_rows:,} rows each.

Each task is fitted {cnn[fits]} (images), {transformer[fits]} (texts) or {gnn[fits]} (papers, which are few) times by an
`OBILClassifier` of {n_members} members, on other training rows each time, and each fit gets its part of the streams.
Rows that calibrate are split off before any member sees the others:
{cnn[calibration_share]:.0%} of {cnn[n_rows]:,} training images of Fashion-MNIST,
{transformer[calibration_share]:.0%} of the training texts, {gnn[calibration_share]:.0%} of the training papers.
Fashion-MNIST tests on its 10,000 test images; of the texts of SMS spam (equal texts on one side) and of the papers
of Cora a random {train_size:.0%} train and the others test. The graph network sees the terms and citations of all
papers, but no test paper's label.

A row's class is drawn at the stream's prior, and the row *with replacement* among the test rows of that class. The
streams of a fit share its test rows: standard errors are those of drawing streams, not those of other test rows.
Up: the odds of one class against the others times {factor:g}; down: divided by {factor:g}. With two classes it is
the positive one, with more each class in turn, stream by stream.

Log losses are means over all rows of a stream, the first included, each at the prior from before it; the bank
starts at the training prior. Gain: what the true prior saves over the training prior (in brackets, its standard
error). Recovered: the fraction of that which the tracked prior saves. Prior / truth: what the bank says of the
changed class over the second half of a stream. Slope: what recalibrating the test rows would multiply log ratios by.
"""
WHY_MISSED = """Below {wanted:.0%}: {cases}. A class that becomes rarer changes few posteriors, so that little is to be
gained, while the bank pays for learning the prior of all classes from the stream, and a bias that few calibration rows
leave in the ratios moves the prior of classes that did not change.
"""


class Sides(NamedTuple):
    """The rows of a set as its network takes them, and that network for a number of outputs."""

    train: Any
    train_labels: IntArray
    test: Any
    test_labels: IntArray
    build: Callable[[int], Any]


def missing(settings: Settings) -> str | None:  # every experiment has it
    """Return why this experiment cannot run here, or None."""
    if find_spec("torch") is None:
        return "the extra 'torch' is not installed"
    try:
        _fashion("train"), _fashion("test"), load_sms_spam(), load_cora()
    except InvalidInputError as error:
        return str(error)
    return None


def cells(settings: Settings) -> list[Cell]:
    """List the work: one fit of one task, with its part of the streams."""
    return [
        {"task": task, "fit": fit}
        for task in settings["tasks"]
        for fit in range(settings[TASKS[task].architecture]["fits"])
    ]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Fit one network; track the prior of its streams, and hold the saved model against torch."""
    task, fit = TASKS[cell["task"]], int(cell["fit"])
    sides = _sides(task, settings, seed=fit)
    n_classes = int(sides.train_labels.max()) + 1
    options = settings[task.architecture]
    training = Training(least_steps=0, **options["training"] | settings["training"].get(cell["task"], {}))
    ensemble = obil.OBILClassifier(
        member=ModuleKind(lambda: sides.build(1 if n_classes == 2 else n_classes), training),
        n_members=settings["n_members"],
        loss=task.loss,
        cv=options["calibration_share"],
        random_state=fit,
    ).fit(sides.train, sides.train_labels)
    model = ensemble.model_
    scores = model.score(sides.test)
    log_ratios = scores.log_ratios
    again = fit_linear(log_ratios, sides.test_labels, np.ones(len(sides.test_labels)), slope_sd=None)
    n_streams = settings["streams"] // options["fits"]
    measured = [
        stream_losses(scores, sides.test_labels, model.prior_, shift, stream, settings)
        for shift in SHIFTS
        for stream in range(fit * n_streams, (fit + 1) * n_streams)
    ]
    return {
        "accuracy": float(np.mean(np.argmax(log_ratios + np.log(model.prior_), axis=1) == sides.test_labels)),
        "slope": float(again.slopes[1]),
        **served_differences(model, ensemble.members_, sides.test[:SERVED_ROWS]),
        "streams": measured,
    }


def row_losses(log_ratios: FloatArray, labels: IntArray, prior: FloatArray) -> FloatArray:
    """Return the log loss of each row, (n,), of log ratios (n, K) at one prior (K,), or at one a row (n, K)."""
    losses: FloatArray = -log_softmax(log_ratios + np.log(prior), axis=1)[np.arange(len(labels)), labels]
    return losses


def stream_losses(
    scores: Scores, labels: IntArray, train_prior: FloatArray, shift: str, stream: int, settings: Settings
) -> dict[str, Any]:
    """Return the mean log losses of one stream at the training, the tracked and the true prior.

    With two classes the prior of class 1 is changed, with more that of each class in turn, stream by stream.
    """
    n_classes = len(train_prior)
    changed = 1 if n_classes == 2 else stream % n_classes
    prior = shifted_prior(train_prior, changed, settings["factor"] ** SHIFTS[shift])
    rows = draw_rows(np.tile(prior, (settings["n_rows"], 1)), labels, random_state=stream)
    arrived, classes = arriving(scores, rows), labels[rows]
    # the prior before each row
    tracked = BayesBank(train_prior).update_many(arrived.log_ratios, evidence=arrived.evidence_from(0))
    priors = {"static": train_prior, "tracked": tracked, "true": prior}
    losses = {name: float(row_losses(arrived.log_ratios, classes, at).mean()) for name, at in priors.items()}
    found = float(tracked[len(rows) // 2 :, changed].mean() / prior[changed])
    return {"shift": shift, "stream": stream, "found": found, **losses}


def shifted_prior(prior: FloatArray, changed: int, factor: float) -> FloatArray:
    """Return the prior (K,) with the odds of one class against the rest multiplied; the rest keep their proportions.

    >>> shifted_prior(np.array([0.5, 0.25, 0.25]), 0, 3.0)
    array([0.75 , 0.125, 0.125])
    """
    weighted = prior.copy()
    weighted[changed] *= factor
    shifted: FloatArray = weighted / weighted.sum()
    return shifted


def served_differences(model: RatioModel, members: list[Any], rows: Any) -> dict[str, float]:
    """Return how far the saved model, loaded in an interpreter without torch, is from torch's own forward pass.

    Both are the largest differences over max(1, |z|), z the largest of the row's pre-activations or log ratios.
    """
    with TemporaryDirectory() as folder:
        saved, given, target = (Path(folder) / name for name in ("model", "rows.npy", "served.npz"))
        obil.save(model, saved)
        np.save(given, rows)
        subprocess.run([sys.executable, "-c", SERVE, saved, given, target], check=True)
        with np.load(target) as arrays:
            outputs, log_ratios = arrays["outputs"], arrays["log_ratios"]
    trained = torch_outputs(members, rows)
    scores = [
        scores_of_outputs(own, head=member.scorer.head, training_prior=member.scorer.training_prior)
        for own, member in zip(trained, members, strict=True)
    ]
    expected = model.calibrator.apply(np.mean(scores, axis=0))
    by_row = (outputs.reshape(-1, *outputs.shape[2:]), trained.reshape(-1, *trained.shape[2:]))
    return {"served": _difference(*by_row), "served_log_ratios": _difference(log_ratios, expected)}


def torch_outputs(members: list[Any], rows: Any) -> FloatArray:
    """Return the pre-activations that the trained modules themselves give, (members, n) or (members, n, K)."""
    import torch  # only who trains needs it

    from obil.networks.members import inputs_of

    with torch.inference_mode():
        networks = [member.fitted_network for member in members]
        return np.stack(
            [one.log_odds_scale * one.network(inputs_of(rows, None)).numpy().astype(np.float64) for one in networks]
        )


def _difference(values: FloatArray, expected: FloatArray) -> float:
    """Return the largest difference of rows (n,) or (n, K), each relative to its largest value or 1."""
    off, size = (np.abs(array).reshape(len(expected), -1).max(axis=1) for array in (values - expected, expected))
    return float((off / np.maximum(1.0, size)).max())


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name what each task and shift gave over all streams, and the least fraction recovered where there is a gain."""
    found: dict[str, float] = {}
    fractions: list[tuple[float, bool]] = []
    for task in settings["tasks"]:
        own = [result for cell, result in results if cell["task"] == task]
        found[f"{task}.accuracy"] = float(np.mean([result["accuracy"] for result in own]))
        found[f"{task}.slope"] = float(np.mean([result["slope"] for result in own]))
        for served in ("served", "served_log_ratios"):
            found[f"{task}.{served}"] = max(result[served] for result in own)
        for shift in SHIFTS:
            streams = [stream for result in own for stream in result["streams"] if stream["shift"] == shift]
            static, tracked, true, prior = (
                np.array([stream[name] for stream in streams]) for name in ("static", "tracked", "true", "found")
            )
            gain = float((static - true).mean())
            error = float((static - true).std(ddof=1) / np.sqrt(len(streams))) if len(streams) > 1 else np.inf
            recovered = float((static - tracked).mean()) / gain
            fractions.append((recovered, gain > CLEAR * error))
            found |= {
                f"{task}.{shift}.static": float(static.mean()),
                f"{task}.{shift}.tracked": float(tracked.mean()),
                f"{task}.{shift}.true": float(true.mean()),
                f"{task}.{shift}.gain": gain,
                f"{task}.{shift}.gain_error": error,
                f"{task}.{shift}.recovered": recovered,
                f"{task}.{shift}.found": float(prior.mean()),
            }
    clear = [fraction for fraction, is_clear in fractions if is_clear]
    found |= {"clear_gains": float(len(clear)), "gains": float(len(fractions))}
    for served in ("served", "served_log_ratios"):
        found[f"worst_{served}"] = max(found[f"{task}.{served}"] for task in settings["tasks"])
    return found | ({"least_recovered": min(clear)} if clear else {})


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    text = PROTOCOL.format(**settings, train_size=1.0 - settings["test_share"])
    rows = []
    for name in settings["tasks"]:
        task = TASKS[name]
        for shift in SHIFTS:
            own = {key: figures[f"{name}.{shift}.{key}"] for key in ("static", "tracked", "true", "gain", "gain_error")}
            rows.append(
                [
                    f"{task.architecture}, {task.head}, {task.loss.replace('_', ' ')} ({task.about})",
                    shift,
                    f"{figures[f'{name}.accuracy']:.3f}",
                    f"{figures[f'{name}.slope']:.2f}",
                    *(f"{own[key]:.4f}" for key in ("static", "tracked", "true")),
                    f"{own['gain']:.4f} ({own['gain_error']:.4f})",
                    f"{figures[f'{name}.{shift}.recovered']:.0%}"
                    + ("" if own["gain"] > CLEAR * own["gain_error"] else " (no clear gain)"),
                    f"{figures[f'{name}.{shift}.found']:.2f}",
                ]
            )
    header = ["network", "prior", "accuracy", "slope", "static", "tracked", "true", "gain", "recovered"]
    least = f"{figures['least_recovered']:.0%}" if "least_recovered" in figures else "none"
    tail = (
        f"\nThe gain exceeds {CLEAR:g} standard errors in {figures['clear_gains']:.0f} of {figures['gains']:.0f} "
        f"cases; the least recovered among them is {least}. The saved models, loaded in an interpreter without torch, "
        f"are within {figures['worst_served']:.1e} of torch's own forward pass in the pre-activations, and within "
        f"{figures['worst_served_log_ratios']:.1e} in the log ratios, relative to 1 or the largest of a row.\n"
    )
    return text + "\n" + markdown_table([*header, "prior / truth"], rows) + tail + _missed(figures, settings)


def _missed(figures: dict[str, float], settings: Settings) -> str:
    """Name the cases with a clear gain of which too little came back, and say why."""
    cases = [
        f"{task} {shift} ({figures[f'{task}.{shift}.recovered']:.0%})"
        for task in settings["tasks"]
        for shift in SHIFTS
        if figures[f"{task}.{shift}.gain"] > CLEAR * figures[f"{task}.{shift}.gain_error"]
        and figures[f"{task}.{shift}.recovered"] < WANTED
    ]
    return f"\n{WHY_MISSED.format(wanted=WANTED, cases=', '.join(cases))}" if cases else ""


def _sides(task: Task, settings: Settings, *, seed: int) -> Sides:
    options = settings[task.architecture]
    sides = {"cnn": _images, "transformer": _texts, "gnn": _nodes}[task.architecture](options, settings, seed)
    if task.positive is None:
        return sides
    train, test = ((labels == task.positive).astype(np.int64) for labels in (sides.train_labels, sides.test_labels))
    return sides._replace(train_labels=train, test_labels=test)


@lru_cache
def _fashion(part: str) -> ImageSet:
    return load_fashion_mnist(part)


def _images(options: Settings, settings: Settings, seed: int) -> Sides:  # its test images are given
    from obil.networks.architectures import ConvNet

    train, test = _fashion("train"), _fashion("test")
    chosen = np.random.default_rng(seed).choice(len(train.labels), options["n_rows"], replace=False)
    return Sides(
        train.rows(chosen),
        train.labels[chosen],
        test.rows(),
        test.labels,
        lambda n_outputs: ConvNet(n_outputs, **options["network"]),
    )


def _texts(options: Settings, settings: Settings, seed: int) -> Sides:
    from obil.networks.architectures import TextTransformer

    data = load_sms_spam()
    texts = np.array(data.texts, dtype=object)
    groups = [" ".join(tokens_of(text)) for text in data.texts]
    split = stratified_split(data.labels, test_size=settings["test_share"], random_state=seed, groups=groups)
    vocabulary = Vocabulary.learn(texts[split.train])
    return Sides(
        vocabulary.encode(texts[split.train]),
        data.labels[split.train],
        vocabulary.encode(texts[split.test]),
        data.labels[split.test],
        lambda n_outputs: TextTransformer(vocabulary.size, vocabulary.length, n_outputs, **options["network"]),
    )


def _nodes(options: Settings, settings: Settings, seed: int) -> Sides:
    from obil.networks.architectures import GraphConvNet

    data = load_cora()
    split = stratified_split(data.labels, test_size=settings["test_share"], random_state=seed)
    return Sides(
        split.train[:, None],
        data.labels[split.train],
        split.test[:, None],
        data.labels[split.test],
        lambda n_outputs: GraphConvNet(data.features, data.edges, n_outputs, **options["network"]),
    )
