# labels: name::dpt author::intel task::depth-estimation domain::vision license::apache-2.0
"""DPT large: depth from one image, ViT large read out at four depths.

Sizes of https://huggingface.co/Intel/dpt-large; paper https://arxiv.org/abs/2103.13413
"""

from proveout.parser import parse

import torch
from transformers import DPTConfig, DPTForDepthEstimation

PUBLISHED = dict(
    hidden_size=1024,
    num_hidden_layers=24,
    num_attention_heads=16,
    intermediate_size=4096,
    image_size=384,
    patch_size=16,
    backbone_out_indices=[5, 11, 17, 23],
    neck_hidden_sizes=[256, 512, 1024, 1024],
    fusion_hidden_size=256,
)
SMALL = dict(
    hidden_size=128,
    num_hidden_layers=4,
    num_attention_heads=4,
    intermediate_size=256,
    image_size=64,
    backbone_out_indices=[0, 1, 2, 3],
    neck_hidden_sizes=[32, 48, 64, 64],
    fusion_hidden_size=32,
)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

config = DPTConfig(**PUBLISHED | (SMALL if args.small else {}))
model = DPTForDepthEstimation(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, 3, config.image_size, config.image_size),
}

with torch.no_grad():
    model(**inputs)
