# labels: name::bit author::google task::image-classification domain::vision license::apache-2.0
"""BiT-50: a ResNet v2 with group normalisation and standardised weights.

Sizes of https://huggingface.co/google/bit-50; paper https://arxiv.org/abs/1912.11370
"""

from proveout.parser import parse

import torch
from transformers import BitConfig, BitForImageClassification

PUBLISHED = dict(
    embedding_size=64,
    hidden_sizes=[256, 512, 1024, 2048],
    depths=[3, 4, 6, 3],
    layer_type="preactivation",
    num_groups=32,
    num_labels=1000,
)
SMALL = dict(
    embedding_size=32,
    hidden_sizes=[64, 128, 256, 512],
    depths=[1, 1, 1, 1],
    num_groups=8,
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size", "num_channels", "height", "width"])
batch_size, num_channels, height, width = args

config = BitConfig(**PUBLISHED | (SMALL if args.small else {}))
model = BitForImageClassification(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, num_channels, height, width),
}

with torch.no_grad():
    model(**inputs)
