# labels: name::resnet50d author::timm task::image-classification domain::vision license::apache-2.0
"""ResNet-50-D: ResNet-50 with a deep stem and average pooling in its shortcuts; 25.6 M parameters.

Source: https://huggingface.co/timm/resnet50d.ra2_in1k
Paper: https://arxiv.org/abs/1812.01187
The image is 224 x 224 pixels. With --small the image is 64 x 64.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

args = parse(["batch_size"])
size = 64 if args.small else 224

model = timm.create_model("resnet50d", pretrained=False).eval()
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
