# labels: name::poolformer author::sail task::image-classification domain::vision license::apache-2.0
"""PoolFormer S12: average pooling in place of attention.

Sizes of https://huggingface.co/sail/poolformer_s12; paper https://arxiv.org/abs/2111.11418
"""

from proveout.parser import parse

import torch
from transformers import PoolFormerConfig, PoolFormerForImageClassification

PUBLISHED = dict(
    depths=[2, 2, 6, 2],
    hidden_sizes=[64, 128, 320, 512],
    layer_scale_init_value=1.0,  # training starts near 0; random blocks would vanish, trained ones do not
    num_labels=1000,
)
SMALL = dict(
    depths=[1, 1, 1, 1],
    hidden_sizes=[32, 64, 96, 128],
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size", "num_channels", "height", "width"])
batch_size, num_channels, height, width = args

config = PoolFormerConfig(**PUBLISHED | (SMALL if args.small else {}))
model = PoolFormerForImageClassification(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, num_channels, height, width),
}

with torch.no_grad():
    model(**inputs)
