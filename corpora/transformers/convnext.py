# labels: name::convnext author::facebook task::image-classification domain::vision license::apache-2.0
"""ConvNeXt tiny: a convolutional network with a transformer's habits.

Sizes of https://huggingface.co/facebook/convnext-tiny-224; paper https://arxiv.org/abs/2201.03545
"""

from proveout.parser import parse

import torch
from transformers import ConvNextConfig, ConvNextForImageClassification

PUBLISHED = dict(
    depths=[3, 3, 9, 3],
    hidden_sizes=[96, 192, 384, 768],
    patch_size=4,
    layer_scale_init_value=1.0,  # training starts near 0; random blocks would vanish, trained ones do not
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

config = ConvNextConfig(**PUBLISHED | (SMALL if args.small else {}))
model = ConvNextForImageClassification(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, num_channels, height, width),
}

with torch.no_grad():
    model(**inputs)
