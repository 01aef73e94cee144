# labels: name::ddpm_cifar10 author::google task::unconditional-image-generation domain::vision license::apache-2.0
"""The UNet of DDPM for CIFAR-10, 35.7 M parameters: one denoising step of a 32 x 32 image.

Sizes of https://huggingface.co/google/ddpm-cifar10-32/blob/main/config.json
Paper: https://arxiv.org/abs/2006.11239
With --small two levels of 32 and 64 channels.
"""

from proveout.parser import parse

import torch
from diffusers import UNet2DModel

PUBLISHED = dict(
    sample_size=32,
    block_out_channels=(128, 256, 256, 256),
    layers_per_block=2,
    down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "UpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
    attention_head_dim=None,
    downsample_padding=0,
    flip_sin_to_cos=False,
    freq_shift=1,
    norm_eps=1e-6,
)
SMALL = dict(
    block_out_channels=(32, 64),
    layers_per_block=1,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)

torch.manual_seed(0)

args = parse(["batch_size"])

model = UNet2DModel(**PUBLISHED | (SMALL if args.small else {})).eval()
sample = torch.randn(args.batch_size, 3, 32, 32)

with torch.no_grad():
    model(sample, torch.full((args.batch_size,), 500))
