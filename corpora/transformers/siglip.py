# labels: name::siglip author::google task::zero-shot-image-classification domain::multimodal license::apache-2.0
"""SigLIP base: CLIP with a sigmoid for each pair, and pooling by attention.

Sizes of https://huggingface.co/google/siglip-base-patch16-224; paper https://arxiv.org/abs/2303.15343
"""

from proveout.parser import parse

import torch
from transformers import SiglipConfig, SiglipModel

TEXT = dict(
    vocab_size=32000,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    max_position_embeddings=64,
    bos_token_id=0,
    eos_token_id=1,
    pad_token_id=1,
)
TEXT_SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=128,
    max_position_embeddings=16,
    bos_token_id=998,
    eos_token_id=999,
    projection_size=128,
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

args = parse(["batch_size"])
(batch_size,) = args

config = SiglipConfig(
    text_config=TEXT | (TEXT_SMALL if args.small else {}), vision_config=VISION | (VISION_SMALL if args.small else {})
)
model = SiglipModel(config).eval()
texts = torch.randint(3, config.text_config.vocab_size, (2 * batch_size, config.text_config.max_position_embeddings))
texts[:, -1] = config.text_config.eos_token_id
size = config.vision_config.image_size
inputs = {
    "input_ids": texts,
    "pixel_values": torch.randn(batch_size, 3, size, size),
}

with torch.no_grad():
    model(**inputs)
