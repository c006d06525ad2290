"""Export a calibrated score as an ONNX graph whose inputs are the score and the prior.

The public interface is `export_posterior`.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from obil.errors import InvalidInputError
from obil.serving.calibrators import LinearCalibrator, MonotoneCalibrator
from obil.serving.ratio_model import as_ratio_model
from obil.serving.scorers import PROBABILITY, ColumnScorer

__all__ = ["export_posterior"]

OPSET, IR_VERSION = 18, 8  # of 2022
LARGEST_EXPONENT = 700.0  # of e in double precision


def export_posterior(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model of one score and two classes as ONNX: `score` (n,) and `prior` () in, both in double precision.

    Outputs are `log_ratio` (n,), the calibrated log-likelihood ratio, and `posterior` (n,), the probability of the
    second class at that prior.

    >>> from obil import RatioClassifier
    >>> model = RatioClassifier.from_scores([-2.0, -1.0, 1.0, -1.0, 1.0, 2.0] * 10, [0, 0, 0, 1, 1, 1] * 10)
    >>> export_posterior(model, "fraud.onnx")  # doctest: +SKIP
    """
    fitted = as_ratio_model(model)
    scorer = fitted.scorer
    if fitted.n_classes != 2 or not isinstance(scorer, ColumnScorer):
        raise InvalidInputError(
            f"the export needs a model that calibrates one score of two classes, got {fitted!r:.80}: make one by "
            "RatioClassifier.from_scores or obil fit --score"
        )
    graph = _Graph()
    raw = "score"
    if scorer.link == PROBABILITY:
        floor = graph.constant(max(scorer.floor, 1e-300))
        other = graph.add("Sub", graph.constant(1.0), "score")
        logs = [graph.add("Log", graph.add("Max", one, floor)) for one in ("score", other)]
        own = float(np.log(scorer.training_prior[1]) - np.log(scorer.training_prior[0]))
        raw = graph.add("Sub", graph.add("Sub", *logs), graph.constant(own))
    log_ratio = graph.add("Identity", _calibrated(graph, raw, fitted.calibrator), output="log_ratio")
    against = graph.add("Log", graph.add("Sub", graph.constant(1.0), "prior"))
    log_odds = graph.add("Sub", graph.add("Log", "prior"), against)
    # not Sigmoid: in ONNX Runtime it rounds small posteriors to 0
    limits = graph.constant(-LARGEST_EXPONENT), graph.constant(LARGEST_EXPONENT)
    exponent = graph.add("Clip", graph.add("Add", log_ratio, log_odds), *limits)
    odds_against = graph.add("Exp", graph.add("Neg", exponent))
    graph.add("Div", graph.constant(1.0), graph.add("Add", graph.constant(1.0), odds_against), output="posterior")
    Path(path).write_bytes(graph.model().SerializeToString())


def _calibrated(graph: "_Graph", raw: str, calibrator: Any) -> str:
    if isinstance(calibrator, LinearCalibrator):
        scaled = graph.add("Mul", raw, graph.constant(calibrator.slopes[1]))
        return graph.add("Add", scaled, graph.constant(calibrator.offsets[1]))
    if not isinstance(calibrator, MonotoneCalibrator):
        raise InvalidInputError(f"a {type(calibrator).__name__} cannot be exported: calibrate by 'affine' or 'spline'")
    knots, values = calibrator.knots, calibrator.values
    tail = [calibrator.tail_slope]
    slopes = np.concatenate([tail, np.diff(values) / np.diff(knots), tail])  # (m + 1,) of the piece before each knot
    columns = graph.add("Unsqueeze", raw, graph.constant([1], np.int64))
    passed = graph.add("Cast", graph.add("GreaterOrEqual", columns, graph.constant(knots)), to=TensorProto.INT64)
    piece = graph.add("ReduceSum", passed, graph.constant([1], np.int64), keepdims=0)
    first, slope, value = (
        graph.add("Gather", graph.constant(table), piece)
        for table in (np.r_[knots[0], knots], slopes, np.r_[values[0], values])
    )
    return graph.add("Add", value, graph.add("Mul", slope, graph.add("Sub", raw, first)))


class _Graph:
    """Collects nodes and constants, and names them."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def constant(self, value: Any, dtype: type = np.float64) -> str:
        name = f"constant{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value, dtype=dtype), name))
        return name

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        name = output or f"value{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def model(self) -> Any:
        double = TensorProto.DOUBLE
        inputs = [helper.make_tensor_value_info(*one) for one in (("score", double, ["n"]), ("prior", double, []))]
        outputs = [helper.make_tensor_value_info(name, double, ["n"]) for name in ("log_ratio", "posterior")]
        graph = helper.make_graph(self._nodes, "obil", inputs, outputs, self._constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        onnx.checker.check_model(made, full_check=True)
        return made
