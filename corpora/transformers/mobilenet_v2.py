# labels: name::mobilenet_v2 author::google task::image-classification domain::vision license::other
"""MobileNet v2: inverted residuals with linear bottlenecks.

Sizes of https://huggingface.co/google/mobilenet_v2_1.0_224; paper https://arxiv.org/abs/1801.04381
"""

from proveout.parser import parse

import torch
from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

PUBLISHED = dict(
    image_size=224,
    depth_multiplier=1.0,
    num_labels=1001,
)
SMALL = dict(
    depth_multiplier=0.35,
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size", "num_channels", "height", "width"])
batch_size, num_channels, height, width = args

config = MobileNetV2Config(**PUBLISHED | (SMALL if args.small else {}))
model = MobileNetV2ForImageClassification(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, num_channels, height, width),
}

with torch.no_grad():
    model(**inputs)
