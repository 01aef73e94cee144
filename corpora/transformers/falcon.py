# labels: name::falcon author::tiiuae task::text-generation domain::nlp license::apache-2.0
"""Falcon RW 1B: the small Falcon trained on RefinedWeb alone, with ALiBi.

Sizes of https://huggingface.co/tiiuae/falcon-rw-1b; paper https://arxiv.org/abs/2306.01116
"""

from proveout.parser import parse

import torch
from transformers import FalconConfig, FalconForCausalLM

PUBLISHED = dict(
    vocab_size=50304,
    hidden_size=2048,
    num_hidden_layers=24,
    num_attention_heads=32,
    alibi=True,
    bias=True,
    multi_query=False,
    parallel_attn=False,
    new_decoder_architecture=False,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = FalconConfig(**PUBLISHED | (SMALL if args.small else {}))
model = FalconForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
