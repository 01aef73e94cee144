# labels: name::cvt author::microsoft task::image-classification domain::vision license::apache-2.0
"""CvT-13: convolutions make the tokens and the projections.

Sizes of https://huggingface.co/microsoft/cvt-13; paper https://arxiv.org/abs/2103.15808
"""

from proveout.parser import parse

import torch
from transformers import CvtConfig, CvtForImageClassification

PUBLISHED = dict(
    embed_dim=[64, 192, 384],
    num_heads=[1, 3, 6],
    depth=[1, 2, 10],
    num_labels=1000,
)
SMALL = dict(
    embed_dim=[32, 64, 96],
    num_heads=[1, 2, 3],
    depth=[1, 2, 3],
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size", "num_channels", "height", "width"])
batch_size, num_channels, height, width = args

config = CvtConfig(**PUBLISHED | (SMALL if args.small else {}))
model = CvtForImageClassification(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, num_channels, height, width),
}

with torch.no_grad():
    model(**inputs)
