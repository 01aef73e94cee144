# labels: name::s3d author::google task::video-classification domain::video license::bsd-3-clause
"""S3D: separable Inception blocks over space and time, 8.3 M parameters, 400 classes of action.

Source: https://docs.pytorch.org/vision/stable/models/video_s3d.html
Paper: https://arxiv.org/abs/1712.04851
A clip has 128 frames of 224 x 224 pixels. With --small 16 frames of 64 x 64.
"""

from proveout.parser import parse

import torch
from torchvision.models.video import s3d

torch.manual_seed(0)

args = parse(["batch_size"])
frames, size = (16, 64) if args.small else (128, 224)

model = s3d(weights=None).eval()
if args.small:
    model.avgpool = torch.nn.AvgPool3d(kernel_size=2)  # made for 7 x 7 positions
clip = torch.randn(args.batch_size, 3, frames, size, size)

with torch.no_grad():
    model(clip)
