# labels: name::swinv2 author::microsoft task::image-classification domain::vision license::apache-2.0
"""Swin v2 tiny: cosine attention and a continuous position bias.

Sizes of https://huggingface.co/microsoft/swinv2-tiny-patch4-window8-256; paper https://arxiv.org/abs/2111.09883
"""

from proveout.parser import parse

import torch
from transformers import Swinv2Config, Swinv2ForImageClassification

PUBLISHED = dict(
    image_size=256,
    patch_size=4,
    embed_dim=96,
    depths=[2, 2, 6, 2],
    num_heads=[3, 6, 12, 24],
    window_size=8,
    num_labels=1000,
)
SMALL = dict(
    image_size=64,
    embed_dim=32,
    depths=[2, 2],
    num_heads=[1, 2],
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

config = Swinv2Config(**PUBLISHED | (SMALL if args.small else {}))
model = Swinv2ForImageClassification(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, 3, config.image_size, config.image_size),
}

with torch.no_grad():
    model(**inputs)
