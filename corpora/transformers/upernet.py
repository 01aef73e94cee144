# labels: name::upernet author::openmmlab task::image-segmentation domain::vision license::mit
"""UPerNet over ConvNeXt tiny: segmentation of ADE20K from a feature pyramid.

Sizes of https://huggingface.co/openmmlab/upernet-convnext-tiny; paper https://arxiv.org/abs/1807.10221
"""

from proveout.parser import parse

import torch
from transformers import ConvNextConfig, UperNetConfig, UperNetForSemanticSegmentation

PUBLISHED = dict(hidden_size=512, auxiliary_in_channels=384, auxiliary_channels=256, num_labels=150)
SMALL = dict(hidden_size=32, auxiliary_in_channels=48, auxiliary_channels=16, num_labels=10)
BACKBONE = dict(
    depths=[3, 3, 9, 3],
    hidden_sizes=[96, 192, 384, 768],
    layer_scale_init_value=1.0,  # training starts near 0; random blocks would vanish, trained ones do not
)
BACKBONE_SMALL = dict(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 48, 64])

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

stages = ["stage1", "stage2", "stage3", "stage4"]
backbone = ConvNextConfig(**BACKBONE | (BACKBONE_SMALL if args.small else {}), out_features=stages)
config = UperNetConfig(**PUBLISHED | (SMALL if args.small else {}), backbone_config=backbone)
model = UperNetForSemanticSegmentation(config).eval()
size = 64 if args.small else 512
inputs = {
    "pixel_values": torch.randn(batch_size, 3, size, size),
}

with torch.no_grad():
    model(**inputs)
