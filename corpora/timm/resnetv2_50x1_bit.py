# labels: name::resnetv2_50x1_bit author::google task::image-classification domain::vision license::apache-2.0
"""BiT ResNetV2-50x1: weight standardisation and group normalisation before activation; 25.5 M parameters.

Source: https://huggingface.co/timm/resnetv2_50x1_bit.goog_distilled_in1k
Paper: https://arxiv.org/abs/1912.11370
The image is 224 x 224 pixels. With --small the image is 64 x 64 and each stage has one block.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

args = parse(["batch_size"])
size = 64 if args.small else 224

model = timm.create_model("resnetv2_50x1_bit", pretrained=False).eval()
if args.small:
    for stage in model.stages:
        del stage.blocks[1:]
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
