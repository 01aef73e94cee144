# labels: name::blip author::salesforce task::image-to-text domain::multimodal license::bsd-3-clause
"""BLIP base: writes captions; the text decoder attends to the image.

Sizes of https://huggingface.co/Salesforce/blip-image-captioning-base; paper https://arxiv.org/abs/2201.12086
"""

from proveout.parser import parse

import torch
from transformers import BlipConfig, BlipForConditionalGeneration

TEXT = dict(
    vocab_size=30524,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    max_position_embeddings=512,
)
TEXT_SMALL = dict(
    vocab_size=1000,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=128,
    bos_token_id=1,
    eos_token_id=2,
    sep_token_id=2,
    encoder_hidden_size=128,
)
VISION = dict(
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    image_size=384,
    patch_size=16,
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

config = BlipConfig(
    text_config=TEXT | (TEXT_SMALL if args.small else {}),
    vision_config=VISION | (VISION_SMALL if args.small else {}),
    projection_dim=64 if args.small else 512,
)
model = BlipForConditionalGeneration(config).eval()
size = config.vision_config.image_size
inputs = {
    "input_ids": torch.randint(3, config.text_config.vocab_size, (batch_size, 16)),
    "pixel_values": torch.randn(batch_size, 3, size, size),
}

with torch.no_grad():
    model(**inputs)
