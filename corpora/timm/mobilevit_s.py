# labels: name::mobilevit_s author::apple task::image-classification domain::vision license::cvnets-license
"""MobileViT-S: inverted residuals with transformers over unfolded patches; 5.6 M parameters.

Source: https://huggingface.co/timm/mobilevit_s.cvnets_in1k
Paper: https://arxiv.org/abs/2110.02178
The image is 256 x 256 pixels. With --small the image is 64 x 64.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

args = parse(["batch_size"])
size = 64 if args.small else 256

model = timm.create_model("mobilevit_s", pretrained=False).eval()
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
