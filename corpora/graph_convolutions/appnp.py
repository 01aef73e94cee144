# labels: name::appnp author::tu-munich task::node-classification domain::graph license::mit
"""APPNP: a perceptron, then k steps of personalised PageRank with teleport probability 1 / alpha. On Cora's size.

Source: https://pytorch-geometric.readthedocs.io/en/latest/generated/torch_geometric.nn.conv.APPNP.html
Paper: https://arxiv.org/abs/1810.05997
With --small 64 nodes of 64 features.
"""

from proveout.parser import parse

import torch
from _graph import citations
from torch import Tensor, nn
from torch_geometric.nn import APPNP

torch.manual_seed(0)


class Network(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, k: int, teleport: float) -> None:
        super().__init__()
        self.perceptron = nn.Sequential(nn.Linear(in_channels, 64), nn.ReLU(), nn.Linear(64, out_channels))
        self.propagate = APPNP(K=k, alpha=teleport)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(self.perceptron(x), edge_index)


args = parse(["in_channels", "out_channels", "k", "alpha"])
in_channels, out_channels, k, alpha = args
if args.small:
    in_channels = 64

x, edge_index = citations(in_channels, args.small)
model = Network(in_channels, out_channels, k, teleport=1 / alpha).eval()

with torch.no_grad():
    model(x, edge_index)
