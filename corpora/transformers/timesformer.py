# labels: name::timesformer author::facebook task::video-classification domain::vision license::cc-by-nc-4.0
"""TimeSformer base on Kinetics-400: attention over time, then over space.

Sizes of https://huggingface.co/facebook/timesformer-base-finetuned-k400; paper https://arxiv.org/abs/2102.05095
"""

from proveout.parser import parse

import torch
from transformers import TimesformerConfig, TimesformerForVideoClassification

PUBLISHED = dict(
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    image_size=224,
    patch_size=16,
    num_frames=8,
    attention_type="divided_space_time",
    num_labels=400,
)
SMALL = dict(
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    image_size=64,
    num_frames=2,
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

config = TimesformerConfig(**PUBLISHED | (SMALL if args.small else {}))
model = TimesformerForVideoClassification(config).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, config.num_frames, 3, config.image_size, config.image_size),
}

with torch.no_grad():
    model(**inputs)
