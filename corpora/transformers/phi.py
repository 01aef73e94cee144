# labels: name::phi author::microsoft task::text-generation domain::nlp license::mit
"""Phi-1.5: attention and feed-forward in parallel, half of each head rotary.

Sizes of https://huggingface.co/microsoft/phi-1_5; paper https://arxiv.org/abs/2309.05463
"""

from proveout.parser import parse

import torch
from transformers import PhiConfig, PhiForCausalLM

PUBLISHED = dict(
    vocab_size=51200,
    hidden_size=2048,
    num_hidden_layers=24,
    num_attention_heads=32,
    intermediate_size=8192,
    max_position_embeddings=2048,
    rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    num_key_value_heads=4,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = PhiConfig(**PUBLISHED | (SMALL if args.small else {}))
model = PhiForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
