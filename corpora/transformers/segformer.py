# labels: name::segformer author::nvidia task::image-segmentation domain::vision license::other
"""SegFormer B0 on ADE20K: a pyramid of efficient attention, and an all-MLP decoder.

Sizes of https://huggingface.co/nvidia/segformer-b0-finetuned-ade-512-512; paper https://arxiv.org/abs/2105.15203
"""

from proveout.parser import parse

import torch
from transformers import SegformerConfig, SegformerForSemanticSegmentation

PUBLISHED = dict(
    depths=[2, 2, 2, 2],
    hidden_sizes=[32, 64, 160, 256],
    num_attention_heads=[1, 2, 5, 8],
    sr_ratios=[8, 4, 2, 1],
    decoder_hidden_size=256,
    num_labels=150,
)
SMALL = dict(
    depths=[1, 1, 1, 1],
    hidden_sizes=[32, 64, 96, 128],
    num_attention_heads=[1, 2, 3, 4],
    decoder_hidden_size=64,
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

config = SegformerConfig(**PUBLISHED | (SMALL if args.small else {}))
model = SegformerForSemanticSegmentation(config).eval()
size = 64 if args.small else 512
inputs = {
    "pixel_values": torch.randn(batch_size, 3, size, size),
}

with torch.no_grad():
    model(**inputs)
