# labels: name::phi_3_mini author::microsoft task::text-generation domain::nlp license::mit
"""Phi-3 mini: queries, keys and values in one product, attention in a window. 15 GB in float32.

Sizes of https://huggingface.co/microsoft/Phi-3-mini-4k-instruct; paper https://arxiv.org/abs/2404.14219
Plan it without its weights: proveout generate llm/phi_3_mini --dry-run
"""

from proveout.parser import parse

import torch
from transformers import Phi3Config, Phi3ForCausalLM

PUBLISHED = dict(
    vocab_size=32064,
    hidden_size=3072,
    num_hidden_layers=32,
    num_attention_heads=32,
    intermediate_size=8192,
    num_key_value_heads=32,
    max_position_embeddings=4096,
    rms_norm_eps=1e-05,
    sliding_window=2047,
    rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    num_key_value_heads=4,
    sliding_window=16,
    pad_token_id=0,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = Phi3Config(**PUBLISHED | (SMALL if args.small else {}))
model = Phi3ForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
