# labels: name::beit author::microsoft task::image-classification domain::vision license::apache-2.0
"""BEiT base: relative position biases, a scale for each layer, mean pooling.

Sizes of https://huggingface.co/microsoft/beit-base-patch16-224; paper https://arxiv.org/abs/2106.08254
"""

from proveout.parser import parse

import torch
from transformers import BeitConfig, BeitForImageClassification

PUBLISHED = dict(
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    image_size=224,
    patch_size=16,
    use_relative_position_bias=True,
    use_mean_pooling=True,
    layer_scale_init_value=0.1,
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

config = BeitConfig(**PUBLISHED | (SMALL if args.small else {}))
model = BeitForImageClassification(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, 3, config.image_size, config.image_size),
}

with torch.no_grad():
    model(**inputs)
