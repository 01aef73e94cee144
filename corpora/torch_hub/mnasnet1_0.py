# labels: name::mnasnet1_0 author::google task::image-classification domain::vision license::bsd-3-clause
"""MNASNet 1.0: a mobile network found by search, 4.4 M parameters.

Source: https://docs.pytorch.org/vision/stable/models/mnasnet.html
Paper: https://arxiv.org/abs/1807.11626
With --small the image is 64 x 64.
"""

from proveout.parser import parse

import torch

torch.manual_seed(0)

args = parse(["batch_size", "num_channels", "height", "width"])
height, width = (64, 64) if args.small else (args.height, args.width)

model = torch.hub.load("pytorch/vision:v0.13.1", "mnasnet1_0", weights=None).eval()
x = torch.randn(args.batch_size, args.num_channels, height, width)

with torch.no_grad():
    model(x)
