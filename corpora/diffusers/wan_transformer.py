# labels: name::wan_transformer author::wan-ai task::text-to-video domain::vision license::apache-2.0
"""The transformer of Wan 2.1 T2V, 1.4 B parameters: one step of a video of 81 frames of 480 x 832 pixels.

Sizes of https://huggingface.co/Wan-AI/Wan2.1-T2V-1.3B-Diffusers/blob/main/transformer/config.json
Paper: https://arxiv.org/abs/2503.20314
With --small 2 latent frames of 8 x 8, 2 layers of 4 heads of 24, and 16 words.
"""

from proveout.parser import parse

import torch
from diffusers import WanTransformer3DModel

PUBLISHED = dict(
    num_layers=30,
    num_attention_heads=12,
    attention_head_dim=128,
    ffn_dim=8960,
    text_dim=4096,
    freq_dim=256,
    in_channels=16,
    out_channels=16,
)
SMALL = dict(num_layers=2, num_attention_heads=4, attention_head_dim=24, ffn_dim=128, text_dim=64, freq_dim=64)

torch.manual_seed(0)

args = parse(["batch_size"])
frames, height, width, words = (2, 8, 8, 16) if args.small else (21, 60, 104, 512)

model = WanTransformer3DModel(**PUBLISHED | (SMALL if args.small else {})).eval()
config = model.config
inputs = {
    "hidden_states": torch.randn(args.batch_size, config.in_channels, frames, height, width),
    "timestep": torch.full((args.batch_size,), 500),
    "encoder_hidden_states": torch.randn(args.batch_size, words, config.text_dim),
}

with torch.no_grad():
    model(**inputs)
