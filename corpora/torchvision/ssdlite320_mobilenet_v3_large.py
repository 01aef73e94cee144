# labels: name::ssdlite320_mobilenet_v3_large author::google task::object-detection domain::vision license::bsd-3-clause
"""SSDlite with MobileNetV3-Large, 3.4 M parameters, 91 classes: depthwise heads on six grids.

Source: https://docs.pytorch.org/vision/stable/models/ssdlite.html
Paper: https://arxiv.org/abs/1801.04381
With --small the image is 96 x 96. Without the choice of boxes: see _detection.py.
"""

from proveout.parser import parse

import torch
from _detection import OneStage
from torchvision.models.detection import ssdlite320_mobilenet_v3_large

torch.manual_seed(0)

args = parse(["batch_size"])
size = 96 if args.small else 320

model = OneStage(ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None)).eval()
images = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(images)
