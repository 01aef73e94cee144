# labels: name::tag author::cmu task::node-classification domain::graph license::mit
"""TAGCN: one filter for each of k hops. On a random graph of Cora's size.

Source: https://pytorch-geometric.readthedocs.io/en/latest/generated/torch_geometric.nn.conv.TAGConv.html
Paper: https://arxiv.org/abs/1710.10370
With --small 64 nodes of 64 features and 2 layers.
"""

from proveout.parser import parse

import torch
from _graph import Stack, citations
from torch_geometric.nn import TAGConv

torch.manual_seed(0)

args = parse(["in_channels", "out_channels", "k", "num_layers"])
in_channels, out_channels, k, num_layers = args
if args.small:
    in_channels, num_layers = 64, 2

x, edge_index = citations(in_channels, args.small)
model = Stack(lambda inputs, outputs: TAGConv(inputs, outputs, K=k), num_layers, (in_channels, 16, out_channels)).eval()

with torch.no_grad():
    model(x, edge_index)
