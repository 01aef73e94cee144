# labels: name::mobilebert author::google task::fill-mask domain::nlp license::apache-2.0
"""MobileBERT: 24 thin layers with bottlenecks, stacked feed-forwards and no layer normalisation.

Sizes of https://huggingface.co/google/mobilebert-uncased; paper https://arxiv.org/abs/2004.02984
"""

from proveout.parser import parse

import torch
from transformers import MobileBertConfig, MobileBertForMaskedLM

PUBLISHED = dict(
    vocab_size=30522,
    embedding_size=128,
    hidden_size=512,
    intra_bottleneck_size=128,
    num_hidden_layers=24,
    num_attention_heads=4,
    intermediate_size=512,
    num_feedforward_networks=4,
)
SMALL = dict(
    vocab_size=1000,
    embedding_size=64,
    hidden_size=128,
    intra_bottleneck_size=64,
    num_hidden_layers=2,
    intermediate_size=128,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = MobileBertConfig(**PUBLISHED | (SMALL if args.small else {}))
model = MobileBertForMaskedLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
