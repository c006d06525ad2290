"""Models for the tests of this folder."""

from sklearn.tree import DecisionTreeClassifier

from obil.datasets.gaussian_stream import Stream
from obil.estimators.ratio_classifier import RatioClassifier
from obil.serving.ratio_model import RatioModel


def five_folds(stream: Stream) -> RatioModel:
    """Return a model of a stream's rows whose folds differ much from each other."""
    tree = DecisionTreeClassifier(min_samples_leaf=20, random_state=0)
    return RatioClassifier(tree, random_state=0).fit(stream.features, stream.labels).model_
