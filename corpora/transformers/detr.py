# labels: name::detr author::facebook task::object-detection domain::vision license::apache-2.0
"""DETR with ResNet-50: detection as the prediction of a set, by a hundred queries.

Sizes of https://huggingface.co/facebook/detr-resnet-50; paper https://arxiv.org/abs/2005.12872
"""

from proveout.parser import parse

import torch
from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

PUBLISHED = dict(
    d_model=256,
    encoder_layers=6,
    decoder_layers=6,
    encoder_ffn_dim=2048,
    decoder_ffn_dim=2048,
    encoder_attention_heads=8,
    decoder_attention_heads=8,
    num_queries=100,
    num_labels=91,
)
SMALL = dict(
    d_model=64,
    encoder_layers=1,
    decoder_layers=1,
    encoder_ffn_dim=128,
    decoder_ffn_dim=128,
    encoder_attention_heads=2,
    decoder_attention_heads=2,
    num_queries=10,
    num_labels=10,
)
BACKBONE = dict(embedding_size=64, hidden_sizes=[256, 512, 1024, 2048], depths=[3, 4, 6, 3])
BACKBONE_SMALL = dict(embedding_size=32, hidden_sizes=[32, 64, 96, 128], depths=[1, 1, 1, 1])

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

backbone = ResNetConfig(**BACKBONE | (BACKBONE_SMALL if args.small else {}), out_features=["stage4"])
config = DetrConfig(**PUBLISHED | (SMALL if args.small else {}), backbone_config=backbone)
model = DetrForObjectDetection(config).eval()
height, width = (64, 96) if args.small else (800, 1066)
inputs = {
    "pixel_values": torch.randn(batch_size, 3, height, width),
    "pixel_mask": torch.ones(batch_size, height, width, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
