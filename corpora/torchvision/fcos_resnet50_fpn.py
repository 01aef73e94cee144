# labels: name::fcos_resnet50_fpn author::adelaide task::object-detection domain::vision license::bsd-3-clause
"""FCOS with a ResNet-50 feature pyramid, 32.3 M parameters, 91 classes: one box a pixel, without anchors.

Source: https://docs.pytorch.org/vision/stable/models/fcos.html
Paper: https://arxiv.org/abs/1904.01355
With --small the image is 64 x 96 and the backbone is a ResNet-18. Without the choice of boxes: see _detection.py.
"""

from proveout.parser import parse

import torch
from _detection import OneStage
from torch import nn
from torchvision.models.detection import FCOS
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.ops.feature_pyramid_network import LastLevelP6P7

torch.manual_seed(0)

args = parse(["batch_size"])
backbone_name, height, width = ("resnet18", 64, 96) if args.small else ("resnet50", 800, 1088)

backbone = resnet_fpn_backbone(
    backbone_name=backbone_name,
    weights=None,
    norm_layer=nn.BatchNorm2d,
    returned_layers=[2, 3, 4],
    extra_blocks=LastLevelP6P7(256, 256),
)
detector = FCOS(backbone, num_classes=91)
model = OneStage(detector.backbone, detector.head).eval()
images = torch.randn(args.batch_size, 3, height, width)

with torch.no_grad():
    model(images)
