# labels: name::qwen_3_8b author::qwen task::text-generation domain::nlp license::apache-2.0
"""Qwen3 8B: queries and keys are normalised head by head. 33 GB in float32.

Sizes of https://huggingface.co/Qwen/Qwen3-8B; paper https://arxiv.org/abs/2505.09388
Plan it without its weights: proveout generate llm/qwen_3_8b --dry-run
"""

from proveout.parser import parse

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

PUBLISHED = dict(
    vocab_size=151936,
    hidden_size=4096,
    num_hidden_layers=36,
    num_attention_heads=32,
    intermediate_size=12288,
    num_key_value_heads=8,
    head_dim=128,
    max_position_embeddings=40960,
    rms_norm_eps=1e-06,
    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
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
