# labels: name::cait_xxs24 author::facebook task::image-classification domain::vision license::apache-2.0
"""CaiT-XXS24: talking-heads attention and two class-attention layers; 12.0 M parameters.

Source: https://huggingface.co/timm/cait_xxs24_224.fb_dist_in1k
Paper: https://arxiv.org/abs/2103.17239
The image is 224 x 224 pixels. With --small the image is 64 x 64 and the model has 2 layers before class attention.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

SMALL = dict(img_size=64, depth=2)

args = parse(["batch_size"])
size = 64 if args.small else 224

model = timm.create_model("cait_xxs24_224", pretrained=False, **SMALL if args.small else {}).eval()
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
