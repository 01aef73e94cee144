# labels: name::poolformer_s12 author::sea-ai-lab task::image-classification domain::vision license::apache-2.0
"""PoolFormer-S12: a transformer whose token mixer is average pooling; 11.9 M parameters.

Source: https://huggingface.co/timm/poolformer_s12.sail_in1k
Paper: https://arxiv.org/abs/2111.11418
The image is 224 x 224 pixels. With --small the image is 64 x 64.
"""

from proveout.parser import parse

import timm
import torch

torch.manual_seed(0)

args = parse(["batch_size"])
size = 64 if args.small else 224

model = timm.create_model("poolformer_s12", pretrained=False).eval()
x = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(x)
