# labels: name::eva02_tiny author::baai task::image-classification domain::vision license::mit
"""EVA-02-Ti/14: a vision transformer with rotary positions and SwiGLU; 5.5 M parameters.

Source: https://huggingface.co/timm/eva02_tiny_patch14_224.mim_in22k
Paper: https://arxiv.org/abs/2303.11331
The image is 224 x 224 pixels. With --small the image is 56 x 56 and the model has 2 layers, 96 wide.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

SMALL = dict(img_size=56, embed_dim=96, depth=2, num_heads=3)

args = parse(["batch_size"])
size = 56 if args.small else 224

model = timm.create_model("eva02_tiny_patch14_224", pretrained=False, **SMALL if args.small else {}).eval()
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
