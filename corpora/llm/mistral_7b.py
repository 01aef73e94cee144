# labels: name::mistral_7b author::mistralai task::text-generation domain::nlp license::apache-2.0
"""Mistral 7B v0.3: grouped query heads, no window. 29 GB in float32.

Sizes of https://huggingface.co/mistralai/Mistral-7B-v0.3; paper https://arxiv.org/abs/2310.06825
Plan it without its weights: proveout generate llm/mistral_7b --dry-run
"""

from proveout.parser import parse

import torch
from transformers import MistralConfig, MistralForCausalLM

PUBLISHED = dict(
    vocab_size=32768,
    hidden_size=4096,
    num_hidden_layers=32,
    num_attention_heads=32,
    intermediate_size=14336,
    num_key_value_heads=8,
    head_dim=128,
    max_position_embeddings=32768,
    rms_norm_eps=1e-05,
    sliding_window=None,
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

config = MistralConfig(**PUBLISHED | (SMALL if args.small else {}))
model = MistralForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
