# labels: name::wide_resnet50_2 author::paris-est task::image-classification domain::vision license::bsd-3-clause
"""Wide ResNet-50-2: ResNet-50 with twice the channels inside its bottlenecks, 68.9 M parameters.

Source: https://github.com/pytorch/hub/blob/master/pytorch_vision_wide_resnet.md
Paper: https://arxiv.org/abs/1605.07146
With --small the image is 64 x 64.
"""

from proveout.parser import parse

import torch

torch.manual_seed(0)

args = parse(["batch_size", "num_channels", "height", "width"])
height, width = (64, 64) if args.small else (args.height, args.width)

model = torch.hub.load("pytorch/vision:v0.13.1", "wide_resnet50_2", weights=None).eval()
x = torch.randn(args.batch_size, args.num_channels, height, width)

with torch.no_grad():
    model(x)
