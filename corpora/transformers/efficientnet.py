# labels: name::efficientnet author::google task::image-classification domain::vision license::apache-2.0
"""EfficientNet B0: depth, width and resolution scaled together.

Sizes of https://huggingface.co/google/efficientnet-b0; paper https://arxiv.org/abs/1905.11946
"""

from proveout.parser import parse

import torch
from transformers import EfficientNetConfig, EfficientNetForImageClassification

PUBLISHED = dict(
    image_size=224,
    width_coefficient=1.0,
    depth_coefficient=1.0,
    hidden_dim=1280,
    dropout_rate=0.2,
    depthwise_padding=[16],
    num_labels=1000,
)
SMALL = dict(
    width_coefficient=0.25,
    depth_coefficient=0.5,
    hidden_dim=320,
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size", "num_channels", "height", "width"])
batch_size, num_channels, height, width = args

config = EfficientNetConfig(**PUBLISHED | (SMALL if args.small else {}))
model = EfficientNetForImageClassification(config).eval()
for part in model.modules():
    if isinstance(part, torch.nn.Conv2d):
        torch.nn.init.kaiming_normal_(part.weight)  # with transformers' start, the signal dies out on its way
    elif isinstance(part, torch.nn.BatchNorm2d):
        torch.nn.init.ones_(part.weight)
inputs = {
    "pixel_values": torch.randn(batch_size, num_channels, height, width),
}

with torch.no_grad():
    model(**inputs)
