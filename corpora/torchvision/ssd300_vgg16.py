# labels: name::ssd300_vgg16 author::google task::object-detection domain::vision license::bsd-3-clause
"""SSD300 with VGG-16, 35.6 M parameters, 91 classes: 8,732 boxes of six grids.

Source: https://docs.pytorch.org/vision/stable/models/ssd.html
Paper: https://arxiv.org/abs/1512.02325
With --small the image is 96 x 96, the body is a VGG-11 and four grids are left. Without the choice of boxes: see
_detection.py.
"""

from proveout.parser import parse

import torch
from _detection import OneStage
from torchvision.models import vgg
from torchvision.models.detection.ssd import SSDHead, _vgg_extractor

torch.manual_seed(0)

args = parse(["batch_size"])
layers, size, grids = ("A", 96, 4) if args.small else ("D", 300, 6)

body = torch.nn.Module()
body.features = vgg.make_layers(vgg.cfgs[layers])  # without the classifier's 124 M parameters
backbone = _vgg_extractor(body, highres=False, trainable_layers=5)
del backbone.extra[grids - 1 :]
channels, anchors = [512, 1024, 512, 256, 256, 256][:grids], [4, 6, 6, 6, 4, 4][:grids]
model = OneStage(backbone, SSDHead(channels, anchors, num_classes=91)).eval()
images = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(images)
