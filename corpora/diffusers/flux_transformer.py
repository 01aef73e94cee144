# labels: name::flux_transformer author::black-forest-labs task::text-to-image domain::vision license::apache-2.0
"""The transformer of FLUX.1 schnell, 11.9 B parameters: one step of a 1024-pixel image (64 x 64 packed latents).

Sizes of https://huggingface.co/black-forest-labs/FLUX.1-schnell/blob/main/transformer/config.json
Its weights alone take 48 GB in float32. With --small 8 x 8 latents, 1 double and 2 single layers of 4 heads of 32,
and 16 words.
"""

from proveout.parser import parse

import torch
from diffusers import FluxTransformer2DModel

PUBLISHED = dict(
    in_channels=64,
    num_layers=19,
    num_single_layers=38,
    attention_head_dim=128,
    num_attention_heads=24,
    joint_attention_dim=4096,
    pooled_projection_dim=768,
    axes_dims_rope=(16, 56, 56),
)
SMALL = dict(
    in_channels=16,
    num_layers=1,
    num_single_layers=2,
    attention_head_dim=32,
    num_attention_heads=4,
    joint_attention_dim=64,
    pooled_projection_dim=64,
    axes_dims_rope=(8, 12, 12),
)

torch.manual_seed(0)

args = parse(["batch_size"])
side, words = (8, 16) if args.small else (64, 256)

model = FluxTransformer2DModel(**PUBLISHED | (SMALL if args.small else {})).eval()
config = model.config
rows, columns = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
inputs = {
    "hidden_states": torch.randn(args.batch_size, side * side, config.in_channels),
    "encoder_hidden_states": torch.randn(args.batch_size, words, config.joint_attention_dim),
    "pooled_projections": torch.randn(args.batch_size, config.pooled_projection_dim),
    "timestep": torch.full((args.batch_size,), 0.5),
    "img_ids": torch.stack([torch.zeros_like(rows), rows, columns], dim=-1).view(-1, 3).float(),
    "txt_ids": torch.zeros(words, 3),
}

with torch.no_grad():
    model(**inputs)
