# labels: name::hrnet_w18_small author::microsoft task::image-classification domain::vision license::apache-2.0
"""HRNet-W18-C-Small: four resolutions side by side, exchanged after each stage; 13.2 M parameters.

Source: https://huggingface.co/timm/hrnet_w18_small.gluon_in1k
Paper: https://arxiv.org/abs/1908.07919
The image is 224 x 224 pixels. With --small the image is 64 x 64.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

args = parse(["batch_size"])
size = 64 if args.small else 224

model = timm.create_model("hrnet_w18_small", pretrained=False).eval()
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
