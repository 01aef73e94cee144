# labels: name::pixart_alpha author::pixart-alpha task::text-to-image domain::vision license::openrail++
"""The transformer of PixArt-alpha XL/2 for 512 pixels, 611 M parameters: one step of a 64 x 64 latent, T5's words.

Sizes of https://huggingface.co/PixArt-alpha/PixArt-XL-2-512x512/blob/main/transformer/config.json
Paper: https://arxiv.org/abs/2310.00426
With --small a 16 x 16 latent, 2 layers of 4 heads of 16, and 16 words.
"""

from proveout.parser import parse

import torch
from diffusers import PixArtTransformer2DModel

PUBLISHED = dict(
    sample_size=64,
    num_layers=28,
    num_attention_heads=16,
    attention_head_dim=72,
    cross_attention_dim=1152,
    caption_channels=4096,
)
SMALL = dict(
    sample_size=16,
    num_layers=2,
    num_attention_heads=4,
    attention_head_dim=16,
    cross_attention_dim=64,
    caption_channels=64,
)

torch.manual_seed(0)

args = parse(["batch_size"])
words = 16 if args.small else 120

model = PixArtTransformer2DModel(**PUBLISHED | (SMALL if args.small else {})).eval()
config = model.config
inputs = {
    "hidden_states": torch.randn(args.batch_size, config.in_channels, config.sample_size, config.sample_size),
    "encoder_hidden_states": torch.randn(args.batch_size, words, config.caption_channels),
    "timestep": torch.full((args.batch_size,), 500),
    "added_cond_kwargs": {"resolution": None, "aspect_ratio": None},
}

with torch.no_grad():
    model(**inputs)
