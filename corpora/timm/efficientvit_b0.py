# labels: name::efficientvit_b0 author::mit task::image-classification domain::vision license::apache-2.0
"""EfficientViT-B0: multi-scale linear attention with ReLU features; 3.4 M parameters.

Source: https://huggingface.co/timm/efficientvit_b0.r224_in1k
Paper: https://arxiv.org/abs/2205.14756
The image is 224 x 224 pixels. With --small the image is 64 x 64.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

args = parse(["batch_size"])
size = 64 if args.small else 224

model = timm.create_model("efficientvit_b0", pretrained=False).eval()
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
