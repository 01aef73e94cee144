# labels: name::deit author::facebook task::image-classification domain::vision license::apache-2.0
"""DeiT base, distilled: a second token learns from a convolutional teacher.

Sizes of https://huggingface.co/facebook/deit-base-distilled-patch16-224; paper https://arxiv.org/abs/2012.12877
"""

from proveout.parser import parse

import torch
from transformers import DeiTConfig, DeiTForImageClassificationWithTeacher

PUBLISHED = dict(
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    image_size=224,
    patch_size=16,
    num_labels=1000,
)
SMALL = dict(
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    image_size=64,
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

config = DeiTConfig(**PUBLISHED | (SMALL if args.small else {}))
model = DeiTForImageClassificationWithTeacher(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, 3, config.image_size, config.image_size),
}

with torch.no_grad():
    model(**inputs)
