# labels: name::levit_128s author::facebook task::image-classification domain::vision license::apache-2.0
"""LeViT-128S: a convolutional stem and attention with learnt biases, in three shrinking stages; 7.8 M parameters.

Source: https://huggingface.co/timm/levit_128s.fb_dist_in1k
Paper: https://arxiv.org/abs/2104.01136
The image is 224 x 224 pixels. With --small the image is 64 x 64.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

SMALL = dict(img_size=64)

args = parse(["batch_size"])
size = 64 if args.small else 224

model = timm.create_model("levit_128s", pretrained=False, **SMALL if args.small else {}).eval()
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
