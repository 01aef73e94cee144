# labels: name::swin3d_t author::microsoft task::video-classification domain::video license::bsd-3-clause
"""Video Swin-T: attention in shifted windows over space and time, 28.2 M parameters, 400 classes of action.

Source: https://docs.pytorch.org/vision/stable/models/video_swin_transformer.html
Paper: https://arxiv.org/abs/2106.13230
A clip has 32 frames of 224 x 224 pixels. With --small 4 frames of 64 x 64.
"""

from proveout.parser import parse

import torch
from torchvision.models.video import swin3d_t

torch.manual_seed(0)

args = parse(["batch_size"])
frames, size = (4, 64) if args.small else (32, 224)

model = swin3d_t(weights=None).eval()
clip = torch.randn(args.batch_size, 3, frames, size, size)

with torch.no_grad():
    model(clip)
