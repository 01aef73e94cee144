# labels: name::resnext50_32x4d author::facebook task::image-classification domain::vision license::bsd-3-clause
"""ResNeXt-50 32x4d: bottlenecks whose 3 x 3 convolution has 32 groups, 25.0 M parameters.

Source: https://github.com/pytorch/hub/blob/master/pytorch_vision_resnext.md
Paper: https://arxiv.org/abs/1611.05431
With --small the image is 64 x 64.
"""

from proveout.parser import parse

import torch

torch.manual_seed(0)

args = parse(["batch_size", "num_channels", "height", "width"])
height, width = (64, 64) if args.small else (args.height, args.width)

model = torch.hub.load("pytorch/vision:v0.13.1", "resnext50_32x4d", weights=None).eval()
x = torch.randn(args.batch_size, args.num_channels, height, width)

with torch.no_grad():
    model(x)
