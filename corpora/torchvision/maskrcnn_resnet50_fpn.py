# labels: name::maskrcnn_resnet50_fpn author::facebook task::instance-segmentation domain::vision license::bsd-3-clause
"""Mask R-CNN with a ResNet-50 feature pyramid, 44.5 M parameters, 91 classes: an image and 100 proposals of boxes.

Source: https://docs.pytorch.org/vision/stable/models/mask_rcnn.html
Paper: https://arxiv.org/abs/1703.06870
With --small the image is 64 x 96 with 4 proposals, and the backbone is a ResNet-18. Without the choice of boxes: see
_detection.py.
"""

from proveout.parser import parse

import torch
from _detection import TwoStage, random_proposals
from torch import nn
from torchvision.models.detection import MaskRCNN
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

torch.manual_seed(0)

args = parse(["batch_size"])
backbone_name, height, width, num_proposals = ("resnet18", 64, 96, 4) if args.small else ("resnet50", 800, 1088, 100)

backbone = resnet_fpn_backbone(backbone_name=backbone_name, weights=None, norm_layer=nn.BatchNorm2d)
model = TwoStage(MaskRCNN(backbone, num_classes=91)).eval()
images = torch.randn(args.batch_size, 3, height, width)
proposals = random_proposals(images, num_proposals)

with torch.no_grad():
    model(images, proposals)
