# labels: name::swin_t author::microsoft task::image-classification domain::vision license::bsd-3-clause
"""Swin-T: attention inside shifted windows, 28.3 M parameters.

Source: https://docs.pytorch.org/vision/stable/models/swin_transformer.html
Paper: https://arxiv.org/abs/2103.14030
With --small the image is 64 x 64.
"""

from proveout.parser import parse

import torch

torch.manual_seed(0)

args = parse(["batch_size", "num_channels", "height", "width"])
height, width = (64, 64) if args.small else (args.height, args.width)

model = torch.hub.load("pytorch/vision:v0.13.1", "swin_t", weights=None).eval()
x = torch.randn(args.batch_size, args.num_channels, height, width)

with torch.no_grad():
    model(x)
