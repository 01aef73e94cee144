# labels: name::mobilevitv2 author::apple task::image-classification domain::vision license::other
"""MobileViT v2 1.0: separable attention, linear in the number of patches.

Sizes of https://huggingface.co/apple/mobilevitv2-1.0-imagenet1k-256; paper https://arxiv.org/abs/2206.02680
"""

from proveout.parser import parse

import torch
from transformers import MobileViTV2Config, MobileViTV2ForImageClassification

PUBLISHED = dict(
    image_size=256,
    patch_size=2,
    width_multiplier=1.0,
    num_labels=1000,
)
SMALL = dict(
    image_size=64,
    width_multiplier=0.25,
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

config = MobileViTV2Config(**PUBLISHED | (SMALL if args.small else {}))
model = MobileViTV2ForImageClassification(config).eval()
for part in model.modules():
    if isinstance(part, torch.nn.Conv2d):
        torch.nn.init.kaiming_normal_(part.weight)  # with transformers' start, the signal dies out on its way
inputs = {
    "pixel_values": torch.randn(batch_size, 3, config.image_size, config.image_size),
}

with torch.no_grad():
    model(**inputs)
