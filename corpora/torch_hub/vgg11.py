# labels: name::vgg11 author::oxford task::image-classification domain::vision license::bsd-3-clause
"""VGG-11: eight convolutions and three linear layers, 132.9 M parameters.

Source: https://github.com/pytorch/hub/blob/master/pytorch_vision_vgg.md
Paper: https://arxiv.org/abs/1409.1556
With --small the image is 64 x 64 and one linear layer stands for its three of 4,096 features.
"""

from proveout.parser import parse

import torch

torch.manual_seed(0)

args = parse(["batch_size", "num_channels", "height", "width"])
height, width = (64, 64) if args.small else (args.height, args.width)

model = torch.hub.load("pytorch/vision:v0.13.1", "vgg11", weights=None, init_weights=False)
if args.small:
    model.classifier = torch.nn.Linear(512 * 7 * 7, 10)
model.eval()
x = torch.randn(args.batch_size, args.num_channels, height, width)

with torch.no_grad():
    model(x)
