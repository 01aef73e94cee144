# labels: name::ghostnet_100 author::huawei task::image-classification domain::vision license::apache-2.0
"""GhostNet 1.0x: cheap depthwise maps beside the computed ones; 5.2 M parameters.

Source: https://huggingface.co/timm/ghostnet_100.in1k
Paper: https://arxiv.org/abs/1911.11907
The image is 224 x 224 pixels. With --small the image is 64 x 64.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

args = parse(["batch_size"])
size = 64 if args.small else 224

model = timm.create_model("ghostnet_100", pretrained=False).eval()
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
