# labels: name::levit author::facebook task::image-classification domain::vision license::apache-2.0
"""LeViT-128: attention after a convolutional stem, for fast inference.

Sizes of https://huggingface.co/facebook/levit-128; paper https://arxiv.org/abs/2104.01136
"""

from proveout.parser import parse

import torch
from transformers import LevitConfig, LevitForImageClassification

PUBLISHED = dict(
    image_size=224,
    hidden_sizes=[128, 256, 384],
    num_attention_heads=[4, 8, 12],
    depths=[4, 4, 4],
    key_dim=[16, 16, 16],
    num_labels=1000,
)
SMALL = dict(
    hidden_sizes=[32, 64, 96],
    num_attention_heads=[2, 2, 2],
    depths=[1, 1, 1],
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

config = LevitConfig(**PUBLISHED | (SMALL if args.small else {}))
model = LevitForImageClassification(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, 3, config.image_size, config.image_size),
}

with torch.no_grad():
    model(**inputs)
