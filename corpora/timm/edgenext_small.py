# labels: name::edgenext_small author::mbzuai task::image-classification domain::vision license::mit
"""EdgeNeXt-S: depthwise convolutions split in scales, and attention between channels; 5.6 M parameters.

Source: https://huggingface.co/timm/edgenext_small.usi_in1k
Paper: https://arxiv.org/abs/2206.10589
The image is 256 x 256 pixels. With --small the image is 64 x 64.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

args = parse(["batch_size"])
size = 64 if args.small else 256

model = timm.create_model("edgenext_small", pretrained=False).eval()
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
