# labels: name::inception_v3 author::google task::image-classification domain::vision license::bsd-3-clause
"""Inception v3: factorised convolutions (1 x 7, 7 x 1), 299 x 299 images; 23.8 M parameters at inference.

Source: https://github.com/pytorch/hub/blob/master/pytorch_vision_inception_v3.md
Paper: https://arxiv.org/abs/1512.00567
With --small the image is 96 x 96. The published initialisation (truncated normal) takes a minute and is left out.
"""

from proveout.parser import parse

import torch

torch.manual_seed(0)

args = parse(["batch_size", "num_channels"])
size = 96 if args.small else 299

model = torch.hub.load(
    "pytorch/vision:v0.13.1", "inception_v3", weights=None, aux_logits=False, init_weights=False
).eval()
x = torch.randn(args.batch_size, args.num_channels, size, size)

with torch.no_grad():
    model(x)
