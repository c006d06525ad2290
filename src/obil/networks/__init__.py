"""Networks that estimate posteriors: architectures, training, losses whose minimiser is the posterior.

Naming the settings needs no torch; using an architecture or a loss does.
"""

from typing import TYPE_CHECKING

from obil.lazy import lazy_names

if TYPE_CHECKING:
    from obil.networks.architectures import ConvNet as ConvNet
    from obil.networks.architectures import GraphConvNet as GraphConvNet
    from obil.networks.architectures import TextTransformer as TextTransformer
    from obil.networks.architectures import normalised_edges as normalised_edges
    from obil.networks.loss_report import LossReport as LossReport
    from obil.networks.loss_report import check_loss as check_loss
    from obil.networks.losses import BinaryLoss as BinaryLoss
    from obil.networks.losses import CategoricalLoss as CategoricalLoss
    from obil.networks.losses import bregman_loss as bregman_loss
    from obil.networks.losses import brier as brier
    from obil.networks.losses import categorical_cross_entropy as categorical_cross_entropy
    from obil.networks.losses import cost_weighted as cost_weighted
    from obil.networks.losses import cost_weighted_squared_error as cost_weighted_squared_error
    from obil.networks.losses import cross_entropy as cross_entropy
    from obil.networks.losses import exponential as exponential
    from obil.networks.losses import logistic as logistic
    from obil.networks.losses import squared_error as squared_error
    from obil.networks.mlp import MLP as MLP
    from obil.networks.settings import ModuleKind as ModuleKind
    from obil.networks.settings import NetworkKind as NetworkKind
    from obil.networks.settings import Training as Training
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
