# labels: name::fcn_resnet50 author::berkeley task::image-segmentation domain::vision license::bsd-3-clause
"""FCN with a dilated ResNet-50, 33.0 M parameters, 21 classes a pixel.

Source: https://docs.pytorch.org/vision/stable/models/fcn.html
Paper: https://arxiv.org/abs/1411.4038
Images of 520 x 520 pixels, or 64 x 64 with --small.
"""

from proveout.parser import parse

import torch
from torchvision.models.segmentation import fcn_resnet50

torch.manual_seed(0)

args = parse(["batch_size"])
size = 64 if args.small else 520

model = fcn_resnet50(weights=None, weights_backbone=None).eval()
images = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(images)
