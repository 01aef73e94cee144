# labels: name::sd3_transformer author::stabilityai task::text-to-image domain::vision license::stabilityai-community
"""The transformer of Stable Diffusion 3 Medium (MMDiT), 2.0 B parameters: one step of a 128 x 128 latent (1024 pixels).

Sizes of https://huggingface.co/stabilityai/stable-diffusion-3-medium-diffusers/blob/main/transformer/config.json
Paper: https://arxiv.org/abs/2403.03206
With --small a 16 x 16 latent, 2 layers of 4 heads of 16, and 16 words.
"""

from proveout.parser import parse

import torch
from diffusers import SD3Transformer2DModel

PUBLISHED = dict(
    sample_size=128,
    patch_size=2,
    in_channels=16,
    num_layers=24,
    attention_head_dim=64,
    num_attention_heads=24,
    joint_attention_dim=4096,
    caption_projection_dim=1536,
    pooled_projection_dim=2048,
    pos_embed_max_size=192,
)
SMALL = dict(
    sample_size=16,
    num_layers=2,
    attention_head_dim=16,
    num_attention_heads=4,
    joint_attention_dim=64,
    caption_projection_dim=64,
    pooled_projection_dim=64,
    pos_embed_max_size=24,
)

torch.manual_seed(0)

args = parse(["batch_size"])
words = 16 if args.small else 154  # 77 of CLIP and 77 of T5

model = SD3Transformer2DModel(**PUBLISHED | (SMALL if args.small else {})).eval()
config = model.config
inputs = {
    "hidden_states": torch.randn(args.batch_size, config.in_channels, config.sample_size, config.sample_size),
    "encoder_hidden_states": torch.randn(args.batch_size, words, config.joint_attention_dim),
    "pooled_projections": torch.randn(args.batch_size, config.pooled_projection_dim),
    "timestep": torch.full((args.batch_size,), 500),
}

with torch.no_grad():
    model(**inputs)
