# labels: name::chinese_clip author::ofa-sys task::zero-shot-image-classification domain::multimodal license::apache-2.0
"""Chinese-CLIP ViT-B/16: a Chinese RoBERTa beside CLIP's image encoder.

Sizes of https://huggingface.co/OFA-Sys/chinese-clip-vit-base-patch16; paper https://arxiv.org/abs/2211.01335
"""

from proveout.parser import parse

import torch
from transformers import ChineseCLIPConfig, ChineseCLIPModel

TEXT = dict(
    vocab_size=21128,
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
    max_position_embeddings=64,
)
VISION = dict(
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    image_size=224,
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

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = ChineseCLIPConfig(
    text_config=TEXT | (TEXT_SMALL if args.small else {}),
    vision_config=VISION | (VISION_SMALL if args.small else {}),
    projection_dim=64 if args.small else 512,
)
model = ChineseCLIPModel(config).eval()
texts = torch.randint(3, config.text_config.vocab_size, (2 * batch_size, max_seq_length))
size = config.vision_config.image_size
inputs = {
    "input_ids": texts,
    "attention_mask": torch.ones_like(texts),
    "pixel_values": torch.randn(batch_size, 3, size, size),
}

with torch.no_grad():
    model(**inputs)
