# labels: name::sdxl_text_encoder_2 author::laion task::feature-extraction domain::nlp license::openrail++
"""The second text encoder of Stable Diffusion XL (OpenCLIP ViT-bigG/14), 695 M parameters: 77 words.

Sizes of https://huggingface.co/stabilityai/stable-diffusion-xl-base-1.0/blob/main/text_encoder_2/config.json
With --small 2 layers, 64 wide, 1,000 words of vocabulary and 16 words of text.
"""

from proveout.parser import parse

import torch
from transformers import CLIPTextConfig, CLIPTextModelWithProjection

PUBLISHED = dict(
    hidden_size=1280,
    intermediate_size=5120,
    num_hidden_layers=32,
    num_attention_heads=20,
    projection_dim=1280,
    hidden_act="gelu",
    vocab_size=49408,
    max_position_embeddings=77,
)
SMALL = dict(
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    projection_dim=64,
    vocab_size=1000,
    max_position_embeddings=16,
    eos_token_id=999,
)

torch.manual_seed(0)

args = parse(["batch_size"])
config = CLIPTextConfig(**PUBLISHED | (SMALL if args.small else {}))

model = CLIPTextModelWithProjection(config).eval()
input_ids = torch.randint(3, config.vocab_size - 2, (args.batch_size, config.max_position_embeddings))
input_ids[:, -1] = config.vocab_size - 1  # the end of the text, where the pooled output is taken

with torch.no_grad():
    model(input_ids=input_ids)
