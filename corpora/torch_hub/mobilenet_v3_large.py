# labels: name::mobilenet_v3_large author::google task::image-classification domain::vision license::bsd-3-clause
"""MobileNetV3-Large: inverted residuals, squeeze and excitation, hard swish; 5.5 M parameters.

Source: https://docs.pytorch.org/vision/stable/models/mobilenetv3.html
Paper: https://arxiv.org/abs/1905.02244
With --small the image is 64 x 64.
"""

from proveout.parser import parse

import torch

torch.manual_seed(0)

args = parse(["batch_size", "num_channels", "height", "width"])
height, width = (64, 64) if args.small else (args.height, args.width)

model = torch.hub.load("pytorch/vision:v0.13.1", "mobilenet_v3_large", weights=None).eval()
x = torch.randn(args.batch_size, args.num_channels, height, width)

with torch.no_grad():
    model(x)
