# labels: name::beit_base author::microsoft task::image-classification domain::vision license::apache-2.0
"""BEiT-B/16: a vision transformer with relative position bias and layer scale; 86.5 M parameters.

Source: https://huggingface.co/timm/beit_base_patch16_224.in22k_ft_in22k_in1k
Paper: https://arxiv.org/abs/2106.08254
The image is 224 x 224 pixels. With --small the image is 64 x 64 and the model has 2 layers, 96 wide.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

SMALL = dict(img_size=64, embed_dim=96, depth=2, num_heads=3)

args = parse(["batch_size"])
size = 64 if args.small else 224

model = timm.create_model("beit_base_patch16_224", pretrained=False, **SMALL if args.small else {}).eval()
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
