# labels: name::yolos author::hustvl task::object-detection domain::vision license::apache-2.0
"""YOLOS tiny: a bare ViT whose hundred extra tokens detect objects.

Sizes of https://huggingface.co/hustvl/yolos-tiny; paper https://arxiv.org/abs/2106.00666
"""

from proveout.parser import parse

import torch
from transformers import YolosConfig, YolosForObjectDetection

PUBLISHED = dict(
    hidden_size=192,
    num_hidden_layers=12,
    num_attention_heads=3,
    intermediate_size=768,
    image_size=[800, 1333],
    patch_size=16,
    num_detection_tokens=100,
    use_mid_position_embeddings=False,
    num_labels=91,
)
SMALL = dict(
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    image_size=[64, 96],
    num_detection_tokens=10,
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

config = YolosConfig(**PUBLISHED | (SMALL if args.small else {}))
model = YolosForObjectDetection(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, 3, *config.image_size),
}

with torch.no_grad():
    model(**inputs)
