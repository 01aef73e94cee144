# labels: name::transformer_conv author::baidu task::node-classification domain::graph license::mit
"""TransformerConv of UniMP: dot-product attention, two heads averaged. On a random graph of Cora's size.

Source: https://pytorch-geometric.readthedocs.io/en/latest/generated/torch_geometric.nn.conv.TransformerConv.html
Paper: https://arxiv.org/abs/2009.03509
With --small 64 nodes of 64 features and 2 layers.
"""

from proveout.parser import parse

import torch
from _graph import Stack, citations
from torch_geometric.nn import TransformerConv

torch.manual_seed(0)

args = parse(["in_channels", "out_channels", "num_layers"])
in_channels, out_channels, num_layers = args
if args.small:
    in_channels, num_layers = 64, 2

x, edge_index = citations(in_channels, args.small)
model = Stack(
    lambda inputs, outputs: TransformerConv(inputs, outputs, heads=2, concat=False),
    num_layers,
    (in_channels, 16, out_channels),
).eval()

with torch.no_grad():
    model(x, edge_index)
