# labels: name::ssdlite320_mobilenet_v3_large author::google task::object-detection domain::vision license::bsd-3-clause
"""SSDlite with MobileNetV3-Large, 3.4 M parameters, 91 classes: depthwise heads on six grids.

Source: https://docs.pytorch.org/vision/stable/models/ssdlite.html
Paper: https://arxiv.org/abs/1801.04381
With --small the image is 96 x 96. Without the choice of boxes: see _detection.py.
"""

from functools import partial

from proveout.parser import parse

import torch
from _detection import OneStage
from torch import nn
from torchvision.models import mobilenet_v3_large
from torchvision.models.detection.ssdlite import SSDLiteHead, _mobilenet_extractor

torch.manual_seed(0)

args = parse(["batch_size"])
size = 96 if args.small else 320

norm_layer = partial(nn.BatchNorm2d, eps=0.001, momentum=0.03)
body = mobilenet_v3_large(weights=None, norm_layer=norm_layer, reduced_tail=True)
backbone = _mobilenet_extractor(body, trainable_layers=6, norm_layer=norm_layer)
head = SSDLiteHead([672, 480, 512, 256, 256, 128], [6] * 6, num_classes=91, norm_layer=norm_layer)
model = OneStage(backbone, head).eval()
images = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(images)
