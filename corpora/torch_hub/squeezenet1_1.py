# labels: name::squeezenet1_1 author::deepscale task::image-classification domain::vision license::bsd-3-clause
"""SqueezeNet 1.1: fire modules, 1.2 M parameters.

Source: https://github.com/pytorch/hub/blob/master/pytorch_vision_squeezenet.md
Paper: https://arxiv.org/abs/1602.07360
With --small the image is 64 x 64.
"""

from proveout.parser import parse

import torch

torch.manual_seed(0)

args = parse(["batch_size", "num_channels", "height", "width"])
height, width = (64, 64) if args.small else (args.height, args.width)

model = torch.hub.load("pytorch/vision:v0.13.1", "squeezenet1_1", weights=None).eval()
x = torch.randn(args.batch_size, args.num_channels, height, width)

with torch.no_grad():
    model(x)
