# labels: name::gemma author::google task::text-generation domain::nlp license::gemma
"""Gemma 2B: one key head for all queries, heads of 256, GeGLU.

Sizes of https://huggingface.co/google/gemma-2b; paper https://arxiv.org/abs/2403.08295
"""

from proveout.parser import parse

import torch
from transformers import GemmaConfig, GemmaForCausalLM

PUBLISHED = dict(
    vocab_size=256000,
    hidden_size=2048,
    num_hidden_layers=18,
    num_attention_heads=8,
    intermediate_size=16384,
    num_key_value_heads=1,
    head_dim=256,
    max_position_embeddings=8192,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    num_key_value_heads=1,
    head_dim=32,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = GemmaConfig(**PUBLISHED | (SMALL if args.small else {}))
model = GemmaForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
