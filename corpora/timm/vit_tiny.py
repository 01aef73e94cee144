# labels: name::vit_tiny author::google task::image-classification domain::vision license::apache-2.0
"""ViT-Ti/16: a vision transformer of 12 layers, 192 wide; 5.7 M parameters.

Source: https://huggingface.co/timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k
Paper: https://arxiv.org/abs/2010.11929
The image is 224 x 224 pixels. With --small the image is 64 x 64 and the model has 2 layers.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

SMALL = dict(img_size=64, depth=2)

args = parse(["batch_size"])
size = 64 if args.small else 224

model = timm.create_model("vit_tiny_patch16_224", pretrained=False, **SMALL if args.small else {}).eval()
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
