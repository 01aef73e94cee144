# labels: name::focalnet author::microsoft task::image-classification domain::vision license::mit
"""FocalNet tiny (small receptive field): focal modulation in place of attention.

Sizes of https://huggingface.co/microsoft/focalnet-tiny; paper https://arxiv.org/abs/2203.11926
"""

from proveout.parser import parse

import torch
from transformers import FocalNetConfig, FocalNetForImageClassification

PUBLISHED = dict(
    image_size=224,
    embed_dim=96,
    depths=[2, 2, 6, 2],
    focal_levels=[2, 2, 2, 2],
    focal_windows=[3, 3, 3, 3],
    num_labels=1000,
)
SMALL = dict(
    image_size=64,
    embed_dim=32,
    hidden_sizes=[32, 64],
    depths=[1, 1],
    focal_levels=[2, 2],
    focal_windows=[3, 3],
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

config = FocalNetConfig(**PUBLISHED | (SMALL if args.small else {}))
model = FocalNetForImageClassification(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, 3, config.image_size, config.image_size),
}

with torch.no_grad():
    model(**inputs)
