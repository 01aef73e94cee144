# labels: name::repvgg_a0 author::tsinghua task::image-classification domain::vision license::mit
"""RepVGG-A0: three parallel branches a layer, as trained; 9.1 M parameters.

Source: https://huggingface.co/timm/repvgg_a0.rvgg_in1k
Paper: https://arxiv.org/abs/2101.03697
The image is 224 x 224 pixels. With --small the image is 64 x 64.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

args = parse(["batch_size"])
size = 64 if args.small else 224

model = timm.create_model("repvgg_a0", pretrained=False).eval()
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
