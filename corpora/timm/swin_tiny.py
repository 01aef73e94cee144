# labels: name::swin_tiny author::microsoft task::image-classification domain::vision license::mit
"""Swin-T: attention inside shifted windows of 7 x 7; 28.3 M parameters.

Source: https://huggingface.co/timm/swin_tiny_patch4_window7_224.ms_in1k
Paper: https://arxiv.org/abs/2103.14030
The image is 224 x 224 pixels. With --small the image is 56 x 56 and the model has three stages, the first 32 wide.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

SMALL = dict(img_size=56, embed_dim=32, depths=(1, 2, 1), num_heads=(1, 2, 4))

args = parse(["batch_size"])
size = 56 if args.small else 224

model = timm.create_model("swin_tiny_patch4_window7_224", pretrained=False, **SMALL if args.small else {}).eval()
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
