# labels: name::funnel author::funnel-transformer task::fill-mask domain::nlp license::apache-2.0
"""Funnel Transformer, small: the sequence is pooled between blocks and restored by a decoder.

Sizes of https://huggingface.co/funnel-transformer/small; paper https://arxiv.org/abs/2006.03236
"""

from proveout.parser import parse

import torch
from transformers import FunnelConfig, FunnelForMaskedLM

PUBLISHED = dict(
    vocab_size=30522,
    block_sizes=[4, 4, 4],
    num_decoder_layers=2,
    d_model=768,
    n_head=12,
    d_head=64,
    d_inner=3072,
)
SMALL = dict(
    vocab_size=1000,
    block_sizes=[1, 1],
    num_decoder_layers=1,
    d_model=128,
    n_head=4,
    d_head=32,
    d_inner=256,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = FunnelConfig(**PUBLISHED | (SMALL if args.small else {}))
model = FunnelForMaskedLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
