# labels: name::mixer_s16 author::google task::image-classification domain::vision license::apache-2.0
"""MLP-Mixer S/16: linear layers across patches and across channels in turn; 18.5 M parameters.

Source: https://huggingface.co/timm/mixer_s16_224
Paper: https://arxiv.org/abs/2105.01601
The image is 224 x 224 pixels. With --small the image is 64 x 64.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

SMALL = dict(img_size=64)

args = parse(["batch_size"])
size = 64 if args.small else 224

model = timm.create_model("mixer_s16_224", pretrained=False, **SMALL if args.small else {}).eval()
torch.nn.init.trunc_normal_(model.head.weight, std=0.02)  # built as zeros, and so would be every output
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
