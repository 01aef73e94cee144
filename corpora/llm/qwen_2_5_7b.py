# labels: name::qwen_2_5_7b author::qwen task::text-generation domain::nlp license::apache-2.0
"""Qwen2.5 7B: biases on queries, keys and values, seven query heads to a key head. 30 GB in float32.

Sizes of https://huggingface.co/Qwen/Qwen2.5-7B; paper https://arxiv.org/abs/2412.15115
Plan it without its weights: proveout generate llm/qwen_2_5_7b --dry-run
"""

from proveout.parser import parse

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

PUBLISHED = dict(
    vocab_size=152064,
    hidden_size=3584,
    num_hidden_layers=28,
    num_attention_heads=28,
    intermediate_size=18944,
    num_key_value_heads=4,
    max_position_embeddings=131072,
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
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = Qwen2Config(**PUBLISHED | (SMALL if args.small else {}))
model = Qwen2ForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
