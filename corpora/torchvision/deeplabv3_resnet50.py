# labels: name::deeplabv3_resnet50 author::google task::image-segmentation domain::vision license::bsd-3-clause
"""DeepLabV3 with a dilated ResNet-50 and atrous pyramid pooling, 39.6 M parameters, 21 classes a pixel.

Source: https://docs.pytorch.org/vision/stable/models/deeplabv3.html
Paper: https://arxiv.org/abs/1706.05587
Images of 520 x 520 pixels, or 64 x 64 with --small.
"""

from proveout.parser import parse

import torch
from torchvision.models.segmentation import deeplabv3_resnet50

torch.manual_seed(0)

args = parse(["batch_size"])
size = 64 if args.small else 520

model = deeplabv3_resnet50(weights=None, weights_backbone=None).eval()
images = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(images)
