"""Log a model to MLflow, and serve it as a pyfunc whose prior is a parameter of every call.

The public interface is `log_model` and `save_model`. They write the folder of `obil.save`, without pickle, and name
this module as its loader, so that `mlflow.pyfunc.load_model` and `mlflow models serve` read it.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from mlflow import pyfunc
from mlflow.models import ModelSignature, infer_signature
from mlflow.types.schema import ParamSchema, ParamSpec

import obil
from obil.online.online_classifier import OnlineClassifier
from obil.policies import Policy
from obil.policies.notation import policy_from_json
from obil.serving import files
from obil.serving.ratio_model import RatioModel, as_ratio_model
from obil.trackers import FixedPrior

__all__ = ["log_model", "save_model"]

MODEL = "model"  # the folder of obil.save in what MLflow stores


def log_model(
    model: Any,
    name: str = MODEL,
    *,
    policy: Policy | str | None = None,
    positive: Any = None,
    input_example: Any = None,
    **settings: Any,
) -> Any:
    """Log a fitted model to the current MLflow run, and return MLflow's `ModelInfo`.

    Parameters
    ----------
    model : RatioClassifier, OBILClassifier or RatioModel
        What scores. A running stream has a state, which a pyfunc has not: log its `model`.
    name
        The name that MLflow gives the model.
    policy, positive
        As in `OnlineClassifier`: the rule for the threshold, and the class to alert on.
    input_example
        Some rows; MLflow then stores them with the types of all columns, and refuses other types.
    settings
        Passed on to `mlflow.pyfunc.log_model`: `registered_model_name`, `metadata`, `pip_requirements`, ...

    >>> info = log_model(model, policy="precision:0.8")  # doctest: +SKIP
    >>> served = mlflow.pyfunc.load_model(info.model_uri)  # doctest: +SKIP
    >>> served.predict(rows, params={"prior": 0.02})  # doctest: +SKIP
    """
    with tempfile.TemporaryDirectory() as folder:
        written = _written(model, Path(folder) / MODEL, policy, positive, input_example)
        return pyfunc.log_model(name=name, **(written | settings))


def save_model(
    model: Any,
    path: str,
    *,
    policy: Policy | str | None = None,
    positive: Any = None,
    input_example: Any = None,
    **settings: Any,
) -> None:
    """Write to a local path what `log_model` would log.

    >>> save_model(model, "served/")  # doctest: +SKIP
    """
    with tempfile.TemporaryDirectory() as folder:
        written = _written(model, Path(folder) / MODEL, policy, positive, input_example)
        pyfunc.save_model(path=path, **(written | settings))


def _written(model: Any, folder: Path, policy: Policy | str | None, positive: Any, example: Any) -> dict[str, Any]:
    """Write the model folder, and return what MLflow is told of it."""
    fitted = as_ratio_model(model)
    rule = OnlineClassifier(fitted, policy=policy, positive=positive, tracker=FixedPrior(), monitor=False, horizon=0)
    config = {"policy": rule.policy.to_json(), "positive": rule.positive, "trusted": []}
    files.save(fitted, folder)
    prior = _own_prior(fitted)
    shape = (-1,) if isinstance(prior, list) else None
    signature = ModelSignature(params=ParamSchema([ParamSpec("prior", "double", prior, shape)]))
    if example is not None:
        signature = infer_signature(example, _Served(fitted, config).predict(example), {"prior": prior})
    extra = "[onnx]" if any(folder.glob("*.onnx")) else ""
    return {
        "loader_module": __name__,
        "data_path": str(folder),
        "model_config": config,
        "signature": signature,
        "input_example": example,
        "pip_requirements": [f"obil{extra}=={obil.__version__}"],  # else MLflow runs the model to find what it imports
    }


def _own_prior(model: RatioModel) -> float | list[float]:
    """Return the training prior as a parameter: of two classes that of the second one."""
    prior: list[float] = model.prior_.tolist()
    return prior[1] if len(prior) == 2 else prior


def _load_pyfunc(path: str, model_config: Mapping[str, Any] | None = None) -> "_Served":
    """Return what MLflow serves; `model_config` may override the policy, and name types that the user trusts."""
    config = {"policy": None, "positive": None, "trusted": []} | dict(model_config or {})
    return _Served(files.load(path, trusted=config["trusted"]), config)


class _Served:
    """Decides rows at a prior that is given with them."""

    def __init__(self, model: RatioModel, config: Mapping[str, Any]) -> None:
        self._model, self._positive = model, config["positive"]
        policy = config["policy"]
        self._policy = policy_from_json(policy) if isinstance(policy, Mapping) else policy

    def predict(self, rows: Any, params: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Return log ratios, posteriors and decisions of rows, as `obil predict` names them."""
        given = dict(params or {}).get("prior")
        online = OnlineClassifier(
            self._model,
            policy=self._policy,
            tracker=FixedPrior(),
            prior=_own_prior(self._model) if given is None else given,
            positive=self._positive,
            monitor=False,
            horizon=0,
        )
        index = rows.index if isinstance(rows, pd.DataFrame) else None
        return pd.DataFrame(online.decide_many(rows).columns(), index=index)
