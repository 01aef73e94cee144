# labels: name::longformer author::allenai task::fill-mask domain::nlp license::apache-2.0
"""Longformer base for 4096 tokens: attention in a sliding window of 512.

Sizes of https://huggingface.co/allenai/longformer-base-4096; paper https://arxiv.org/abs/2004.05150
"""

from proveout.parser import parse

import torch
from transformers import LongformerConfig, LongformerForMaskedLM

PUBLISHED = dict(
    vocab_size=50265,
    attention_window=512,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    max_position_embeddings=4098,
    type_vocab_size=1,
    layer_norm_eps=1e-05,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    attention_window=16,
    max_position_embeddings=66,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = LongformerConfig(**PUBLISHED | (SMALL if args.small else {}))
model = LongformerForMaskedLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
