"""Fit the gating network w_phi(x): the members' weights of a row, without dropout passes in serving."""

import torch
from torch import nn
from torch.nn.functional import log_softmax

from obil.arrays import FloatArray
from obil.networks.mlp import MLP
from obil.serving.dense_network import DenseNetwork
from obil.serving.network_kernels import Float32Array

HIDDEN = 32
EPOCHS = 60
BATCH = 512


def fit_gating_network(inputs: Float32Array, weights: FloatArray) -> DenseNetwork:
    """Return the network whose softmax is closest (in Kullback-Leibler) to the weights (n, M) of rows.

    Call it inside `reproducible`.
    """
    data, targets = torch.from_numpy(inputs), torch.from_numpy(weights).float()
    network = MLP(inputs.shape[1], weights.shape[1], hidden=(HIDDEN,), dropout=0.0)
    with torch.no_grad():  # start at the mean weights, whatever the row
        last = network.layers[-1]
        assert isinstance(last, nn.Linear)  # by construction
        last.weight.zero_()
        last.bias.copy_(targets.mean(dim=0).clamp_min(1e-6).log())
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3, fused=True)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(data)).split(BATCH):
            optimizer.zero_grad(set_to_none=True)
            loss = -(targets[batch] * log_softmax(network(data[batch]), dim=1)).sum(dim=1).mean()
            loss.backward()
            optimizer.step()
    return network.frozen()
