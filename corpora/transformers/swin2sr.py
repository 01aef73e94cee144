# labels: name::swin2sr author::caidas task::image-to-image domain::vision license::apache-2.0
"""Swin2SR: twice the resolution, from images of 64 by 64.

Sizes of https://huggingface.co/caidas/swin2SR-classical-sr-x2-64; paper https://arxiv.org/abs/2209.11345
"""

from proveout.parser import parse

import torch
from transformers import Swin2SRConfig, Swin2SRForImageSuperResolution

PUBLISHED = dict(
    image_size=64,
    patch_size=1,
    embed_dim=180,
    depths=[6, 6, 6, 6, 6, 6],
    num_heads=[6, 6, 6, 6, 6, 6],
    window_size=8,
    mlp_ratio=2.0,
    upscale=2,
)
SMALL = dict(
    image_size=16,
    embed_dim=60,
    depths=[2, 2],
    num_heads=[3, 3],
)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

config = Swin2SRConfig(**PUBLISHED | (SMALL if args.small else {}))
model = Swin2SRForImageSuperResolution(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, 3, config.image_size, config.image_size),
}

with torch.no_grad():
    model(**inputs)
