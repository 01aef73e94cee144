# labels: name::vit_base_dinov2 author::facebook task::image-feature-extraction domain::vision license::apache-2.0
"""DINOv2 ViT-B/14: a vision transformer with layer scale, features without a classifier; 86.6 M parameters.

Source: https://huggingface.co/timm/vit_base_patch14_dinov2.lvd142m
Paper: https://arxiv.org/abs/2304.07193
The image is 518 x 518 pixels. With --small the image is 56 x 56 and the model has 2 layers, 96 wide.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

SMALL = dict(img_size=56, embed_dim=96, depth=2, num_heads=3)

args = parse(["batch_size"])
size = 56 if args.small else 518

model = timm.create_model("vit_base_patch14_dinov2", pretrained=False, **SMALL if args.small else {}).eval()
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
