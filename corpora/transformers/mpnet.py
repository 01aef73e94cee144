# labels: name::mpnet author::microsoft task::fill-mask domain::nlp license::mit
"""MPNet base: masked and permuted pre-training, with bucketed relative positions.

Sizes of https://huggingface.co/microsoft/mpnet-base; paper https://arxiv.org/abs/2004.09297
"""

from proveout.parser import parse

import torch
from transformers import MPNetConfig, MPNetForMaskedLM

PUBLISHED = dict(
    vocab_size=30527,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    max_position_embeddings=514,
    layer_norm_eps=1e-05,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = MPNetConfig(**PUBLISHED | (SMALL if args.small else {}))
model = MPNetForMaskedLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
