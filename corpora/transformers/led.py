# labels: name::led author::allenai task::summarization domain::nlp license::apache-2.0
"""LED base: BART with Longformer's windows in its encoder, for 16384 tokens.

Sizes of https://huggingface.co/allenai/led-base-16384; paper https://arxiv.org/abs/2004.05150
"""

from proveout.parser import parse

import torch
from transformers import LEDConfig, LEDForConditionalGeneration

PUBLISHED = dict(
    vocab_size=50265,
    d_model=768,
    encoder_layers=6,
    decoder_layers=6,
    encoder_ffn_dim=3072,
    decoder_ffn_dim=3072,
    encoder_attention_heads=12,
    decoder_attention_heads=12,
    max_encoder_position_embeddings=16384,
    max_decoder_position_embeddings=1024,
    attention_window=1024,
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
    max_encoder_position_embeddings=64,
    max_decoder_position_embeddings=64,
    attention_window=16,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = LEDConfig(**PUBLISHED | (SMALL if args.small else {}))
model = LEDForConditionalGeneration(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "decoder_input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
