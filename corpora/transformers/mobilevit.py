# labels: name::mobilevit author::apple task::image-classification domain::vision license::other
"""MobileViT small: transformers between MobileNet's blocks.

Sizes of https://huggingface.co/apple/mobilevit-small; paper https://arxiv.org/abs/2110.02178
"""

from proveout.parser import parse

import torch
from transformers import MobileViTConfig, MobileViTForImageClassification

PUBLISHED = dict(
    image_size=256,
    patch_size=2,
    hidden_sizes=[144, 192, 240],
    neck_hidden_sizes=[16, 32, 64, 96, 128, 160, 640],
    num_labels=1000,
)
SMALL = dict(
    image_size=64,
    hidden_sizes=[32, 48, 64],
    neck_hidden_sizes=[16, 16, 24, 32, 48, 64, 128],
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

config = MobileViTConfig(**PUBLISHED | (SMALL if args.small else {}))
model = MobileViTForImageClassification(config).eval()
for part in model.modules():
    if isinstance(part, torch.nn.Conv2d):
        torch.nn.init.kaiming_normal_(part.weight)  # with transformers' start, the signal dies out on its way
inputs = {
    "pixel_values": torch.randn(batch_size, 3, config.image_size, config.image_size),
}

with torch.no_grad():
    model(**inputs)
