# labels: name::coatnet_0_rw author::timm task::image-classification domain::vision license::apache-2.0
"""CoAtNet-0 (timm's variant): convolution stages, then relative attention; 27.4 M parameters.

Source: https://huggingface.co/timm/coatnet_0_rw_224.sw_in1k
Paper: https://arxiv.org/abs/2106.04803
The image is 224 x 224 pixels. With --small the image is 64 x 64.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

SMALL = dict(img_size=64)

args = parse(["batch_size"])
size = 64 if args.small else 224

model = timm.create_model("coatnet_0_rw_224", pretrained=False, **SMALL if args.small else {}).eval()
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
