# labels: name::hiera author::facebook task::image-classification domain::vision license::cc-by-nc-4.0
"""Hiera tiny: a hierarchical ViT without the bells and whistles.

Sizes of https://huggingface.co/facebook/hiera-tiny-224-in1k-hf; paper https://arxiv.org/abs/2306.00989
"""

from proveout.parser import parse

import torch
from transformers import HieraConfig, HieraForImageClassification

PUBLISHED = dict(
    embed_dim=96,
    image_size=[224, 224],
    depths=[1, 2, 7, 2],
    num_heads=[1, 2, 4, 8],
    num_labels=1000,
)
SMALL = dict(
    embed_dim=32,
    image_size=[64, 64],
    depths=[1, 1, 1, 1],
    num_heads=[1, 1, 2, 4],
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

config = HieraConfig(**PUBLISHED | (SMALL if args.small else {}))
model = HieraForImageClassification(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, 3, *config.image_size),
}

with torch.no_grad():
    model(**inputs)
