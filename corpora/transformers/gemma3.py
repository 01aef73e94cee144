# labels: name::gemma3 author::google task::text-generation domain::nlp license::gemma
"""Gemma 3 270M: five local layers to a global one, each kind with rotary positions of its own.

Sizes of https://huggingface.co/google/gemma-3-270m; paper https://arxiv.org/abs/2503.19786
"""

from proveout.parser import parse

import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

PUBLISHED = dict(
    vocab_size=262144,
    hidden_size=640,
    num_hidden_layers=18,
    num_attention_heads=4,
    intermediate_size=2048,
    num_key_value_heads=1,
    head_dim=256,
    query_pre_attn_scalar=256,
    sliding_window=512,
    max_position_embeddings=32768,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    num_key_value_heads=1,
    head_dim=32,
    query_pre_attn_scalar=32,
    sliding_window=16,
    layer_types=["sliding_attention", "full_attention"],
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = Gemma3TextConfig(**PUBLISHED | (SMALL if args.small else {}))
model = Gemma3ForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
