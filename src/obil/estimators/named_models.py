"""Build a classifier by its name, ready for the matrix of a column encoder."""

from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from obil.errors import InvalidInputError
from obil.estimators.obil_classifier import OBILClassifier
from obil.serving.columns import ColumnEncoder

OBIL = "obil"  # the ensemble, which is no estimator to wrap: it calibrates itself
MODELS = (OBIL, "hist_gradient_boosting", "logistic", "random_forest", "extra_trees", "neural_network")


def named_model(name: str, encoder: ColumnEncoder, *, random_state: int | None = None) -> Any:
    """Return an unfitted classifier that takes this encoder's matrix: codes of categories, NaN for missing values.

    >>> type(named_model("hist_gradient_boosting", ColumnEncoder(()))).__name__
    'HistGradientBoostingClassifier'
    """
    require_model(name)
    if name == OBIL:
        return OBILClassifier(categorical_features=encoder.categories, random_state=random_state)
    if name == "logistic":
        return make_pipeline(_one_hot(encoder), LogisticRegression(max_iter=2_000, random_state=random_state))
    if name == "neural_network":
        network = MLPClassifier((64, 32), early_stopping=True, max_iter=300, random_state=random_state)
        return make_pipeline(_one_hot(encoder), network)
    if name == "hist_gradient_boosting":
        booster = HistGradientBoostingClassifier(random_state=random_state)
        # not its own categorical_features: what it keeps for them, a functools.partial, is on no list of safe types
        return make_pipeline(_one_hot(encoder, numbers="passthrough"), booster) if encoder.categories else booster
    forest = RandomForestClassifier if name == "random_forest" else ExtraTreesClassifier
    return make_pipeline(_filled(), forest(200, min_samples_leaf=3, random_state=random_state))


def require_model(name: str) -> None:
    """Refuse a name that no model has."""
    if name not in MODELS:
        raise InvalidInputError(f"a model is one of {', '.join(MODELS)}, got {name!r:.60}")


def _filled() -> SimpleImputer:
    return SimpleImputer(strategy="median", keep_empty_features=True)


def _one_hot(encoder: ColumnEncoder, numbers: Any = None) -> ColumnTransformer:
    categories = encoder.categories
    others = [place for place in range(len(encoder.columns)) if place not in set(categories)]
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(_filled(), StandardScaler()) if numbers is None else numbers, others),
            ("categories", OneHotEncoder(handle_unknown="ignore", sparse_output=False), categories),
        ]
    )
