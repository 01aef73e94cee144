# labels: name::vit_mae author::facebook task::image-feature-extraction domain::vision license::apache-2.0
"""ViT-MAE base: rebuilds the three quarters of an image that it does not see.

Sizes of https://huggingface.co/facebook/vit-mae-base; paper https://arxiv.org/abs/2111.06377
"""

from proveout.parser import parse

import torch
from transformers import ViTMAEConfig, ViTMAEForPreTraining

PUBLISHED = dict(
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    image_size=224,
    patch_size=16,
    decoder_hidden_size=512,
    decoder_num_hidden_layers=8,
    decoder_num_attention_heads=16,
    decoder_intermediate_size=2048,
    mask_ratio=0.75,
)
SMALL = dict(
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    image_size=64,
    decoder_hidden_size=64,
    decoder_num_hidden_layers=1,
    decoder_num_attention_heads=2,
    decoder_intermediate_size=128,
)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

config = ViTMAEConfig(**PUBLISHED | (SMALL if args.small else {}))
model = ViTMAEForPreTraining(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, 3, config.image_size, config.image_size),
    "noise": torch.rand(batch_size, (config.image_size // config.patch_size) ** 2),
}

with torch.no_grad():
    model(**inputs)
