# labels: name::electra author::google task::feature-extraction domain::nlp license::apache-2.0
"""ELECTRA small, the discriminator: which tokens of a text were replaced.

Sizes of https://huggingface.co/google/electra-small-discriminator; paper https://arxiv.org/abs/2003.10555
"""

from proveout.parser import parse

import torch
from transformers import ElectraConfig, ElectraForPreTraining

PUBLISHED = dict(
    vocab_size=30522,
    embedding_size=128,
    hidden_size=256,
    num_hidden_layers=12,
    num_attention_heads=4,
    intermediate_size=1024,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    embedding_size=64,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = ElectraConfig(**PUBLISHED | (SMALL if args.small else {}))
model = ElectraForPreTraining(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
