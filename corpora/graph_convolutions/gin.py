# labels: name::gin author::mit task::node-classification domain::graph license::mit
"""GIN: the sum of the neighbours through a perceptron. On a random graph of Cora's size.

Source: https://pytorch-geometric.readthedocs.io/en/latest/generated/torch_geometric.nn.models.GIN.html
Paper: https://arxiv.org/abs/1810.00826
With --small 64 nodes of 64 features and 2 layers.
"""

from proveout.parser import parse

import torch
from _graph import citations
from torch_geometric.nn import GIN

torch.manual_seed(0)

args = parse(["in_channels", "out_channels", "num_layers"])
in_channels, out_channels, num_layers = args
if args.small:
    in_channels, num_layers = 64, 2

x, edge_index = citations(in_channels, args.small)
model = GIN(in_channels, 16, num_layers, out_channels).eval()

with torch.no_grad():
    model(x, edge_index)
