# labels: name::mobilenetv4_conv_small author::google task::image-classification domain::vision license::apache-2.0
"""MobileNetV4-Conv-S: universal inverted bottlenecks; 3.8 M parameters.

Source: https://huggingface.co/timm/mobilenetv4_conv_small.e2400_r224_in1k
Paper: https://arxiv.org/abs/2404.10518
The image is 224 x 224 pixels. With --small the image is 64 x 64.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

args = parse(["batch_size"])
size = 64 if args.small else 224

model = timm.create_model("mobilenetv4_conv_small", pretrained=False).eval()
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
