# labels: name::swin author::microsoft task::image-classification domain::vision license::apache-2.0
"""Swin tiny: attention in windows of 7 by 7, shifted every other layer.

Sizes of https://huggingface.co/microsoft/swin-tiny-patch4-window7-224; paper https://arxiv.org/abs/2103.14030
"""

from proveout.parser import parse

import torch
from transformers import SwinConfig, SwinForImageClassification

PUBLISHED = dict(
    image_size=224,
    patch_size=4,
    embed_dim=96,
    depths=[2, 2, 6, 2],
    num_heads=[3, 6, 12, 24],
    window_size=7,
    num_labels=1000,
)
SMALL = dict(
    image_size=56,
    embed_dim=32,
    depths=[2, 2],
    num_heads=[1, 2],
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

config = SwinConfig(**PUBLISHED | (SMALL if args.small else {}))
model = SwinForImageClassification(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, 3, config.image_size, config.image_size),
}

with torch.no_grad():
    model(**inputs)
