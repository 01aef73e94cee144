# labels: name::tf_efficientnetv2_s author::google task::image-classification domain::vision license::apache-2.0
"""EfficientNetV2-S: fused and depthwise inverted residuals; 21.5 M parameters.

Source: https://huggingface.co/timm/tf_efficientnetv2_s.in21k_ft_in1k
Paper: https://arxiv.org/abs/2104.00298
The image is 300 x 300 pixels. With --small the image is 64 x 64 and each stage has one block.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

args = parse(["batch_size"])
size = 64 if args.small else 300

model = timm.create_model("tf_efficientnetv2_s", pretrained=False).eval()
if args.small:
    for stage in model.blocks:
        del stage[1:]
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
