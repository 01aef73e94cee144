# labels: name::glpn author::vinvino02 task::depth-estimation domain::vision license::apache-2.0
"""GLPN on NYU: depth indoors, SegFormer B4's encoder with a light decoder.

Sizes of https://huggingface.co/vinvino02/glpn-nyu; paper https://arxiv.org/abs/2201.07436
"""

from proveout.parser import parse

import torch
from transformers import GLPNConfig, GLPNForDepthEstimation

PUBLISHED = dict(
    depths=[3, 8, 27, 3],
    hidden_sizes=[64, 128, 320, 512],
    num_attention_heads=[1, 2, 5, 8],
    sr_ratios=[8, 4, 2, 1],
    decoder_hidden_size=64,
    max_depth=10,
)
SMALL = dict(
    depths=[1, 1, 1, 1],
    hidden_sizes=[32, 64, 96, 128],
    num_attention_heads=[1, 2, 3, 4],
    decoder_hidden_size=32,
)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

config = GLPNConfig(**PUBLISHED | (SMALL if args.small else {}))
model = GLPNForDepthEstimation(config).eval()
height, width = (64, 64) if args.small else (480, 640)
inputs = {
    "pixel_values": torch.randn(batch_size, 3, height, width),
}

with torch.no_grad():
    model(**inputs)
