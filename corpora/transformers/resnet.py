# labels: name::resnet author::microsoft task::image-classification domain::vision license::apache-2.0
"""ResNet-50 (v1.5: the bottleneck's 3 by 3 convolution strides).

Sizes of https://huggingface.co/microsoft/resnet-50; paper https://arxiv.org/abs/1512.03385
"""

from proveout.parser import parse

import torch
from transformers import ResNetConfig, ResNetForImageClassification

PUBLISHED = dict(
    embedding_size=64,
    hidden_sizes=[256, 512, 1024, 2048],
    depths=[3, 4, 6, 3],
    layer_type="bottleneck",
    num_labels=1000,
)
SMALL = dict(
    embedding_size=32,
    hidden_sizes=[64, 128, 256, 512],
    depths=[1, 1, 1, 1],
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size", "num_channels", "height", "width"])
batch_size, num_channels, height, width = args

config = ResNetConfig(**PUBLISHED | (SMALL if args.small else {}))
model = ResNetForImageClassification(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, num_channels, height, width),
}

with torch.no_grad():
    model(**inputs)
