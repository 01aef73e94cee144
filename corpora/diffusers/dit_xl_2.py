# labels: name::dit_xl_2 author::facebook task::class-to-image domain::vision license::cc-by-nc-4.0
"""DiT-XL/2 for images of 256 pixels: a diffusion transformer told the class and the step, 750 M parameters as diffusers
builds it (675 M in the paper: here every block has embeddings of its own).

Sizes of https://huggingface.co/facebook/DiT-XL-2-256/blob/main/transformer/config.json
Paper: https://arxiv.org/abs/2212.09748
With --small a 16 x 16 latent and 2 layers of 4 heads of 16.
"""

from proveout.parser import parse

import torch
from diffusers import DiTTransformer2DModel

PUBLISHED = dict(
    sample_size=32,
    patch_size=2,
    in_channels=4,
    out_channels=8,
    num_layers=28,
    num_attention_heads=16,
    attention_head_dim=72,
    num_embeds_ada_norm=1000,
)
SMALL = dict(sample_size=16, num_layers=2, num_attention_heads=4, attention_head_dim=16)

torch.manual_seed(0)

args = parse(["batch_size"])

model = DiTTransformer2DModel(**PUBLISHED | (SMALL if args.small else {})).eval()
config = model.config
inputs = {
    "hidden_states": torch.randn(args.batch_size, config.in_channels, config.sample_size, config.sample_size),
    "timestep": torch.full((args.batch_size,), 500),
    "class_labels": torch.randint(1000, (args.batch_size,)),
}

with torch.no_grad():
    model(**inputs)
