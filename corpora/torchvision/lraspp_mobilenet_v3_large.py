# labels: name::lraspp_mobilenet_v3_large author::google task::image-segmentation domain::vision license::bsd-3-clause
"""Lite R-ASPP with MobileNetV3-Large, 3.2 M parameters, 21 classes a pixel.

Source: https://docs.pytorch.org/vision/stable/models/lraspp.html
Paper: https://arxiv.org/abs/1905.02244
Images of 520 x 520 pixels, or 64 x 64 with --small.
"""

from proveout.parser import parse

import torch
from torchvision.models.segmentation import lraspp_mobilenet_v3_large

torch.manual_seed(0)

args = parse(["batch_size"])
size = 64 if args.small else 520

model = lraspp_mobilenet_v3_large(weights=None, weights_backbone=None).eval()
images = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(images)
