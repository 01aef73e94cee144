# labels: name::qwen2 author::qwen task::text-generation domain::nlp license::apache-2.0
"""Qwen2.5 0.5B: Llama's architecture with biases on queries, keys and values.

Sizes of https://huggingface.co/Qwen/Qwen2.5-0.5B; paper https://arxiv.org/abs/2412.15115
"""

from proveout.parser import parse

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

PUBLISHED = dict(
    vocab_size=151936,
    hidden_size=896,
    num_hidden_layers=24,
    num_attention_heads=14,
    intermediate_size=4864,
    num_key_value_heads=2,
    max_position_embeddings=32768,
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
