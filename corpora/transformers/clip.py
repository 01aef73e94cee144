# labels: name::clip author::openai task::zero-shot-image-classification domain::multimodal license::mit
"""CLIP ViT-B/32: two texts for each image, compared in one space.

Sizes of https://huggingface.co/openai/clip-vit-base-patch32; paper https://arxiv.org/abs/2103.00020
"""

from proveout.parser import parse

import torch
from transformers import CLIPConfig, CLIPModel

TEXT = dict(
    vocab_size=49408,
    hidden_size=512,
    num_hidden_layers=12,
    num_attention_heads=8,
    intermediate_size=2048,
    max_position_embeddings=77,
)
TEXT_SMALL = dict(
    vocab_size=1000,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=128,
    max_position_embeddings=16,
    bos_token_id=998,
    eos_token_id=999,
)
VISION = dict(
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    image_size=224,
    patch_size=32,
)
VISION_SMALL = dict(
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    image_size=64,
)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

config = CLIPConfig(
    text_config=TEXT | (TEXT_SMALL if args.small else {}),
    vision_config=VISION | (VISION_SMALL if args.small else {}),
    projection_dim=64 if args.small else 512,
)
model = CLIPModel(config).eval()
texts = torch.randint(3, config.text_config.vocab_size, (2 * batch_size, config.text_config.max_position_embeddings))
texts[:, -1] = config.text_config.eos_token_id
size = config.vision_config.image_size
inputs = {
    "input_ids": texts,
    "attention_mask": torch.ones_like(texts),
    "pixel_values": torch.randn(batch_size, 3, size, size),
}

with torch.no_grad():
    model(**inputs)
