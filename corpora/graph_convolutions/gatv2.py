# labels: name::gatv2 author::technion task::node-classification domain::graph license::mit
"""GATv2: attention whose ranking depends on the node that asks, two heads. On a random graph of Cora's size.

Source: https://pytorch-geometric.readthedocs.io/en/latest/generated/torch_geometric.nn.models.GAT.html
Paper: https://arxiv.org/abs/2105.14491
With --small 64 nodes of 64 features and 2 layers.
"""

from proveout.parser import parse

import torch
from _graph import citations
from torch_geometric.nn import GAT

torch.manual_seed(0)

args = parse(["in_channels", "out_channels", "num_layers"])
in_channels, out_channels, num_layers = args
if args.small:
    in_channels, num_layers = 64, 2

x, edge_index = citations(in_channels, args.small)
model = GAT(in_channels, 16, num_layers, out_channels, v2=True, heads=2).eval()

with torch.no_grad():
    model(x, edge_index)
