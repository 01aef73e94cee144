# labels: name::pvt author::zetatech task::image-classification domain::vision license::apache-2.0
"""PVT tiny: a pyramid with attention over a shrunken image.

Sizes of https://huggingface.co/Zetatech/pvt-tiny-224; paper https://arxiv.org/abs/2102.12122
"""

from proveout.parser import parse

import torch
from transformers import PvtConfig, PvtForImageClassification

PUBLISHED = dict(
    image_size=224,
    depths=[2, 2, 2, 2],
    hidden_sizes=[64, 128, 320, 512],
    num_attention_heads=[1, 2, 5, 8],
    sequence_reduction_ratios=[8, 4, 2, 1],
    mlp_ratios=[8, 8, 4, 4],
    num_labels=1000,
)
SMALL = dict(
    image_size=64,
    depths=[1, 1, 1, 1],
    hidden_sizes=[32, 64, 96, 128],
    num_attention_heads=[1, 2, 3, 4],
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

config = PvtConfig(**PUBLISHED | (SMALL if args.small else {}))
model = PvtForImageClassification(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, 3, config.image_size, config.image_size),
}

with torch.no_grad():
    model(**inputs)
