# labels: name::blenderbot_small author::facebook task::text-generation domain::nlp license::apache-2.0
"""BlenderBot, 90M: open-domain chat.

Sizes of https://huggingface.co/facebook/blenderbot_small-90M; paper https://arxiv.org/abs/2004.13637
"""

from proveout.parser import parse

import torch
from transformers import BlenderbotSmallConfig, BlenderbotSmallForConditionalGeneration

PUBLISHED = dict(
    vocab_size=54944,
    d_model=512,
    encoder_layers=8,
    decoder_layers=8,
    encoder_ffn_dim=2048,
    decoder_ffn_dim=2048,
    encoder_attention_heads=16,
    decoder_attention_heads=16,
    max_position_embeddings=512,
    scale_embedding=True,
)
SMALL = dict(
    vocab_size=1000,
    d_model=128,
    encoder_layers=2,
    decoder_layers=2,
    encoder_ffn_dim=256,
    decoder_ffn_dim=256,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    max_position_embeddings=64,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = BlenderbotSmallConfig(**PUBLISHED | (SMALL if args.small else {}))
model = BlenderbotSmallForConditionalGeneration(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "decoder_input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
