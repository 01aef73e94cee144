# labels: name::bert author::google task::fill-mask domain::nlp license::apache-2.0
"""BERT base: a bidirectional encoder, here with its masked-language head.

Sizes of https://huggingface.co/google-bert/bert-base-uncased; paper https://arxiv.org/abs/1810.04805
"""

from proveout.parser import parse

import torch
from transformers import BertConfig, BertForMaskedLM

PUBLISHED = dict(
    vocab_size=30522,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    max_position_embeddings=512,
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

config = BertConfig(**PUBLISHED | (SMALL if args.small else {}))
model = BertForMaskedLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
