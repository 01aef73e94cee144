# labels: name::taesd author::madebyollin task::image-to-image domain::vision license::mit
"""TAESD: a tiny autoencoder that stands in for Stable Diffusion's own, 2.4 M parameters.

Sizes of https://huggingface.co/madebyollin/taesd/blob/main/config.json
Images of 512 x 512 pixels. With --small 64 x 64.
"""

from proveout.parser import parse

import torch
from diffusers import AutoencoderTiny

torch.manual_seed(0)

args = parse(["batch_size"])
size = 64 if args.small else 512

model = AutoencoderTiny().eval()
image = torch.rand(args.batch_size, 3, size, size)

with torch.no_grad():
    model(image)
