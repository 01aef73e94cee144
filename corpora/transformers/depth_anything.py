# labels: name::depth_anything author::liheyoung task::depth-estimation domain::vision license::apache-2.0
"""Depth Anything, small: depth from DINOv2's features.

Sizes of https://huggingface.co/LiheYoung/depth-anything-small-hf; paper https://arxiv.org/abs/2401.10891
"""

from proveout.parser import parse

import torch
from transformers import DepthAnythingConfig, DepthAnythingForDepthEstimation, Dinov2Config

PUBLISHED = dict(
    reassemble_hidden_size=384, neck_hidden_sizes=[48, 96, 192, 384], fusion_hidden_size=64, head_hidden_size=32
)
SMALL = dict(reassemble_hidden_size=64, neck_hidden_sizes=[16, 24, 32, 48], fusion_hidden_size=16, head_hidden_size=16)
BACKBONE = dict(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, image_size=518, patch_size=14)
BACKBONE_SMALL = dict(hidden_size=64, num_hidden_layers=4, num_attention_heads=2, image_size=70)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

backbone = Dinov2Config(
    **BACKBONE | (BACKBONE_SMALL if args.small else {}),
    apply_layernorm=True,
    reshape_hidden_states=False,
    out_indices=[1, 2, 3, 4] if args.small else [9, 10, 11, 12],
)
config = DepthAnythingConfig(**PUBLISHED | (SMALL if args.small else {}), backbone_config=backbone)
model = DepthAnythingForDepthEstimation(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, 3, backbone.image_size, backbone.image_size),
}

with torch.no_grad():
    model(**inputs)
