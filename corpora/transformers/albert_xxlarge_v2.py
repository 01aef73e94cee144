# labels: name::albert_xxlarge_v2 author::google task::fill-mask domain::nlp license::apache-2.0
"""ALBERT xxlarge v2: one layer's weights serve all 12 layers, and embeddings are factorised.

Sizes of https://huggingface.co/albert/albert-xxlarge-v2; paper https://arxiv.org/abs/1909.11942
"""

from proveout.parser import parse, smaller

import torch
from transformers import AlbertConfig, AlbertForMaskedLM

PUBLISHED = dict(
    vocab_size=30000,
    embedding_size=128,
    hidden_size=4096,
    num_hidden_layers=12,
    num_attention_heads=64,
    intermediate_size=16384,
)
SMALL = smaller(PUBLISHED)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = AlbertConfig(**PUBLISHED | (SMALL if args.small else {}))
model = AlbertForMaskedLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
