# labels: name::qwen3 author::qwen task::text-generation domain::nlp license::apache-2.0
"""Qwen3 0.6B: queries and keys are normalised head by head.

Sizes of https://huggingface.co/Qwen/Qwen3-0.6B; paper https://arxiv.org/abs/2505.09388
"""

from proveout.parser import parse

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

PUBLISHED = dict(
    vocab_size=151936,
    hidden_size=1024,
    num_hidden_layers=28,
    num_attention_heads=16,
    intermediate_size=3072,
    num_key_value_heads=8,
    head_dim=128,
    max_position_embeddings=40960,
    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
    tie_word_embeddings=True,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    num_key_value_heads=2,
    head_dim=32,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = Qwen3Config(**PUBLISHED | (SMALL if args.small else {}))
model = Qwen3ForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
