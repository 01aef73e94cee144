# labels: name::fasterrcnn_mobilenet_320 author::microsoft task::object-detection domain::vision license::bsd-3-clause
"""Faster R-CNN with a MobileNetV3-Large feature pyramid for images of 320 pixels, 19.4 M parameters, 91 classes.

Source: https://docs.pytorch.org/vision/stable/models/faster_rcnn.html
Paper: https://arxiv.org/abs/1506.01497
With --small the image is 96 x 96 with 4 proposals instead of 150. Without the choice of boxes: see _detection.py.
"""

from proveout.parser import parse

import torch
from _detection import TwoStage, random_proposals
from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn

torch.manual_seed(0)

args = parse(["batch_size"])
size, num_proposals = (96, 4) if args.small else (320, 150)

detector = fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None)
model = TwoStage(detector).eval()
images = torch.randn(args.batch_size, 3, size, size)
proposals = random_proposals(images, num_proposals)

with torch.no_grad():
    model(images, proposals)
