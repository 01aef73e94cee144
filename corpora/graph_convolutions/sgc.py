# labels: name::sgc author::cornell task::node-classification domain::graph license::mit
"""SGC: k steps of averaging, then one linear layer. On a random graph of Cora's size.

Source: https://pytorch-geometric.readthedocs.io/en/latest/generated/torch_geometric.nn.conv.SGConv.html
Paper: https://arxiv.org/abs/1902.07153
With --small 64 nodes of 64 features.
"""

from proveout.parser import parse

import torch
from _graph import citations
from torch_geometric.nn import SGConv

torch.manual_seed(0)

args = parse(["in_channels", "out_channels", "k"])
in_channels, out_channels, k = args
if args.small:
    in_channels = 64

x, edge_index = citations(in_channels, args.small)
model = SGConv(in_channels, out_channels, K=k).eval()

with torch.no_grad():
    model(x, edge_index)
