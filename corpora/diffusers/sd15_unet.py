# labels: name::sd15_unet author::runwayml task::text-to-image domain::vision license::creativeml-openrail-m
"""The UNet of Stable Diffusion 1.5, 860 M parameters: one denoising step of a 64 x 64 latent (an image of 512 pixels).

Sizes of https://huggingface.co/stable-diffusion-v1-5/stable-diffusion-v1-5/blob/main/unet/config.json
Paper: https://arxiv.org/abs/2112.10752
With --small a 16 x 16 latent, two levels of 32 and 64 channels and 16 words.
"""

from proveout.parser import parse

import torch
from diffusers import UNet2DConditionModel

PUBLISHED = dict(sample_size=64, cross_attention_dim=768, attention_head_dim=8)  # 320, 640, 1280, 1280 channels
SMALL = dict(
    sample_size=16,
    cross_attention_dim=64,
    block_out_channels=(32, 64),
    layers_per_block=1,
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
)

torch.manual_seed(0)

args = parse(["batch_size"])
words = 16 if args.small else 77

model = UNet2DConditionModel(**PUBLISHED | (SMALL if args.small else {})).eval()
config = model.config
inputs = {
    "sample": torch.randn(args.batch_size, config.in_channels, config.sample_size, config.sample_size),
    "timestep": torch.full((args.batch_size,), 500),
    "encoder_hidden_states": torch.randn(args.batch_size, words, config.cross_attention_dim),
}

with torch.no_grad():
    model(**inputs)
