# labels: name::marian author::helsinki-nlp task::translation domain::nlp license::cc-by-4.0
"""Marian, English to German: the OPUS-MT translator.

Sizes of https://huggingface.co/Helsinki-NLP/opus-mt-en-de; https://aclanthology.org/2020.eamt-1.61
"""

from proveout.parser import parse

import torch
from transformers import MarianConfig, MarianMTModel

PUBLISHED = dict(
    vocab_size=58101,
    d_model=512,
    encoder_layers=6,
    decoder_layers=6,
    encoder_ffn_dim=2048,
    decoder_ffn_dim=2048,
    encoder_attention_heads=8,
    decoder_attention_heads=8,
    max_position_embeddings=512,
    scale_embedding=True,
    activation_function="swish",
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
    decoder_vocab_size=1000,
    pad_token_id=1,
    decoder_start_token_id=1,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = MarianConfig(**PUBLISHED | (SMALL if args.small else {}))
model = MarianMTModel(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "decoder_input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
