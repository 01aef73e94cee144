# labels: name::googlenet author::google task::image-classification domain::vision license::bsd-3-clause
"""GoogLeNet (Inception v1): nine blocks of four parallel branches, 6.6 M parameters at inference.

Source: https://github.com/pytorch/hub/blob/master/pytorch_vision_googlenet.md
Paper: https://arxiv.org/abs/1409.4842
With --small the image is 64 x 64. The published initialisation (truncated normal) takes a minute and is left out.
"""

from proveout.parser import parse

import torch

torch.manual_seed(0)

args = parse(["batch_size", "num_channels", "height", "width"])
height, width = (64, 64) if args.small else (args.height, args.width)

model = torch.hub.load("pytorch/vision:v0.13.1", "googlenet", weights=None, aux_logits=False, init_weights=False).eval()
x = torch.randn(args.batch_size, args.num_channels, height, width)

with torch.no_grad():
    model(x)
