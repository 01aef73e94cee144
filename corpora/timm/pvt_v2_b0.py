# labels: name::pvt_v2_b0 author::nanjing-university task::image-classification domain::vision license::apache-2.0
"""PVTv2-B0: a pyramid transformer with spatially reduced keys and values; 3.7 M parameters.

Source: https://huggingface.co/timm/pvt_v2_b0.in1k
Paper: https://arxiv.org/abs/2106.13797
The image is 224 x 224 pixels. With --small the image is 64 x 64.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

args = parse(["batch_size"])
size = 64 if args.small else 224

model = timm.create_model("pvt_v2_b0", pretrained=False).eval()
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
