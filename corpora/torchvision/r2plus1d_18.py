# labels: name::r2plus1d_18 author::facebook task::video-classification domain::video license::bsd-3-clause
"""R(2+1)D-18: space and time convolved one after the other, 31.5 M parameters, 400 classes of action.

Source: https://docs.pytorch.org/vision/stable/models/video_resnet.html
Paper: https://arxiv.org/abs/1711.11248
A clip has 16 frames of 112 x 112 pixels. With --small 4 frames of 32 x 32.
"""

from proveout.parser import parse

import torch
from torchvision.models.video import r2plus1d_18

torch.manual_seed(0)

args = parse(["batch_size"])
frames, size = (4, 32) if args.small else (16, 112)

model = r2plus1d_18(weights=None).eval()
clip = torch.randn(args.batch_size, 3, frames, size, size)

with torch.no_grad():
    model(clip)
