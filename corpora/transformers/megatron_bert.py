# labels: name::megatron_bert author::nvidia task::fill-mask domain::nlp license::other
"""Megatron-BERT 345M: BERT large with the layer normalisation moved before each block.

Sizes of https://huggingface.co/nvidia/megatron-bert-uncased-345m; paper https://arxiv.org/abs/1909.08053
"""

from proveout.parser import parse

import torch
from transformers import MegatronBertConfig, MegatronBertForMaskedLM

PUBLISHED = dict(
    vocab_size=29056,
    hidden_size=1024,
    num_hidden_layers=24,
    num_attention_heads=16,
    intermediate_size=4096,
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

config = MegatronBertConfig(**PUBLISHED | (SMALL if args.small else {}))
model = MegatronBertForMaskedLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
