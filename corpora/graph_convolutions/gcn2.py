# labels: name::gcn2 author::renmin-university task::node-classification domain::graph license::mit
"""GCNII: deep convolutions, each with a way back to the first layer (share 1 / alpha) and near the identity.

Source: https://pytorch-geometric.readthedocs.io/en/latest/generated/torch_geometric.nn.conv.GCN2Conv.html
Paper: https://arxiv.org/abs/2007.02133
With --small 64 nodes of 64 features and 2 layers.
"""

from proveout.parser import parse

import torch
from _graph import citations
from torch import Tensor, nn
from torch_geometric.nn import GCN2Conv

torch.manual_seed(0)


class Network(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, num_layers: int, share: float, hidden: int = 64) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(in_channels, hidden), nn.Linear(hidden, out_channels)
        self.layers = nn.ModuleList(
            GCN2Conv(hidden, alpha=share, theta=0.5, layer=number) for number in range(1, num_layers + 1)
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = first = self.enter(x).relu()
        for layer in self.layers:
            x = layer(x, first, edge_index).relu()
        return self.leave(x)


args = parse(["in_channels", "out_channels", "num_layers", "alpha"])
in_channels, out_channels, num_layers, alpha = args
if args.small:
    in_channels, num_layers = 64, 2

x, edge_index = citations(in_channels, args.small)
model = Network(in_channels, out_channels, num_layers, share=1 / alpha).eval()

with torch.no_grad():
    model(x, edge_index)
