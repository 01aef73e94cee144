# labels: name::convnextv2 author::facebook task::image-classification domain::vision license::apache-2.0
"""ConvNeXt v2 tiny: with global response normalisation.

Sizes of https://huggingface.co/facebook/convnextv2-tiny-1k-224; paper https://arxiv.org/abs/2301.00808
"""

from proveout.parser import parse

import torch
from transformers import ConvNextV2Config, ConvNextV2ForImageClassification

PUBLISHED = dict(
    depths=[3, 3, 9, 3],
    hidden_sizes=[96, 192, 384, 768],
    patch_size=4,
    num_labels=1000,
)
SMALL = dict(
    depths=[1, 1, 2, 1],
    hidden_sizes=[32, 64, 96, 128],
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size", "num_channels", "height", "width"])
batch_size, num_channels, height, width = args

config = ConvNextV2Config(**PUBLISHED | (SMALL if args.small else {}))
model = ConvNextV2ForImageClassification(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, num_channels, height, width),
}

with torch.no_grad():
    model(**inputs)
