# labels: name::smolvlm author::huggingfacetb task::image-text-to-text domain::multimodal license::apache-2.0
"""SmolVLM 256M: one image of 512 by 512 becomes 64 tokens among the text's.

Sizes of https://huggingface.co/HuggingFaceTB/SmolVLM-256M-Instruct; paper https://arxiv.org/abs/2504.05299
"""

from proveout.parser import parse

import torch
from transformers import SmolVLMConfig, SmolVLMForConditionalGeneration

TEXT = dict(
    model_type="llama",
    vocab_size=49280,
    hidden_size=576,
    num_hidden_layers=30,
    num_attention_heads=9,
    num_key_value_heads=3,
    intermediate_size=1536,
    head_dim=64,
    max_position_embeddings=8192,
    rms_norm_eps=1e-5,
    rope_parameters=dict(rope_type="default", rope_theta=100000.0),
    tie_word_embeddings=False,
)
TEXT_SMALL = dict(
    vocab_size=1000,
    hidden_size=96,
    num_hidden_layers=2,
    num_attention_heads=3,
    num_key_value_heads=1,
    head_dim=32,
    intermediate_size=192,
)
VISION = dict(
    hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072, image_size=512, patch_size=16
)
VISION_SMALL = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128, image_size=128)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

text = TEXT | (TEXT_SMALL if args.small else {})
vision = VISION | (VISION_SMALL if args.small else {})
config = SmolVLMConfig(
    text_config=text, vision_config=vision, scale_factor=4, image_token_id=text["vocab_size"] - 1, pad_token_id=2
)
model = SmolVLMForConditionalGeneration(config).eval()
size = vision["image_size"]
image_tokens = (size // vision["patch_size"] // config.scale_factor) ** 2
words = torch.randint(3, 900, (batch_size, max_seq_length))
image = torch.full((batch_size, image_tokens), config.image_token_id)
input_ids = torch.cat([words[:, :4], image, words[:, 4:]], dim=1)
inputs = {
    "input_ids": input_ids,
    "attention_mask": torch.ones_like(input_ids),
    "pixel_values": torch.randn(batch_size, 1, 3, size, size),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
