# labels: name::rembert author::google task::fill-mask domain::nlp license::apache-2.0
"""RemBERT: small input embeddings, large output ones, 32 layers, 110 languages.

Sizes of https://huggingface.co/google/rembert; paper https://arxiv.org/abs/2010.12821
"""

from proveout.parser import parse

import torch
from transformers import RemBertConfig, RemBertForMaskedLM

PUBLISHED = dict(
    vocab_size=250300,
    input_embedding_size=256,
    output_embedding_size=1664,
    hidden_size=1152,
    num_hidden_layers=32,
    num_attention_heads=18,
    intermediate_size=4608,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    input_embedding_size=64,
    output_embedding_size=192,
    bos_token_id=1,
    eos_token_id=2,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = RemBertConfig(**PUBLISHED | (SMALL if args.small else {}))
model = RemBertForMaskedLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
