# labels: name::arma author::usi task::node-classification domain::graph license::mit
"""ARMA: two stacks of recursive filters, each with its way back to the input. On a random graph of Cora's size.

Source: https://pytorch-geometric.readthedocs.io/en/latest/generated/torch_geometric.nn.conv.ARMAConv.html
Paper: https://arxiv.org/abs/1901.01343
With --small 64 nodes of 64 features and 2 layers.
"""

from proveout.parser import parse

import torch
from _graph import citations
from torch_geometric.nn import ARMAConv

torch.manual_seed(0)

args = parse(["in_channels", "out_channels", "num_layers"])
in_channels, out_channels, num_layers = args
if args.small:
    in_channels, num_layers = 64, 2

x, edge_index = citations(in_channels, args.small)
model = ARMAConv(in_channels, out_channels, num_stacks=2, num_layers=num_layers).eval()

with torch.no_grad():
    model(x, edge_index)
