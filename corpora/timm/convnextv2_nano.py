# labels: name::convnextv2_nano author::facebook task::image-classification domain::vision license::cc-by-nc-4.0
"""ConvNeXt V2 Nano: depthwise 7 x 7 convolutions and global response normalisation; 15.6 M parameters.

Source: https://huggingface.co/timm/convnextv2_nano.fcmae_ft_in22k_in1k
Paper: https://arxiv.org/abs/2301.00808
The image is 224 x 224 pixels. With --small the image is 64 x 64 and the model has 5 blocks, 32 to 128 wide.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

SMALL = dict(depths=(1, 1, 2, 1), dims=(32, 64, 96, 128))

args = parse(["batch_size"])
size = 64 if args.small else 224

model = timm.create_model("convnextv2_nano", pretrained=False, **SMALL if args.small else {}).eval()
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
