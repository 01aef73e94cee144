# labels: name::vit_b_16 author::google task::image-classification domain::vision license::bsd-3-clause
"""ViT-B/16: a transformer over patches of 16 x 16 pixels, 86.6 M parameters.

Source: https://docs.pytorch.org/vision/stable/models/vision_transformer.html
Paper: https://arxiv.org/abs/2010.11929
With --small the image is 64 x 64 and two of its twelve layers are left.
"""

from proveout.parser import parse

import torch

torch.manual_seed(0)

args = parse(["batch_size", "num_channels"])
size = 64 if args.small else 224  # its position embeddings are for one size

model = torch.hub.load("pytorch/vision:v0.13.1", "vit_b_16", weights=None, image_size=size)
if args.small:
    del model.encoder.layers[2:]
torch.nn.init.trunc_normal_(model.heads.head.weight, std=0.02)  # built as zeros, and so would be every output
model.eval()
x = torch.randn(args.batch_size, args.num_channels, size, size)

with torch.no_grad():
    model(x)
