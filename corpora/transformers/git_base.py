# labels: name::git_base author::microsoft task::image-to-text domain::multimodal license::mit
"""GIT base: one decoder reads CLIP's image tokens, then writes the caption.

Sizes of https://huggingface.co/microsoft/git-base; paper https://arxiv.org/abs/2205.14100
"""

from proveout.parser import parse

import torch
from transformers import GitConfig, GitForCausalLM

PUBLISHED = dict(
    vocab_size=30522,
    hidden_size=768,
    num_hidden_layers=6,
    num_attention_heads=12,
    intermediate_size=3072,
    max_position_embeddings=1024,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    max_position_embeddings=64,
)
VISION = dict(
    hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072, image_size=224, patch_size=16
)
VISION_SMALL = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256, image_size=64)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

vision = VISION | (VISION_SMALL if args.small else {})
config = GitConfig(**PUBLISHED | (SMALL if args.small else {}), vision_config=vision)
model = GitForCausalLM(config).eval()
size = config.vision_config.image_size
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, 16)),
    "attention_mask": torch.ones(batch_size, 16, dtype=torch.long),
    "pixel_values": torch.randn(batch_size, 3, size, size),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
