# labels: name::regnet_y_400mf author::facebook task::image-classification domain::vision license::bsd-3-clause
"""RegNetY-400MF: a network from a design space, grouped convolutions and squeeze and excitation; 4.3 M parameters.

Source: https://docs.pytorch.org/vision/stable/models/regnet.html
Paper: https://arxiv.org/abs/2003.13678
With --small the image is 64 x 64.
"""

from proveout.parser import parse

import torch

torch.manual_seed(0)

args = parse(["batch_size", "num_channels", "height", "width"])
height, width = (64, 64) if args.small else (args.height, args.width)

model = torch.hub.load("pytorch/vision:v0.13.1", "regnet_y_400mf", weights=None).eval()
x = torch.randn(args.batch_size, args.num_channels, height, width)

with torch.no_grad():
    model(x)
