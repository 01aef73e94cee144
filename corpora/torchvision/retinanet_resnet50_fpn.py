# labels: name::retinanet_resnet50_fpn author::facebook task::object-detection domain::vision license::bsd-3-clause
"""RetinaNet with a ResNet-50 feature pyramid, 34.1 M parameters, 91 classes: dense boxes with focal loss.

Source: https://docs.pytorch.org/vision/stable/models/retinanet.html
Paper: https://arxiv.org/abs/1708.02002
With --small the image is 64 x 96 and the backbone is a ResNet-18. Without the choice of boxes: see _detection.py.
"""

from proveout.parser import parse

import torch
from _detection import OneStage
from torch import nn
from torchvision.models.detection import RetinaNet
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
detector = RetinaNet(backbone, num_classes=91)
nn.init.zeros_(detector.head.classification_head.cls_logits.bias)  # -4.6 by default: it would hide the rest
model = OneStage(detector.backbone, detector.head).eval()
images = torch.randn(args.batch_size, 3, height, width)

with torch.no_grad():
    model(images)
