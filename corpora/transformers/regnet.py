# labels: name::regnet author::facebook task::image-classification domain::vision license::apache-2.0
"""RegNetY-4.0GF: a design space's pick, grouped convolutions with squeeze-and-excitation.

Sizes of https://huggingface.co/facebook/regnet-y-040; paper https://arxiv.org/abs/2003.13678
"""

from proveout.parser import parse

import torch
from transformers import RegNetConfig, RegNetForImageClassification

PUBLISHED = dict(
    embedding_size=32,
    hidden_sizes=[128, 192, 512, 1088],
    depths=[2, 6, 12, 2],
    groups_width=64,
    layer_type="y",
    num_labels=1000,
)
SMALL = dict(
    hidden_sizes=[32, 64, 96, 128],
    depths=[1, 1, 2, 1],
    groups_width=16,
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size", "num_channels", "height", "width"])
batch_size, num_channels, height, width = args

config = RegNetConfig(**PUBLISHED | (SMALL if args.small else {}))
model = RegNetForImageClassification(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, num_channels, height, width),
}

with torch.no_grad():
    model(**inputs)
