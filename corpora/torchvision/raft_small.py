# labels: name::raft_small author::princeton task::optical-flow domain::video license::bsd-3-clause
"""RAFT-S: optical flow by recurrent lookups in all-pairs correlations, 1.0 M parameters.

Source: https://docs.pytorch.org/vision/stable/models/raft.html
Paper: https://arxiv.org/abs/2003.12039
Pairs of frames of 360 x 520 pixels and 12 updates of the flow, or 128 x 128 and 2 updates with --small.
"""

from proveout.parser import parse

import torch
from torchvision.models.optical_flow import raft_small

torch.manual_seed(0)

args = parse(["batch_size"])
height, width, updates = (128, 128, 2) if args.small else (360, 520, 12)

model = raft_small(weights=None).eval()
first, second = torch.randn(2, args.batch_size, 3, height, width)

with torch.no_grad():
    model(first, second, num_flow_updates=updates)
