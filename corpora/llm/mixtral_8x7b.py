# labels: name::mixtral_8x7b author::mistralai task::text-generation domain::nlp license::apache-2.0
"""Mixtral 8x7B: two of eight experts for each token. 187 GB in float32.

Sizes of https://huggingface.co/mistralai/Mixtral-8x7B-v0.1; paper https://arxiv.org/abs/2401.04088
Plan it without its weights: proveout generate llm/mixtral_8x7b --dry-run
"""

from proveout.parser import parse

import torch
from transformers import MixtralConfig, MixtralForCausalLM

PUBLISHED = dict(
    vocab_size=32000,
    hidden_size=4096,
    num_hidden_layers=32,
    num_attention_heads=32,
    intermediate_size=14336,
    num_key_value_heads=8,
    max_position_embeddings=32768,
    rms_norm_eps=1e-05,
    num_local_experts=8,
    num_experts_per_tok=2,
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
    num_local_experts=4,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = MixtralConfig(**PUBLISHED | (SMALL if args.small else {}))
model = MixtralForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
