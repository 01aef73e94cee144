# labels: name::pna author::cambridge task::node-classification domain::graph license::mit
"""PNA: mean, smallest, largest and deviation of the neighbours, scaled by the degree. On a random graph of Cora's size.

Source: https://pytorch-geometric.readthedocs.io/en/latest/generated/torch_geometric.nn.models.PNA.html
Paper: https://arxiv.org/abs/2004.05718
With --small 64 nodes of 64 features and 2 layers.
"""

from proveout.parser import parse

import torch
from _graph import citations
from torch_geometric.nn import PNA

torch.manual_seed(0)

args = parse(["in_channels", "out_channels", "num_layers"])
in_channels, out_channels, num_layers = args
if args.small:
    in_channels, num_layers = 64, 2

x, edge_index = citations(in_channels, args.small)
degrees = torch.bincount(torch.bincount(edge_index[1], minlength=len(x)))
model = PNA(
    in_channels,
    16,
    num_layers,
    out_channels,
    aggregators=["mean", "min", "max", "std"],
    scalers=["identity", "amplification", "attenuation"],
    deg=degrees,
).eval()

with torch.no_grad():
    model(x, edge_index)
