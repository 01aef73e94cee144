# labels: name::distilbert author::distilbert task::fill-mask domain::nlp license::apache-2.0
"""DistilBERT base: half of BERT's layers, taught by BERT.

Sizes of https://huggingface.co/distilbert/distilbert-base-uncased; paper https://arxiv.org/abs/1910.01108
"""

from proveout.parser import parse

import torch
from transformers import DistilBertConfig, DistilBertForMaskedLM

PUBLISHED = dict(
    vocab_size=30522,
    dim=768,
    n_layers=6,
    n_heads=12,
    hidden_dim=3072,
    max_position_embeddings=512,
)
SMALL = dict(
    vocab_size=1000,
    dim=128,
    n_layers=2,
    n_heads=4,
    hidden_dim=256,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = DistilBertConfig(**PUBLISHED | (SMALL if args.small else {}))
model = DistilBertForMaskedLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
