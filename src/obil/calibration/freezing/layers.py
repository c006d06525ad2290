"""Turn scikit-learn's fitted linear models and multi-layer perceptrons into frozen layers."""

from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, RidgeClassifier, SGDClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC

from obil.calibration.cross_fit import score_method
from obil.serving.layers import LayerScorer
from obil.serving.scorers import LOGIT, MARGIN, ONE_VS_REST

LINEAR = (
    LogisticRegression, LogisticRegressionCV, LinearDiscriminantAnalysis, SGDClassifier, LinearSVC, RidgeClassifier,
)  # fmt: skip


def freeze_linear(estimator: Any, **output: Any) -> LayerScorer:
    """Return the frozen form of a linear classifier."""
    link = LOGIT if score_method(estimator) == "predict_proba" else MARGIN
    one_by_one = isinstance(estimator, SGDClassifier) or getattr(estimator, "solver", None) == "liblinear"
    if link == LOGIT and one_by_one and len(output["training_prior"]) > 2:
        link = ONE_VS_REST
    weights = np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64)).T.copy()
    biases = np.broadcast_to(np.asarray(estimator.intercept_, dtype=np.float64), weights.shape[1:]).copy()
    return LayerScorer((weights,), (biases,), "identity", link, **output)


def freeze_perceptron(estimator: MLPClassifier, **output: Any) -> LayerScorer:
    """Return the frozen form of a multi-layer perceptron."""
    weights = tuple(np.asarray(layer, dtype=np.float64) for layer in estimator.coefs_)
    biases = tuple(np.asarray(layer, dtype=np.float64) for layer in estimator.intercepts_)
    return LayerScorer(weights, biases, estimator.activation, LOGIT, **output)


LAYERS: tuple[tuple[Any, Any], ...] = ((LINEAR, freeze_linear), (MLPClassifier, freeze_perceptron))
