# labels: name::sdxl_unet author::stabilityai task::text-to-image domain::vision license::openrail++
"""The UNet of Stable Diffusion XL 1.0, 2.57 B parameters: one denoising step of a 128 x 128 latent (1024 pixels).

Sizes of https://huggingface.co/stabilityai/stable-diffusion-xl-base-1.0/blob/main/unet/config.json
Paper: https://arxiv.org/abs/2307.01952
With --small a 16 x 16 latent, levels of 32, 64 and 64 channels with at most 2 transformer layers, and 16 words.
"""

from proveout.parser import parse

import torch
from diffusers import UNet2DConditionModel

PUBLISHED = dict(
    sample_size=128,
    block_out_channels=(320, 640, 1280),
    down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
    transformer_layers_per_block=(1, 2, 10),
    attention_head_dim=(5, 10, 20),  # diffusers' name for the number of heads
    cross_attention_dim=2048,
    use_linear_projection=True,
    addition_embed_type="text_time",
    addition_time_embed_dim=256,
    projection_class_embeddings_input_dim=2816,
)
SMALL = dict(
    sample_size=16,
    block_out_channels=(32, 64, 64),
    layers_per_block=1,
    transformer_layers_per_block=(1, 1, 2),
    attention_head_dim=(1, 2, 2),
    cross_attention_dim=64,
    addition_time_embed_dim=32,
    projection_class_embeddings_input_dim=256,
)

torch.manual_seed(0)

args = parse(["batch_size"])
words = 16 if args.small else 77

model = UNet2DConditionModel(**PUBLISHED | (SMALL if args.small else {})).eval()
config = model.config
pooled = config.projection_class_embeddings_input_dim - 6 * config.addition_time_embed_dim
inputs = {
    "sample": torch.randn(args.batch_size, config.in_channels, config.sample_size, config.sample_size),
    "timestep": torch.full((args.batch_size,), 500),
    "encoder_hidden_states": torch.randn(args.batch_size, words, config.cross_attention_dim),
    "added_cond_kwargs": {
        "text_embeds": torch.randn(args.batch_size, pooled),
        "time_ids": torch.tensor([[1024.0, 1024.0, 0.0, 0.0, 1024.0, 1024.0]]).repeat(args.batch_size, 1),
    },
}

with torch.no_grad():
    model(**inputs)
