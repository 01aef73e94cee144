# labels: name::dinov2 author::facebook task::image-feature-extraction domain::vision license::apache-2.0
"""DINOv2 small: positions learned at 518 pixels, interpolated to 224.

Sizes of https://huggingface.co/facebook/dinov2-small; paper https://arxiv.org/abs/2304.07193
"""

from proveout.parser import parse

import torch
from transformers import Dinov2Config, Dinov2Model

PUBLISHED = dict(
    hidden_size=384,
    num_hidden_layers=12,
    num_attention_heads=6,
    mlp_ratio=4,
    image_size=518,
    patch_size=14,
)
SMALL = dict(
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    mlp_ratio=2,
    image_size=70,
)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

config = Dinov2Config(**PUBLISHED | (SMALL if args.small else {}))
model = Dinov2Model(config).eval()
size = 56 if args.small else 224
inputs = {
    "pixel_values": torch.randn(batch_size, 3, size, size),
}

with torch.no_grad():
    model(**inputs)
