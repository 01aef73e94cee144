# labels: name::falcon_7b author::tiiuae task::text-generation domain::nlp license::apache-2.0
"""Falcon 7B: one key head for 71 query heads, attention and feed-forward in parallel. 29 GB in float32.

Sizes of https://huggingface.co/tiiuae/falcon-7b; paper https://arxiv.org/abs/2311.16867
Plan it without its weights: proveout generate llm/falcon_7b --dry-run
"""

from proveout.parser import parse

import torch
from transformers import FalconConfig, FalconForCausalLM

PUBLISHED = dict(
    vocab_size=65024,
    hidden_size=4544,
    num_hidden_layers=32,
    num_attention_heads=71,
    multi_query=True,
    parallel_attn=True,
    new_decoder_architecture=False,
    bias=False,
    alibi=False,
    max_position_embeddings=2048,
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
