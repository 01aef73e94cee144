# labels: name::ssd300_vgg16 author::google task::object-detection domain::vision license::bsd-3-clause
"""SSD300 with VGG-16, 35.6 M parameters, 91 classes: 8,732 boxes of six grids.

Source: https://docs.pytorch.org/vision/stable/models/ssd.html
Paper: https://arxiv.org/abs/1512.02325
With --small the image is 160 x 160. Without the choice of boxes: see _detection.py.
"""

from proveout.parser import parse

import torch
from _detection import OneStage
from torchvision.models.detection import ssd300_vgg16

torch.manual_seed(0)

args = parse(["batch_size"])
size = 160 if args.small else 300

model = OneStage(ssd300_vgg16(weights=None, weights_backbone=None)).eval()
images = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(images)
